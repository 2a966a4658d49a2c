"""An editor on the small client `acp-client`: text alone, one session a process.

What the library has no way to ask for goes as JSON through its connection, and what it does not tell is read there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp_client import Agent

from tests.interop.driving import PLAY, Json


class _Connection(Agent):  # type: ignore[misc]
    """An agent of the library, with capabilities that it does not know, that tells all that comes."""

    def __init__(self, *arguments: Any, capabilities: Json, hear: Callable[[str, Json], None], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.results: dict[str, Json] = {}
        """The last result, by method."""
        self._capabilities = capabilities
        self._hear = hear

    async def request(self, method: str, **params: Any) -> Json:
        if method == "initialize":
            params["clientCapabilities"] |= self._capabilities
        self.results[method] = await super()._request(method, **params)
        return self.results[method]

    _request = request

    def _handle(self, message: Json) -> None:
        if message.get("method") == "session/update":
            self._hear(message["params"]["sessionId"], message["params"]["update"])
        super()._handle(message)


class Editor:
    """One agent: what it told, by session, and how questions are answered."""

    agent: _Connection

    def __init__(self, capabilities: Json) -> None:
        self._capabilities = capabilities
        self.told: dict[str, list[Json]] = {}
        self.permissions: list[Json] = []
        self.answer = "allow_once"
        self.watch: Callable[[Json], object] = lambda update: None

    async def _permit(self, question: Json) -> str:
        self.permissions.append(question)
        return next(option["optionId"] for option in question["options"] if option["kind"] == self.answer)

    def _hear(self, session: str, update: Json) -> None:
        self.told.setdefault(session, []).append(update)
        self.watch(update)

    async def _start(self, folder: str, meta: Json, session: str | None = None) -> None:
        self.agent = _Connection(
            PLAY["agent"],
            Path(folder),
            meta or None,
            permission=self._permit,
            session=session,
            capabilities=self._capabilities,
            hear=self._hear,
        )
        await self.agent.start()

    @property
    def introduced(self) -> Json:
        return self.agent.results["initialize"]

    async def open(self, folder: str, **meta: Any) -> Json:
        """Start the agent with a new session."""
        await self._start(folder, meta)
        return self.agent.results["session/new"]

    async def load(self, session: str, folder: str, **meta: Any) -> Json:
        """Load a session: by the library if the agent is not started yet, else as JSON."""
        if not hasattr(self, "agent"):
            await self._start(folder, meta, session)
            assert self.agent.session == session
            return self.agent.results["session/load"]
        return await self._ask("session/load", session, cwd=folder, mcpServers=[], _meta=meta)

    async def fork(self, session: str, folder: str, **meta: Any) -> str:
        return str((await self._ask("session/fork", session, cwd=folder, mcpServers=[], _meta=meta))["sessionId"])

    async def configure(self, session: str, option: str, value: str) -> list[Json]:
        """Set an option; all of them as they are then."""
        changed = await self._ask("session/set_config_option", session, configId=option, value=value)
        return changed["configOptions"]  # type: ignore[no-any-return]

    async def _ask(self, method: str, session: str, **params: Any) -> Json:
        return await self.agent.request(method, sessionId=session, **params)

    async def prompt(self, session: str, text: str) -> Json:
        """A turn: by the library, which answers one question at a time, or as JSON while it is busy."""
        before = len(self.told.get(session, []))
        if self.agent.busy:
            await self._ask("session/prompt", session, prompt=[{"type": "text", "text": text}])
        else:
            await self.agent.ask(text)
        stop = self.agent.results["session/prompt"]["stopReason"]
        return {"stop": stop, "updates": self.told[session][before:]}

    async def close(self) -> None:
        await self.agent.stop()


@asynccontextmanager
async def connected(**capabilities: Any) -> AsyncIterator[Editor]:
    """An editor; its agent is started with the first session."""
    editor = Editor(capabilities)
    try:
        yield editor
    finally:
        await editor.close()
        await asyncio.sleep(0)
