"""The methods of the protocol, in both eras, whatever the transport.

Since 2026-07-28 a request carries the version and the client's capabilities, and a question is an answer with
`input_required`, which the client sends again with the answer. Before, a connection begins with `initialize`, and a
question is a request to the client.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

from outrider.jsonrpc import METHOD_NOT_FOUND, RpcError
from outrider.mcp import protocol
from outrider.mcp_server.task_tool import NAME, Elicit
from outrider.version import __version__

INFO = {"name": "outrider", "title": "Outrider", "version": __version__}
INSTRUCTIONS = f"Outrider is a coding agent. {NAME} lets it work on a task in a folder of this machine."
CAPABILITIES: dict[str, Any] = {"tools": {}}
ANSWER_SECONDS = 600.0
"""How long a task waits for the client to come back with an answer."""
MOST_WAITING = 50
_QUESTION = "question"


class Caller(Protocol):
    """Who has sent a request, for the time of its answer."""

    capabilities: Mapping[str, Any]
    """Those of `initialize`; unused if the request has its own."""

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification about the request."""

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request that belongs to it, and return the result. Raises RpcError."""
        ...


class ServedTool(NamedTuple):
    """A tool of the server: its description, and the function that takes arguments, a way to ask, and steps."""

    spec: dict[str, Any]
    run: Callable[[Any, Elicit | None, Callable[[str], None]], Awaitable[dict[str, Any]]]


class Host:
    """Answers the requests of all clients."""

    def __init__(self, tools: Iterable[ServedTool], *, may_ask: bool = True) -> None:
        """With `may_ask`, clients are asked what needs approval."""
        self._tools = {tool.spec["name"]: tool for tool in tools}
        self._may_ask = may_ask
        self._waiting: dict[str, _Conversation] = {}
        """The tasks that wait for an answer of a client, by their states (since 2026-07-28)."""
        self.methods: dict[str, Callable[[dict[str, Any], Caller], Awaitable[dict[str, Any]]]] = {
            protocol.INITIALIZE: self._initialize,
            protocol.DISCOVER: self._discover,
            protocol.PING: self._ping,
            protocol.LIST_TOOLS: self._list_tools,
            protocol.CALL_TOOL: self._call_tool,
        }

    async def answer(self, method: str, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Return the result of a request. Raises RpcError."""
        run = self.methods.get(method)
        if run is None:
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {method[:100]!r}.")
        version = _meta(params).get(protocol.VERSION_KEY)
        if version is None:
            return await run(params, caller)
        if version not in protocol.MODERN_VERSIONS:
            raise unsupported(version)
        if method in (protocol.INITIALIZE, protocol.PING):
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {method!r} since {version}.")
        if not isinstance(_meta(params).get(protocol.CAPABILITIES_KEY), dict):
            raise RpcError.invalid_params(f"The request has no _meta with {protocol.CAPABILITIES_KEY}.")
        return {"resultType": "complete", **await run(params, caller)}

    async def close(self) -> None:
        """End the tasks that wait for a client."""
        for each in self._waiting.values():
            each.cancel()
        await asyncio.gather(*(each.task for each in self._waiting.values()), return_exceptions=True)
        self._waiting.clear()

    # Methods

    async def _initialize(self, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        version = wanted if wanted in protocol.HANDSHAKE_VERSIONS else protocol.HANDSHAKE_VERSIONS[0]
        about = {"serverInfo": INFO, "instructions": INSTRUCTIONS}
        return {"protocolVersion": version, "capabilities": CAPABILITIES, **about}

    async def _discover(self, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        return {
            "supportedVersions": list(protocol.MODERN_VERSIONS),
            "capabilities": CAPABILITIES,
            "instructions": INSTRUCTIONS,
            "_meta": {protocol.SERVER_INFO_KEY: INFO},
            **_CACHED,
        }

    async def _ping(self, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        return {}

    async def _list_tools(self, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        return {
            "tools": [tool.spec for tool in self._tools.values()],
            **(_CACHED if protocol.VERSION_KEY in _meta(params) else {}),
        }

    async def _call_tool(self, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        tool = self._tools.get(str(params.get("name")))
        if tool is None:
            raise RpcError.invalid_params(f"Unknown tool: {str(params.get('name'))[:100]}")
        meta, given = _meta(params), params.get("arguments")
        on_step = _progress(meta.get("progressToken"), caller)
        if protocol.VERSION_KEY not in meta:
            elicit = self._elicit(caller.capabilities, partial(caller.request, protocol.ELICIT))
            return await tool.run(given, elicit, on_step)
        state = params.get("requestState")
        if state is None:
            talk = _Conversation()
            elicit = self._elicit(meta[protocol.CAPABILITIES_KEY], talk.ask)
            talk.on_step = on_step
            talk.task = asyncio.ensure_future(tool.run(given, elicit, lambda text: talk.on_step(text)))
        else:
            found = self._waiting.pop(state, None) if isinstance(state, str) else None
            if found is None:
                raise RpcError.invalid_params("The requestState is not known here: the task ended, or was cancelled.")
            talk = found
            talk.on_step = on_step
            if not talk.give(params.get("inputResponses")):
                return self._asked(talk)
        return self._asked(talk) if await talk.next_question() else talk.task.result()

    def _asked(self, talk: _Conversation) -> dict[str, Any]:
        """Return the question as an answer. The client comes back with the state, and what the person says."""
        while len(self._waiting) >= MOST_WAITING:
            self._waiting.pop(next(iter(self._waiting))).cancel()
        state = os.urandom(16).hex()
        self._waiting[state] = talk
        asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._forget, state)
        asked = {_QUESTION: {"method": protocol.ELICIT, "params": talk.params}}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}

    def _forget(self, state: str) -> None:
        if talk := self._waiting.pop(state, None):
            talk.cancel()

    def _elicit(self, capabilities: Mapping[str, Any], ask: Elicit) -> Elicit | None:
        offered = capabilities.get("elicitation")
        has_forms = isinstance(offered, dict) and (not offered or "form" in offered)
        return ask if has_forms and self._may_ask else None


_CACHED = {"ttlMs": 3_600_000, "cacheScope": "public"}


class _Conversation:
    """A task that may ask several times, each time in the answer to another request."""

    def __init__(self) -> None:
        self.task: asyncio.Future[dict[str, Any]]
        self.on_step: Callable[[str], None] = _nobody
        self._asked: asyncio.Queue[tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = asyncio.Queue()
        self._open: asyncio.Future[dict[str, Any]] | None = None
        self.params: dict[str, Any] = {}
        """The newest question."""

    async def ask(self, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the client. Called by the task."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        await self._asked.put((params, answer))
        return await answer

    async def next_question(self) -> bool:
        """Wait for the next question, and return whether there is one. Cancelling cancels the task."""
        asked = asyncio.ensure_future(self._asked.get())
        try:
            await asyncio.wait((self.task, asked), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.task.cancel()
            await asyncio.wait([self.task])
            raise
        finally:
            if not asked.done():
                asked.cancel()
        if not asked.done() or asked.cancelled():
            return False
        self.params, self._open = asked.result()
        self.on_step = _nobody  # until the client comes back
        return True

    def give(self, responses: object) -> bool:
        """Give the answer that the client has sent. Return whether there is one."""
        found = responses.get(_QUESTION) if isinstance(responses, dict) else None
        if isinstance(found, dict) and self._open and not self._open.done():
            self._open.set_result(found)
            return True
        return False

    def cancel(self) -> None:
        self.task.cancel()


def _meta(params: dict[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _nobody(_: str) -> None:
    """Tell nobody."""


def _progress(token: object, caller: Caller) -> Callable[[str], None]:
    if not isinstance(token, str | int) or isinstance(token, bool):
        return _nobody
    count = 0

    def tell(text: str) -> None:
        nonlocal count
        count += 1
        caller.notify(protocol.PROGRESS, {"progressToken": token, "progress": count, "message": text})

    return tell


def unsupported(version: object) -> RpcError:
    """Return the error for a version that is not spoken here."""
    data = {"supported": list(protocol.MODERN_VERSIONS), "requested": version}
    return RpcError(protocol.UNSUPPORTED_VERSION, "Unsupported protocol version", data)
