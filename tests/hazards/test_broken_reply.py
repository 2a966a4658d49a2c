"""Hazard: a reply that breaks off anywhere. It is discarded and asked for again: whole, shown once, counted once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from outrider import Agent, Limits, Log, Profile, Retry, Session, Usage, tool, with_subagents
from outrider.conversation.history import violations
from outrider.errors import IncompleteStreamError, ProviderError, UnavailableError
from outrider.log.entries import AttemptFailed
from outrider.providers.streams.stream import ReplyParser
from outrider.runtime.events import (
    Event,
    MessageAdded,
    ReplyDiscarded,
    Retrying,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolStarted,
)
from outrider.testing import Cut, ScriptedModel, call
from tests.adapters import ONE_EACH, Case, each
from tests.conversations import THOUGHTFUL
from tests.streams import Answer, error_event, stream_of
from tests.waits import Waits, without_waiting

END = Answer("All is well.")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    return without_waiting(monkeypatch)


class Broken:
    """A response that ends after some bytes, or fails there as a reset connection does."""

    def __init__(self, sent: bytes, *, reset: bool = False) -> None:
        self.sent = sent
        self.reset = reset

    async def bytes(self) -> AsyncIterator[bytes]:
        if self.sent:
            yield self.sent
        if self.reset:
            raise IncompleteStreamError("the connection was reset", retryable=True)


class Conversation:
    """One run with an adapter that reads these responses instead of a server's, and what came of it."""

    def __init__(self, case: Case, responses: Sequence[Broken]) -> None:
        self.events: list[Event] = []
        self.ran: list[str] = []
        left = list(responses)

        @tool
        async def read(path: str) -> str:
            self.ran.append(f"read {path}")
            return "text"

        @tool
        async def look() -> str:
            self.ran.append("look")
            return "seen"

        model = case.adapter("http://127.0.0.1:9", key="k")
        model._response = lambda *_: left.pop(0).bytes()  # type: ignore[method-assign]
        self.session = Session(Agent(model, tools=[read, look]), observer=self.events.append)

    async def run(self) -> None:
        result = await self.session.run("What do the files say?")
        assert result.status == "done", result.error
        assert result.usage == self.session.usage

    def check(self) -> None:
        """The history is that of an unbroken run; each part was shown once; all that was billed is counted."""
        replies = [event for event in self.events if isinstance(event, MessageAdded) and event.usage]
        assert [reply.message.text for reply in replies] == [THOUGHTFUL.text, END.text]
        assert sorted(self.ran) == ["look", "read a.txt"]
        assert violations(self.session.history.sendable()) == []
        billed = [event.usage for event in self.events if isinstance(event, MessageAdded | ReplyDiscarded)]
        assert self.session.usage == sum(filter(None, billed), Usage())
        assert shown(self.events) == [THOUGHTFUL.thinking, THOUGHTFUL.text, 2, END.text]


def shown(events: Sequence[Event]) -> list[Any]:
    """Thoughts, text and the number of calls of each reply, as an observer has them who heeds what is discarded."""
    found: list[Any] = []
    thoughts, text, calls = "", "", set[str]()
    for event in events:
        match event:
            case ThinkingDelta(text=more):
                thoughts += more
            case TextDelta(text=more):
                text += more
            case ToolCallDelta(call_id=call_id):
                calls.add(call_id)
            case ReplyDiscarded():
                thoughts, text, calls = "", "", set()
            case MessageAdded(message=message) if message.role == "assistant":
                found += filter(None, (thoughts, text, len(calls)))
                thoughts, text, calls = "", "", set()
    return found


def cuts(case: Case) -> Iterator[Broken]:
    whole = b"".join(stream_of(case.api, THOUGHTFUL))
    for place in range(len(whole)):
        yield Broken(whole[:place], reset=place % 2 == 0)


def error_positions(case: Case) -> Iterator[Broken]:
    events = stream_of(case.api, THOUGHTFUL)
    for place in range(len(events)):
        yield Broken(b"".join(events[:place]) + error_event(case.api))


async def check_each(case: Case, broken: Iterator[Broken] | Sequence[Broken]) -> int:
    """Break the first reply in each of these ways. Return how often it was asked for again."""
    whole, end = (Broken(b"".join(stream_of(case.api, answer))) for answer in (THOUGHTFUL, END))
    retried = 0
    for first in broken:
        # What is whole before the break is not asked for again.
        talk = Conversation(case, [first, end] if is_whole(case, first) else [first, whole, end])
        await talk.run()
        talk.check()
        retried += sum(isinstance(event, Retrying) for event in talk.events)
    return retried


def is_whole(case: Case, response: Broken) -> bool:
    """Whether the reply is complete before the break."""
    provider = case.adapter("http://127.0.0.1:9", key="k")
    parser = ReplyParser(provider.incoming({"read": {}, "look": {}}), provider.label)
    try:
        parser.feed(response.sent)
        if not response.reset:  # a clean end completes the last event
            parser.finish()
    except ProviderError:
        pass
    return parser.complete


@each(*ONE_EACH)
async def test_a_reply_cut_at_some_bytes_is_asked_for_again(case: Case) -> None:
    some = Random(18).sample(list(cuts(case)), 40)
    assert await check_each(case, some) >= 30


@each(*ONE_EACH)
async def test_a_reply_with_an_error_at_any_position_is_asked_for_again(case: Case) -> None:
    all_but_last = [broken for broken in error_positions(case) if not is_whole(case, broken)]
    assert await check_each(case, all_but_last) == len(all_but_last) >= 6


