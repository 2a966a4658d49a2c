"""Another model is asked at each step of a recorded session, with the recorded history before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider import Agent, Log, Session, Usage, tool
from outrider.conversation.messages import Message, ToolUseBlock
from outrider.errors import LogError
from outrider.log.entries import MessageEntry
from outrider.replay.other_model import agreement_of, other_replies
from outrider.testing import ScriptedModel, Step, call

CALL = call("look", at="a")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log") as log:
        yield log


@tool(effect="read")
def look(at: str) -> str:
    return f"{at} is empty"


async def recorded(log: Log) -> str:
    model = ScriptedModel([CALL, [CALL, call("look", at="b")], "Empty.", "Yes."])
    async with Session.open(log, agent=Agent(model, system="Be brief.", tools=[look], temperature=1)) as session:
        await session.run("Go.")
        await session.run("Really?")
        return session.id


async def test_each_step_has_the_recorded_history_and_is_compared(log: Log) -> None:
    session = await recorded(log)
    steps: list[Step] = [CALL, call("look", at="c"), call("look", at="d"), "Sure."]
    with ScriptedModel(steps, usage=Usage(10, 1, cost=0.1)) as other:
        found = [each async for each in other_replies(log, session, other, system="Be kind.")]
    assert [each.agreement for each in found] == ["same", "other tools", "a call instead of text", "same"]
    assert [each.turn for each in found] == [1, 2, 3, 4]
    assert sum((each.usage.cost or 0) for each in found) == pytest.approx(0.4)
    messages = log.messages(session)
    at = [place for place, each in enumerate(messages) if each.role == "assistant"]
    assert [[*request.messages] for request in other.requests] == [messages[:place] for place in at]
    assert {request.system for request in other.requests} == {"Be kind."}
    assert {request.settings.temperature for request in other.requests} == {None}
    assert [spec.name for spec in other.requests[0].tools] == ["look"]


async def test_a_log_that_does_not_say_what_was_sent_is_not_asked_about(log: Log) -> None:
    journal = log.create()
    journal.write_now(MessageEntry(Message.user("Hi")), MessageEntry(Message.assistant("Hello"), stop_reason="end"))
    journal.close()
    with pytest.raises(LogError, match=r"does not say what turn 1 .* sent"):
        _ = [each async for each in other_replies(log, journal.id, ScriptedModel(["Hello"]))]


calls = st.lists(
    st.builds(ToolUseBlock, st.just("id"), st.sampled_from("ab"), st.dictionaries(st.just("x"), st.integers(0, 1)))
)


@given(calls, calls)
def test_agreement_ignores_the_order(one: list[ToolUseBlock], other: list[ToolUseBlock]) -> None:
    first, second = Message("assistant", tuple(one)), Message("assistant", tuple(other))
    assert agreement_of(first, Message("assistant", tuple(reversed(one)))) == "same"
    found = agreement_of(first, second)
    assert (found == "same") == (agreement_of(second, first) == "same")
    names = [sorted(each.name for each in side) for side in (one, other)]
    assert (found in ("same", "other arguments")) == (names[0] == names[1])
    assert (found == "text instead of a call") == (bool(one) and not other)
