"""The conversation that children are killed in: every effect, every kind of batch, files, failures and a final result.

The model decides by what it is asked, so that whoever goes on with the session gets the reply that is due. Each tool
leaves a mark on disk, which is its effect.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import Block, Message, ThinkingBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.errors import ProviderError
from outrider.providers.base import Request, ToolSpec
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event, MessageAdded, ToolFinished
from outrider.runtime.limits import Limits
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, Step
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, tool
from tests.conversations import JPEG_BYTES, PNG_BYTES
from tests.crash.ledger import Ledger

LIST = "".join(f"{number}: a thing in the store\n" for number in range(200))
RIDERS = b"town,riders\nZurich,42\n"
LIMITS = Limits(result_characters=1_000)
USAGE = Usage(input_tokens=100, output_tokens=10)

Prompt = list[str | Attachment]
PROMPTS: tuple[Prompt, ...] = (
    ["Take stock.", Attachment(RIDERS, "text/csv", "riders.csv")],
    ["And now clear up."],
)


def use(id: str, name: str, **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(id, name, arguments)


STEPS: tuple[tuple[str | Block, ...], ...] = (
    (
        ThinkingBlock("All four at once."),
        "I'll look around.",
        use("a1", "look", at="shelf"),
        use("a2", "put", item="box"),
        use("a3", "stamp", item="box"),
        use("a4", "count", what="boxes"),
    ),
    ("One by one.", use("b1", "move", item="box"), use("b2", "move", item="crate"), use("b3", "weigh", item="crate")),
    (use("c1", "draw"), use("c2", "paint")),
    (
        use("d1", "list_all"),
        use("d2", "drop", item="vase"),
        use("d3", "fly"),
        ToolUseBlock("d4", "put", {}, invalid_input='{"item": "b'),
        use("d5", "look", near="shelf"),
    ),
    (use("e1", "report", text="Stock is taken."),),
    # The second prompt comes here. This provider counts the calls of each run anew, so their ids come twice.
    (
        "Once more.",
        use("a1", "look", at="floor"),
        use("a2", "put", item="broom"),
        use("a3", "stamp", item="broom"),
        use("a4", "move", item="bin"),
    ),
    ("All is in its place.",),
)
"""What the model says, one reply after the other."""

FINAL = 4
"""The step whose result ends the run."""

OUTCOMES = {
    "a1": "You see: shelf",
    "a2": "box is put away",
    "a3": "box is stamped",
    "a4": "7 boxes",
    "b1": "box is moved",
    "b2": "crate is moved",
    "b3": "crate has 3 kg",
    "c1": "",
    "c2": "A picture of the store.",
    "d1": "characters left out here. The whole is stored as attachment:",
    "d2": "drop failed: ValueError: vase is broken",
    "d3": "There is no tool named 'fly'",
    "d4": "The arguments of put are not a JSON object",
    "d5": "The arguments of look are not valid",
    "e1": "Stock is taken.",
    "a1-2": "You see: floor",
    "a2-2": "broom is put away",
    "a3-2": "broom is stamped",
    "a4-2": "bin is moved",
}
"""What the answer to each call says, if nothing comes between."""
FAILURES = frozenset({"d2", "d3", "d4", "d5"})
EFFECTS = {
    "look": "read",
    "count": "read",
    "weigh": "read",
    "draw": "read",
    "list_all": "read",
    "stamp": "idempotent",
    "put": "write",
    "move": "write",
    "paint": "write",
    "drop": "write",
    "report": "idempotent",
}
NEVER_RUN = frozenset({"d3", "d4", "d5"})
"""Calls that no tool is run for."""


def agent(folder: Path, life: int = 1, passed: Callable[[str], None] = lambda name: None) -> Agent:
    """Who has the conversation. Each tool passes a point before and after its effect, and leaves a mark between."""
    marks, asked = Ledger(folder, "marks", life), Ledger(folder, "asked", life)

    def reply(request: Request) -> Step:
        asked.write(messages=list(request.messages))
        passed("the model is asked")
        return next_step(request)

    return Agent(
        model=ScriptedModel(reply, usage=USAGE), tools=_Store(marks, passed).tools(), limits=LIMITS, system="A clerk."
    )


def show(folder: Path, life: int = 1, passed: Callable[[str], None] = lambda name: None) -> Callable[[Event], None]:
    """An observer who keeps what a person is shown as done."""
    shown = Ledger(folder, "shown", life)

    def observer(event: Event) -> None:
        passed(f"before {type(event).__name__} is shown")
        if isinstance(event, MessageAdded):
            shown.write(message=event.message)
            passed("after MessageAdded is shown")
        elif isinstance(event, ToolFinished):
            shown.write(result=event.result)
            passed("after ToolFinished is shown")

    return observer


async def converse(session: Session) -> RunResult:
    """Have the conversation from where it is to its end, or to the first run that does not end well."""
    said = sum(map(is_prompt, session.messages))
    result = await session.run() if said else None
    for prompt in PROMPTS[said:]:
        if result is None or result.status == "done":
            result = await session.run(prompt)
    assert result
    return result


def ended(session: Session, result: RunResult) -> dict[str, Any]:
    """How the conversation ended, for the judge."""
    usage = msgspec.to_builtins(session.usage)
    return {"id": session.id, "status": result.status, "error": result.error, "text": result.text, "usage": usage}


def next_step(request: Request) -> Step:
    """The reply that is due; an error if none is."""
    said = sum(message.role == "assistant" for message in request.messages)
    if said >= len(STEPS):
        raise ProviderError("the model was asked after the conversation had ended")
    if said == FINAL + 1 and not request.messages[-1].text:
        raise ProviderError("the model was asked after a result that ended the run")
    return STEPS[said]


@cache
def specs() -> tuple[ToolSpec, ...]:
    """The tools as a model is told of them."""
    tools = _Store(None, lambda name: None).tools()
    return tuple(ToolSpec(each.name, each.description, each.parameters) for each in tools)


def is_prompt(message: Message) -> bool:
    """Whether a person said it."""
    return message.role == "user" and not any(isinstance(block, ToolResultBlock) for block in message.content)


class _Store:
    """Where things are put away. What is done there leaves a mark, which is its effect."""

    def __init__(self, marks: Ledger | None, passed: Callable[[str], None]) -> None:
        self._marks, self._passed = marks, passed

    def tools(self) -> list[Tool]:
        return [getattr(self, name) for name in EFFECTS]

    def _act(self, name: str, context: ToolContext) -> None:
        assert self._marks
        self._passed(f"{name} begins")
        self._marks.write(call=context.call_id, tool=name, key=context.key)
        self._passed(f"{name} has acted")

    @tool(effect="read")
    async def look(self, at: str, context: ToolContext) -> str:
        self._act("look", context)
        return f"You see: {at}"

    @tool(effect="read")
    def count(self, what: str, context: ToolContext) -> str:
        self._act("count", context)
        return f"7 {what}"

    @tool(effect="read", concurrent=False)
    async def weigh(self, item: str, context: ToolContext) -> str:
        self._act("weigh", context)
        return f"{item} has 3 kg"

    @tool(effect="read")
    def draw(self, context: ToolContext) -> Attachment:
        self._act("draw", context)
        return Attachment(PNG_BYTES, "image/png", "store.png")

    @tool(effect="read")
    async def list_all(self, context: ToolContext) -> str:
        self._act("list_all", context)
        return LIST

    @tool(effect="idempotent")
    async def stamp(self, item: str, context: ToolContext) -> str:
        self._act("stamp", context)
        return f"{item} is stamped"

    @tool
    def put(self, item: str, context: ToolContext) -> str:
        self._act("put", context)
        return f"{item} is put away"

    @tool(concurrent=False)
    def move(self, item: str, context: ToolContext) -> str:
        self._act("move", context)
        return f"{item} is moved"

    @tool
    async def paint(self, context: ToolContext) -> ToolResult:
        self._act("paint", context)
        return ToolResult("A picture of the store.", [Attachment(JPEG_BYTES, "image/jpeg", "store.jpg")])

    @tool
    async def drop(self, item: str, context: ToolContext) -> str:
        self._act("drop", context)
        raise ValueError(f"{item} is broken")

    @tool(effect="idempotent")
    async def report(self, text: str, context: ToolContext) -> ToolResult:
        self._act("report", context)
        return ToolResult(text, final=True)
