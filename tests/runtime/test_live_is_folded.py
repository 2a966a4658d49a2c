"""Random runs in a log: after every entry, the live state and what observers saw are what the entries alone say.

So a session that is killed after any entry, and resumed, is the one that was killed.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from outrider import Agent, Allow, Defer, Limits, Log, Message, Session, ToolContext, Usage, tool, with_subagents
from outrider.errors import ConversationError, ProviderError
from outrider.log.entries import Entry, SessionSettings
from outrider.log.state import SessionState
from outrider.providers.base import Reply, Request, StopReason
from outrider.runtime.entry_events import events_of
from outrider.runtime.events import (
    Compacted,
    Event,
    MessageAdded,
    ResultsCleared,
    RunFinished,
    SteeringQueued,
    SteeringWithdrawn,
    ToolFinished,
    ToolStarted,
)
from outrider.runtime.record import SessionRecord
from outrider.runtime.retry import Retry
from outrider.testing import Cut, ScriptedModel, call, malformed_call
from outrider.tools.result import ToolResult
from tests.lengths import examples
from tests.subagents.teams import HELPER, task

DERIVED = (
    *(MessageAdded, ToolStarted, ToolFinished, Compacted, ResultsCleared),
    *(SteeringQueued, SteeringWithdrawn, RunFinished),
)


@tool(effect="read")
def look(at: str = "it") -> str:
    """Look."""
    return f"seen {at}"


@tool(effect="write")
async def write(text: str) -> str:
    """Write, or fail."""
    await asyncio.sleep(0)
    if text == "bad":
        raise ValueError("the disk is full")
    return "written"


@tool(effect="read")
def finish() -> ToolResult:
    """End the run."""
    return ToolResult("The end.", final=True, details={"structured_output": 1})


@tool(effect="write")
def order(part: str = "wheel") -> str:
    """Order something that comes later."""
    raise Defer(f"the {part}")


@tool(effect="write", approval="later", concurrent=False)  # else its start may be shown after another's end
def pay(amount: int = 5) -> str:
    """Pay, once someone has allowed it."""
    return f"paid {amount}"


@tool(effect="write")
async def paint(context: ToolContext) -> str:
    """Paint in a colour that someone chooses."""
    return f"painted {await context.ask('Which colour?', ['red', 'blue'])}"


ANSWERS = {"order": "it came", "pay": Allow(), "paint": "red"}


def paused(text: str) -> Reply:
    return Reply(Message.assistant(text), StopReason.PAUSE, Usage(3, 2))


calls = st.sampled_from(
    [
        *(call("look"), call("look", at="there"), call("write", text="x"), call("write", text="bad"), call("write")),
        *(call("nothing"), malformed_call("look", "{"), task("help"), call("finish"), call("hold")),
        *(call("order"), call("pay"), call("pay", amount="x"), call("paint")),
    ]
)
working = st.lists(calls, min_size=1, max_size=3).map(lambda made: ["I work.", *made])
broken = st.sampled_from([Cut("It is", ProviderError("the line is dead", retryable=True, retry_after=0.0))])
steps = st.lists(working | working | broken | st.just(paused("Wait")), max_size=4)
ends = st.sampled_from(["Done.", "", "Well."])
deeds = st.sampled_from(["", "", "", "steer", "unsteer", "cancel"])
after = st.sampled_from(["", "", "compact", "rewind", "undo", "reopen", "think"])
runs = st.lists(st.tuples(steps, ends, deeds, after), min_size=1, max_size=4)


def plain(state: SessionState) -> dict[str, Any]:
    """All that a state says, to compare."""
    run = state.run and vars(state.run) | {"_outcomes": frozenset(state.run._outcomes)}
    names = ["calls", "intents", "answers", "final", "queued", "questions", "requested", "usage", "rewinds", "measured"]
    names += ["has_cut_results", "answered"]
    said = {name: getattr(state, name) for name in names}
    copied = {name: dict(value) if isinstance(value, dict) else value for name, value in said.items()}
    view = list(state.history.sendable())
    return copied | {"messages": state.messages, "view": view, "pending": state.history.pending, "run": run}


class Observed:
    """Notes the state of a session after each entry that it applies."""

    def __init__(self) -> None:
        self.applied: list[tuple[Entry, dict[str, Any]]] = []
        self.events: list[Event] = []

    def watch(self, session: Session) -> None:
        record, apply = session._record, SessionRecord._apply

        def noting(entries: Sequence[Entry], last: int = 0) -> None:
            for seq, entry in enumerate(entries, last - len(entries) + 1):
                apply(record, [entry], seq)
                if not isinstance(entry, SessionSettings):
                    self.applied.append((entry, plain(record.state)))

        record._apply = noting  # type: ignore[method-assign]
        session.observe(self.events.append)


async def follow(planned: Sequence[Any], log: Log, observed: Observed) -> str:
    """Run a session as planned. Return its id."""
    script: list[Any] = []

    def step(request: Request) -> Any:
        if any(each.name == "Task" for each in request.tools):
            return script.pop(0) if script else "Enough."
        return "Helped." if len(request.messages) > 1 else ["I look.", call("look")]

    @tool(effect="read")
    async def hold() -> str:
        """Go on when what others do meanwhile is done."""
        if tasks:
            await asyncio.wait(tasks)
        return "held"

    tasks: set[asyncio.Future[Any]] = set()
    model = ScriptedModel(step)
    tools = [look, write, finish, hold, order, pay, paint]
    agent = Agent(model=model, tools=tools, limits=Limits(max_turns=6), retry=Retry(seconds=5))
    agent = with_subagents(agent, [HELPER])
    session = await Session.open(log, agent=agent)
    observed.watch(session)
    for number, (working, end, deed, then) in enumerate(planned):
        script[:] = [*working, end]

        def act(event: Event, deed: str = deed, session: Session = session) -> None:
            if not isinstance(event, ToolStarted) or not deed:
                return
            if deed == "cancel":
                asyncio.get_running_loop().call_soon(session.cancel)
            else:
                tasks.add(asyncio.ensure_future(steer(session, take_back=deed == "unsteer")))

        session.observe(act)
        await session.run(f"Prompt {number}")
        session._observers.remove(act)
        session = await answered(then if then == "reopen" else "", session, log, agent, observed)
        if tasks:
            await asyncio.wait(tasks)
        with suppress(ConversationError):
            session = await _after(then, session, log, agent, observed)
    session.close()
    return session.id


async def answered(then: str, session: Session, log: Log, agent: Agent, observed: Observed) -> Session:
    """Answer what the session waits for, at most two questions at a time, and let it go on."""
    while session.questions:
        session = await _after(then, session, log, agent, observed)
        names = {each.id: each.name for each in session.messages[-1].tool_calls}
        for question in session.questions[:2]:
            await session.answer(question.id, ANSWERS[names[question.call_id]])
        await session.run()
    return session


async def steer(session: Session, *, take_back: bool) -> None:
    with suppress(ConversationError):
        queued = await session.steer("And this.")
        if take_back:
            await session.unsteer(queued)


async def _after(then: str, session: Session, log: Log, agent: Agent, observed: Observed) -> Session:
    match then:
        case "compact":
            await session.compact()
        case "rewind":
            await session.rewind(1)
        case "undo":
            await session.rewind(1)
            await session.undo_rewind()
        case "think":
            await session.think("What?")
        case "reopen":
            before = plain(session._record.state)
            session.close()
            session = await Session.open(log, session.id, agent)
            assert plain(session._record.state) == before
            observed.watch(session)
    return session


@given(runs)
@example([([["I work.", call("look"), call("write", text="bad")]], "", "", "reopen")])
@example([([["I work.", call("order"), call("look"), call("pay"), call("paint")]], "Done.", "", "reopen")])
@example([([["I work.", call("pay")]], "Done.", "", ""), ([["I work.", call("paint")]], "Done.", "cancel", "undo")])
@example([([["I work.", call("hold")]], "Done.", "unsteer", "reopen")])
@example([([["I work.", call("hold")]], "Done.", "steer", "reopen"), ([], "Done.", "", "undo")])
@example([([["I work.", task("help"), call("write", text="x")]], "Done.", "cancel", "compact")])
@settings(max_examples=examples(100))
def test_the_live_state_is_what_the_entries_say(planned: Sequence[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder, Log(Path(folder)) as log:
        observed = Observed()
        name = asyncio.run(follow(planned, log, observed))
        state, noted, seen = SessionState(), iter(observed.applied), list[Event]()
        awaited = next(noted, None)
        for record in log.records(name):
            if state.apply(record.entry, record.seq):
                seen += events_of(record.entry, state)
            if awaited and record.entry == awaited[0]:
                assert plain(state) == awaited[1]
                awaited = next(noted, None)
        assert awaited is None, "everything that was applied is in the log, in this order"
        assert [event for event in seen if isinstance(event, DERIVED)] == [
            event for event in observed.events if isinstance(event, DERIVED)
        ]