@pytest.mark.long
@pytest.mark.timeout(900)
@each(*ONE_EACH)
async def test_a_reply_cut_at_many_bytes_is_asked_for_again(case: Case) -> None:
    """At every fifth one; `test_torn_stream.py` cuts the streams themselves at every byte."""
    many = list(cuts(case))[::5]
    assert await check_each(case, many) > len(many) * 0.7


async def test_the_tokens_of_a_discarded_reply_are_counted_where_the_api_says_them() -> None:
    events = stream_of("anthropic", THOUGHTFUL)
    talk = Conversation(
        ONE_EACH[0],
        [Broken(b"".join(events[:6])), *(Broken(b"".join(stream_of("anthropic", a))) for a in (THOUGHTFUL, END))],
    )
    await talk.run()
    (discarded,) = (event for event in talk.events if isinstance(event, ReplyDiscarded))
    assert discarded.usage is not None
    assert (discarded.usage.input_tokens, discarded.usage.output_tokens) == (19, 1)
    assert discarded.usage.cost
    assert talk.session.usage.input_tokens == 3 * 19


# Sessions with any model


def overloaded(**more: Any) -> ProviderError:
    return UnavailableError("overloaded", retryable=True, **more)


async def test_no_call_of_a_discarded_reply_has_begun() -> None:
    ran: list[int] = []

    def step(number: int) -> str:
        "Take a step."
        ran.append(number)
        return "ok"

    events: list[Event] = []
    model = ScriptedModel([Cut(call("step", number=1)), Cut(call("step", number=2)), call("step", number=3), "Done."])
    result = await Session(Agent(model, tools=[step]), observer=events.append).run("go")
    assert (result.status, ran) == ("done", [3])
    kinds = [type(event) for event in events if isinstance(event, ReplyDiscarded | Retrying | ToolStarted)]
    assert kinds == [ReplyDiscarded, Retrying] * 2 + [ToolStarted]


async def test_a_failure_that_is_not_for_the_moment_is_not_retried(waits: Waits) -> None:
    model = ScriptedModel([Cut("Hel", ProviderError("no")), "never"])
    result = await Session(Agent(model)).run("go")
    assert (result.status, result.error, waits) == ("error", "no", [])


async def test_a_failed_attempt_is_in_the_log_and_its_tokens_in_the_summary(tmp_path: Path) -> None:
    failure = overloaded()
    failure.usage = Usage(10, 2)
    model = ScriptedModel([Cut("Hel", failure), "Hello."], usage=Usage(3, 1))
    with Log(tmp_path / "log.db") as log:
        with Session.open(log, agent=Agent(model)) as session:
            result = await session.run("go")
            assert result.usage == session.usage == Usage(13, 3)
            kept = session.id
        entries = [record.entry for record in log.records(kept)]
        (failed,) = (entry for entry in entries if isinstance(entry, AttemptFailed))
        assert (failed.reason, failed.attempt, failed.usage) == ("overloaded", 1, Usage(10, 2))
        with Session.open(log, kept, Agent(ScriptedModel([]))) as again:
            assert again.usage == Usage(13, 3)
            assert [message.text for message in again.messages] == ["go", "Hello."]


async def test_a_cancel_in_the_middle_of_a_wait_keeps_nothing_of_the_discarded_reply() -> None:
    session = Session(Agent(ScriptedModel([Cut("Hel", overloaded(retry_after=100.0)), "Hello."])))
    session.observe(lambda event: session.cancel() if isinstance(event, Retrying) else None)
    assert (await session.run("go")).status == "cancelled"
    assert [message.text for message in session.messages] == ["go"]
    assert (await session.run()).text == "Hello."


async def test_the_time_limit_of_a_run_holds_during_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # really wait
    session = Session(Agent(ScriptedModel([overloaded(retry_after=100.0)])))
    assert (await session.run("go", limits=Limits(max_seconds=0.05))).status == "max_seconds"


async def test_a_sub_agent_retries_with_the_policy_of_its_parent(waits: Waits) -> None:
    child = ScriptedModel([Cut("Ver", overloaded()), "Verse."])
    model = ScriptedModel([call("Task", description="write", prompt="write", subagent_type="Poet"), "Done."])
    poet = Profile(name="Poet", description="Writes verse.", model=child)  # type: ignore[arg-type]
    events: list[Event] = []
    agent = with_subagents(Agent(model, retry=Retry(seconds=7)), [poet])
    result = await Session(agent, observer=events.append).run("go")
    assert (result.text, len(waits)) == ("Done.", 1)
    inner = [event.event for event in events if isinstance(event, SubagentEvent)]
    assert [type(event) for event in inner if isinstance(event, ReplyDiscarded | Retrying)] == [
        ReplyDiscarded,
        Retrying,
    ]


WAITING = """
import asyncio, sys
from outrider import Agent, Log, Session
from outrider.testing import ScriptedModel
from outrider.errors import UnavailableError
from outrider.events import Retrying

async def main():
    model = ScriptedModel([UnavailableError("overloaded", retryable=True, retry_after=200.0)])
    async with Session.open(Log(sys.argv[1]), agent=Agent(model)) as session:
        session.observe(lambda event: print(session.id, flush=True) if isinstance(event, Retrying) else None)
        await session.run("go")

asyncio.run(main())
"""


def test_a_session_that_was_killed_in_a_wait_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    child = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(path)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert child.stdout
        kept = child.stdout.readline().strip()
        assert kept, "the session waits"
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if child.stdout:
            child.stdout.close()
    with Log(path) as log, Session.open(log, kept, Agent(ScriptedModel(["Hello."]))) as session:
        assert session.is_unfinished
        assert asyncio.run(session.run()).text == "Hello."
        assert [message.text for message in session.messages] == ["go", "Hello."]
