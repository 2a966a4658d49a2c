"""An editor for tests: it starts the real program, speaks the protocol with it, and holds it to the official schema.

Every message in both directions is kept, and each one from the agent is held against its own definition, with keys that
the protocol does not know refused. What the updates say is merged as the specification wants it (`Seen`), which fails
at once on what an editor could not make sense of.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from tests.acp.official import check_message
from tests.acp.seen import Seen
from tests.cli.program import clean_environment, start

DEADLINE = 60.0
Json: TypeAlias = dict[str, Any]
Handler: TypeAlias = Callable[[Json], Any]
_UNSTABLE = ("session/fork", "initialize")


class Refused(Exception):
    """An error that one side answers with. Raise it in a handler to refuse."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Editor:
    """Both directions of one connection. Requests of the agent are answered by `handlers`, by method."""

    def __init__(self, process: subprocess.Popen[bytes], handlers: dict[str, Handler] | None = None) -> None:
        self.process = process
        self.handlers: dict[str, Handler] = handlers or {}
        self.sent: list[Json] = []
        self.received: list[Json] = []
        self.lines: list[bytes] = []
        """The same as they came."""
        self.sessions: dict[str, Seen] = {}
        """What was told of each session."""
        self.asked: list[Json] = []
        """Requests of the agent."""
        self.broken: BaseException | None = None
        """What was wrong with a message of the agent."""
        self._methods: dict[int, str] = {}
        self._answers: dict[int, Json] = {}
        self._next = 0
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.closed = False
        """Whether the agent has closed its end."""

    async def connect(self, tap: Callable[[IO[bytes]], IO[bytes]] = lambda stdout: stdout) -> None:
        """Begin to read; `tap` may put something between the agent and this editor."""
        assert self.process.stdout
        loop = asyncio.get_running_loop()
        self._reader = asyncio.StreamReader(limit=256 * 1024 * 1024)
        self._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), tap(self.process.stdout)
        )
        self._reading = asyncio.ensure_future(self._read())

    # What is said

    def begin(self, method: str, params: Json) -> int:
        """Ask something; the number of the request, for `answer`."""
        self._next += 1
        self._methods[self._next] = method
        self.send({"id": self._next, "method": method, "params": params})
        return self._next

    async def answer(self, number: int) -> Any:
        """The result of a request. Raises Refused."""
        await self.until(lambda: number in self._answers, f"an answer to {self._methods[number]}")
        answer = self._answers[number]
        if "error" in answer:
            raise Refused(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def has_answer(self, number: int) -> bool:
        """Whether a request has its answer."""
        return number in self._answers

    async def ask(self, method: str, **params: Any) -> Any:
        """Ask, and wait for the answer."""
        return await self.answer(self.begin(method, params))

    async def refusal(self, method: str, **params: Any) -> Refused:
        """The error that a request is answered with."""
        try:
            result = await self.ask(method, **params)
        except Refused as refused:
            return refused
        raise AssertionError(f"{method} was not refused: {result}")

    def tell(self, method: str, **params: Any) -> None:
        """A notification."""
        self.send({"method": method, "params": params})

    def send(self, message: Json) -> None:
        message = {"jsonrpc": "2.0", **message}
        self.sent.append(message)
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    # The usual way

    async def initialize(self, capabilities: Json | None = None, name: str = "tests", version: int = 1) -> Json:
        """Introduce itself."""
        introduced: Json = await self.ask(
            "initialize",
            protocolVersion=version,
            clientCapabilities=capabilities or {},
            clientInfo={"name": name, "version": "1"},
        )
        return introduced

    async def new(self, folder: Path, **params: Any) -> str:
        """A new session in a folder; its id."""
        opened = await self.ask("session/new", **{"cwd": str(folder), "mcpServers": []} | params)
        return str(opened["sessionId"])

    async def load(self, session: str, folder: Path, method: str = "session/load") -> Json:
        """A session that was."""
        loaded: Json = await self.ask(method, sessionId=session, cwd=str(folder), mcpServers=[])
        return loaded

    async def prompt(self, session: str, *said: str | Json) -> str:
        """Say something; the stop reason."""
        return str((await self.answer(self.say(session, *said)))["stopReason"])

    def say(self, session: str, *said: str | Json) -> int:
        """Say something without waiting."""
        blocks: list[Json] = [{"type": "text", "text": each} if isinstance(each, str) else each for each in said]
        for block in blocks:
            self.seen(session).say("user", block)
        return self.begin("session/prompt", {"sessionId": session, "prompt": blocks})

    def seen(self, session: str) -> Seen:
        """What was told of a session so far."""
        return self.sessions.setdefault(session, Seen())

    def forget(self, session: str) -> None:
        """Clear what is shown of a session, as an editor does before it loads it."""
        self.sessions.pop(session, None)

    def asked_for(self, method: str) -> list[Json]:
        """The parameters of the agent's requests of one method."""
        return [request["params"] for request in self.asked if request["method"] == method]

    # What is heard

    async def until(self, true: Callable[[], object], what: str = "") -> None:
        """Wait for something that the agent says, or for its effect."""
        deadline = time.monotonic() + DEADLINE
        while not true():
            self._check()
            assert not self.closed, f"the agent has ended before {what or inspect.getsource(true)}"
            assert time.monotonic() < deadline, f"there was never {what or inspect.getsource(true)}"
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), 0.01 if not what else 1.0)

    def _check(self) -> None:
        if self.broken:
            raise self.broken

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self.lines.append(line)
                self._take(json.loads(line))
                self._news.set()
        except BaseException as error:
            self.broken = error
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self.closed = True
            self._news.set()

    def _take(self, message: Json) -> None:
        self.received.append(message)
        method = message.get("method") or self._methods.get(message["id"], "")
        check_message(message, method, unstable="method" not in message and method in _UNSTABLE)
        if "method" not in message:
            self._take_answer(message)
            return
        if "id" in message:
            self.asked.append(message)
            if message["method"] == "session/request_permission":
                self.seen(message["params"]["sessionId"]).ask(message["params"]["toolCall"])
            task = asyncio.ensure_future(self._respond(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif message["method"] == "session/update":
            self.seen(message["params"]["sessionId"]).take(message["params"]["update"])

    def _take_answer(self, message: Json) -> None:
        if message["id"] is not None:
            assert message["id"] not in self._answers, "a second answer"
            self._answers[message["id"]] = message

    async def _respond(self, request: Json) -> None:
        method = request["method"]
        try:
            handler = self.handlers.get(method)
            if handler is None:
                raise Refused(-32601, f"there is no {method} here")
            result = handler(request["params"])
            if inspect.isawaitable(result):
                result = await result
        except Refused as refused:
            self.send({"id": request["id"], "error": {"code": refused.code, "message": refused.message}})
            return
        with suppress(BrokenPipeError, ValueError):  # the connection has ended meanwhile
            self.send({"id": request["id"], "result": result})

    async def pause(self) -> None:
        """Read no more, as an editor that hangs."""
        self._transport.pause_reading()
        for _ in range(5):  # what has just come becomes lines some steps later
            await asyncio.sleep(0)

    def resume(self) -> None:
        """Read on."""
        self._transport.resume_reading()

    # The end

    async def close(self) -> int:
        """Close the connection in good order; the exit code of the agent."""
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        await self.ended()
        code = await asyncio.to_thread(self.process.wait, DEADLINE)
        self._check()
        return code

    async def ended(self) -> None:
        """Wait until the agent has closed its end."""
        await asyncio.wait_for(asyncio.wait([self._reading]), DEADLINE)

    async def aclose(self) -> None:
        """Whatever state it is in."""
        self.process.kill()
        for task in (*self._tasks, self._reading):
            task.cancel()
        await asyncio.wait([*self._tasks, self._reading])
        self._transport.close()
        for stream in (self.process.stdin, self.process.stderr):
            if stream:
                with suppress(BrokenPipeError):
                    stream.close()
        await asyncio.to_thread(self.process.wait, DEADLINE)


@asynccontextmanager
async def running(
    *arguments: str,
    handlers: dict[str, Handler] | None = None,
    from_scratch: bool = False,
    stderr: int = subprocess.DEVNULL,
    tap: Callable[[IO[bytes]], IO[bytes]] = lambda stdout: stdout,
    **environment: str,
) -> AsyncIterator[Editor]:
    """The agent while it runs, not introduced yet. It does not outlive the block, in which nothing may be amiss."""
    process = start(
        "acp",
        *arguments,
        env=clean_environment() | {"OUTRIDER_MODEL": "demo"} | environment,
        from_scratch=from_scratch,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )
    editor = Editor(process, handlers)
    await editor.connect(tap)
    try:
        yield editor
        if editor.broken and not isinstance(editor.broken, asyncio.CancelledError):
            raise editor.broken
    finally:
        await editor.aclose()


@asynccontextmanager
async def introduced(*arguments: str, capabilities: Json | None = None, **options: Any) -> AsyncIterator[Editor]:
    """The agent while it runs, after both sides have introduced themselves."""
    name = options.pop("name", "tests")
    async with running(*arguments, **options) as editor:
        await editor.initialize(capabilities, name)
        yield editor


def selecting(option: str) -> Handler:
    """Answers a permission question with an option."""
    return lambda params: {"outcome": {"outcome": "selected", "optionId": option}}


def allowing(option: str = "once") -> dict[str, Handler]:
    """An editor whose person always says the same."""
    return {"session/request_permission": selecting(option)}
