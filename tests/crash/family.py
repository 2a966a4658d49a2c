"""The session with sub-agents in which processes are killed: some return text or data, some fail.

Each of them is known by the first word of its prompt, and the model decides by what it is asked, so that whoever goes
on with a session gets the reply that is due. The ids of calls are the same in all of the sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from outrider.conversation.messages import Block
from outrider.conversation.usage import Usage
from outrider.errors import ProviderError
from outrider.providers.base import Request
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event, MessageAdded, SubagentEvent, SubagentStarted, ToolFinished
from outrider.runtime.structured_output import MISSING
from outrider.subagents import Profile, with_subagents
from outrider.testing import ScriptedModel, Step
from tests.crash import script
from tests.crash.ledger import Ledger
from tests.crash.script import use

USAGE = Usage(input_tokens=100, output_tokens=10, cost=0.25)
AT_ONCE = 3
TURNS = 2
"""How many turns the wanderer has."""
PROFILES = (
    Profile(name="Clerk", description="Does what it is told.", tools=["look", "put", "move"]),
    Profile(name="Wanderer", description="Walks about.", tools=["look"], limits={"max_turns": TURNS}),
)
SCHEMA = {
    "type": "object",
    "properties": {"boxes": {"type": "integer"}, "places": {"type": "array", "items": {"type": "string"}}},
    "required": ["boxes", "places"],
}
DATA = {"boxes": 7, "places": ["shelf", "Zürich"]}
DATA_AS_JSON = '{"boxes":7,"places":["shelf","Zürich"]}'


def task(id: str, who: str, profile: str = "Clerk", **more: Any) -> Block:
    return use(id, "Task", description=f"send the {who}", prompt=f"{who}: go.", subagent_type=profile, **more)


PARENT = "parent"
PROMPT = f"{PARENT}: ask around."
STEPS: dict[str, tuple[tuple[str | Block, ...], ...]] = {
    PARENT: (
        (
            "I'll send four.",
            task("a1", "clerk"),
            task("a2", "reporter", output_schema=SCHEMA),
            task("a3", "wanderer", "Wanderer"),
            task("a4", "patient"),
        ),
        (
            task("a1", "forgetful", output_schema=SCHEMA),
        ),  # this provider counts the calls of each reply anew, so that their ids come twice
        ("All are back.",),
    ),
    "clerk": (
        ("Both at once.", use("a1", "look", at="shelf"), use("a2", "put", item="box")),
        (use("a3", "move", item="crate"),),
        ("The box is put away.",),
    ),
    "reporter": (
        (use("a1", "report_back", boxes="many"),),
        ("Seven boxes.",),
        # The reminder comes here.
        (use("a2", "look", at="floor"), use("a3", "report_back", **DATA)),  # made without what there is to see
        (use("a4", "report_back", **DATA),),
    ),
    "patient": ((use("a1", "look", at="doctor"),),),
    "forgetful": (("What was it?",), ("I forgot.",)),  # with the reminder between
}
"""What the model says to each of them, one reply after the other. The patient then has an error."""

CALLS = {"a1": "clerk", "a2": "reporter", "a3": "wanderer", "a4": "patient", "a1-2": "forgetful"}
"""Who is sent out by each call of the parent's."""
OUTCOMES = {
    "clerk": ("done", "The box is put away."),
    "reporter": ("done", DATA_AS_JSON),
    "wanderer": ("max_turns", "The sub-agent did not finish: its turns were used up."),
    "patient": ("error", "The sub-agent did not finish: the model is ill."),
    "forgetful": ("error", f"The sub-agent did not finish: {MISSING}.\n\nIts last message was:\nI forgot."),
}
"""How each of them ends, and what the parent is told."""
REPLIES = {"clerk": 3, "reporter": 4, "wanderer": TURNS, "patient": 1, "forgetful": 2, PARENT: len(STEPS[PARENT])}
ASKED = REPLIES | {"patient": 2}
"""How often each asks the model, if nothing comes between."""


def agent(folder: Path, life: int = 1, passed: Callable[[str], None] = lambda name: None) -> Agent:
    """Who sends out the others."""
    asked = Ledger(folder, "asked", life)

    def reply(request: Request) -> Step:
        who = who_is_in(request.messages[0].text)
        asked.write(who=who, messages=list(request.messages))
        passed(f"the model is asked by the {who}")
        return next_step(who, request)

    # The tools and their marks are those of a session without sub-agents.
    tools = [each for each in script.agent(folder, life, passed).tools if each.name in ("look", "put", "move")]
    sender = Agent(model=ScriptedModel(reply, usage=USAGE), tools=tools, system="A foreman.")
    return with_subagents(sender, PROFILES, at_once=AT_ONCE)


def who_is_in(prompt: str) -> str:
    """Whose session it is that begins with the prompt."""
    return prompt.partition(":")[0]


def next_step(who: str, request: Request) -> Step:
    """The reply that is due; an error if none is."""
    said = sum(message.role == "assistant" for message in request.messages)
    if who == "wanderer":
        return use(f"a{said + 1}", "look", at=f"corner {said + 1}")
    if said < len(STEPS[who]):
        return STEPS[who][said]
    return ProviderError("the model is ill" if who == "patient" else f"the {who} was asked after its end")


def show(folder: Path, life: int, passed: Callable[[str], None]) -> Callable[[Event], None]:
    """An observer who keeps what a person is shown as done, in whichever session."""
    shown = Ledger(folder, "shown", life)

    def observer(event: Event) -> None:
        session, who = "", PARENT
        if isinstance(event, SubagentEvent):
            session, who, event = event.session, CALLS[event.call_id], event.event
        passed(f"before {type(event).__name__} of the {who} is shown")
        if isinstance(event, MessageAdded):
            shown.write(session=session, message=event.message)
        elif isinstance(event, ToolFinished):
            shown.write(session=session, result=event.result, details=event.details)
        elif isinstance(event, SubagentStarted):
            shown.write(session=event.session, sent_by=event.call_id)
        else:
            return
        passed(f"after {type(event).__name__} of the {who} is shown")

    return observer
