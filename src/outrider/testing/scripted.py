"""A model that plays a script, for tests of agents: no network, deterministic, failures on demand.

    model = ScriptedModel([
        ["I'll look.", call("read_file", path="main.py"), call("read_file", path="test.py")],
        Cut("It pri"),                                   # the stream ends in the middle
        ProviderError("overloaded"),                     # the provider fails
        Delay(0.5, "It prints hello."),                  # the reply is slow
        lambda request: request.messages[-1].text,       # the reply depends on the request
    ])

`model.requests` has the requests it received. A request after the last step raises ProviderError. At the end of
`with model:` steps that were not used fail the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from outrider.conversation.messages import (
    Block,
    Message,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from outrider.conversation.usage import Usage
from outrider.errors import ProviderError
from outrider.providers.base import Reply, Request, StopReason
from outrider.providers.deltas import (
    Delta,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from outrider.text import clean, clean_value

if TYPE_CHECKING:
    from typing import Self


class Cut(msgspec.Struct, frozen=True):
    """A reply whose stream ends early, with the error if there is one."""

    step: Step
    error: Exception | None = None


class Delay(msgspec.Struct, frozen=True):
    """A reply that starts after some seconds."""

    seconds: float
    step: Step


Step: TypeAlias = (
    "str | Block | Message | Reply | Sequence[str | Block] | Exception | Cut | Delay | Callable[[Request], Step]"
)
"""One reply, or a failure in its place."""


def call(tool: str, /, **arguments: Any) -> ToolUseBlock:
    """Return a call of a tool. The model gives it an id."""
    return ToolUseBlock("", tool, arguments)


def malformed_call(tool: str, text: str) -> ToolUseBlock:
    """Return a call whose arguments are not a JSON object."""
    return ToolUseBlock("", tool, {}, invalid_input=text)


class ScriptedModel:
    """Plays its steps one after the other, or calls a function for each request.

    At the end of `with ScriptedModel(…) as model:` AssertionError is raised if a step was not used. So is one that a
    function of the script raised in a sub-agent, where it does not reach the caller of the run.

    >>> model = ScriptedModel(["Hello."])
    >>> model.name
    'scripted'
    """

    passes_assertions = True

    def __init__(
        self,
        steps: Iterable[Step] | Callable[[Request], Step],
        *,
        usage: Usage | None = None,
        chunk: int = 0,
        window: int | None = None,
    ) -> None:
        self.name = "scripted"
        self.window = window
        """The context window in tokens. None: unknown, so that conversations are not compacted."""
        self.requests: list[Request] = []
        """The requests, in order."""
        if isinstance(steps, str | Block | Message):
            raise TypeError(f"the script is a list of steps: ScriptedModel([{steps!r:.60}])")
        self._steps = steps if callable(steps) else list(steps)
        self._usage = usage or Usage()
        """The usage of each reply."""
        self._chunk = chunk
        """Characters of text in a delta; 0 for all at once."""
        self._calls = 0
        self._failed: AssertionError | None = None
        """The first assertion of the script that did not hold."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._check()

    def _check(self) -> None:
        """Raise the assertion that failed, or one if there are steps that were not used."""
        if self._failed:
            raise self._failed
        count, unused = self._unused()
        if unused:
            named = ", ".join(f"{step!r:.100}" for step in unused[:3])
            more = f" and {len(unused) - 3} more" if len(unused) > 3 else ""
            raise AssertionError(f"{len(unused)} of {count} steps were not used: {named}{more}")

    def _unused(self) -> tuple[int, Sequence[Step]]:
        """Return how many steps there are, and those that were not used."""
        return (0, ()) if callable(self._steps) else (len(self._steps), self._steps[len(self.requests) :])

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """Play the next step."""
        self.requests.append(request)
        try:
            async for item in self._play(self._next(request), request):
                yield item
        except AssertionError as error:
            self._failed = self._failed or error
            raise

    def _next(self, request: Request) -> Step:
        if callable(self._steps):
            return self._steps(request)
        number = len(self.requests)
        if number > len(self._steps):
            raise ProviderError(f"the script has {len(self._steps)} steps, and this is request {number}: add one")
        return self._steps[number - 1]

    async def _play(self, step: Step, request: Request) -> AsyncIterator[Delta | Reply]:
        while callable(step):
            step = step() if isinstance(step, type) else step(request)
        if isinstance(step, Delay):
            await asyncio.sleep(step.seconds)
            async for item in self._play(step.step, request):
                yield item
        elif isinstance(step, Cut):
            async for item in self._play(step.step, request):
                if not isinstance(item, Reply):
                    yield item
            if step.error:
                raise step.error
        elif isinstance(step, Exception):
            raise step
        else:
            reply = self._reply(step)
            for delta in self._deltas(reply.message):
                yield delta
            yield reply

    def _reply(self, step: str | Block | Message | Reply | Sequence[str | Block]) -> Reply:
        if isinstance(step, Reply):
            return msgspec.structs.replace(step, message=self._with_ids(step.message.content))
        if isinstance(step, Message):
            content = step.content
        else:
            parts = [step] if isinstance(step, str | Block) else step
            if not isinstance(parts, Iterable):
                raise ProviderError(f"a step is text, blocks, a message or an error, not {type(step).__name__}")
            content = Message.assistant(*parts).content
        message = self._with_ids(content)
        return Reply(message, StopReason.TOOL_USE if message.tool_calls else StopReason.END, self._usage)

    def _with_ids(self, content: Iterable[Block]) -> Message:
        return Message("assistant", tuple(map(self._with_id, content)))

    def _with_id(self, block: Block) -> Block:
        if not isinstance(block, ToolUseBlock) or block.id:
            return block
        self._calls += 1
        return msgspec.structs.replace(block, id=f"call_{self._calls}")

    def _deltas(self, message: Message) -> Iterable[Delta]:
        for block in message.content:
            match block:
                case TextBlock():
                    text = clean(block.text)
                    size = self._chunk or len(text) or 1
                    yield from (TextDelta(text[start : start + size]) for start in range(0, len(text), size))
                case ServerToolUseBlock():
                    yield ServerToolStarted(block.id, block.name, clean_value(block.input))
                case ServerToolResultBlock():
                    uses = (each for each in message.content if isinstance(each, ServerToolUseBlock))
                    name = next((each.name for each in uses if each.id == block.tool_use_id), "")
                    yield ServerToolFinished(block.tool_use_id, name, clean(block.text), block.is_error)
                case ThinkingBlock():
                    yield ThinkingDelta(clean(block.thinking))
                case ToolUseBlock(invalid_input=None):
                    yield ToolCallDelta(block.id, block.name, msgspec.json.encode(clean_value(block.input)).decode())
                case ToolUseBlock(invalid_input=str(text)):
                    yield ToolCallDelta(block.id, block.name, clean(text))
