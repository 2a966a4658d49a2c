"""`Agent.think`: one turn in async code, without a session that goes on."""

from __future__ import annotations

import asyncio

import pytest

from outrider import Agent, Message, ToolContext, ToolResultBlock, Turn, think
from outrider.errors import ContextExceededError
from outrider.events import Event, MessageAdded
from outrider.runtime.system_prompt import RunContext
from outrider.testing import ScriptedModel, call


def look(at: str) -> str:
    "Look at something."
    return f"{at} is fine"


class Shop:
    name = "Corner"


def sell(context: ToolContext[Shop]) -> str:
    "Sell."
    return context.deps.name


def system(context: RunContext[Shop]) -> str:
    return f"You sell at {context.deps.name}."


async def test_calls_are_returned_and_answered_by_hand() -> None:
    model = ScriptedModel([call("look", at="a"), "It is fine.", "Yes."])
    agent = Agent(model, tools=[look])
    turn = await agent.think("Look at a.")
    assert isinstance(turn, Turn)
    (use,) = turn.tool_calls
    assert turn.conversation[-1].tool_calls == (use,)
    turn = await agent.think(turn.conversation, tool_results=[{"tool_use_id": use.id, "content": "Seen."}])
    assert turn.text == "It is fine."
    assert turn.conversation[2].tool_results[0].text == "Seen."
    turn = await agent.think([*turn.conversation, "Sure?"])
    assert [message.text for message in turn.conversation[-3:]] == ["It is fine.", "Sure?", "Yes."]
    with pytest.raises(ValueError, match="no call waits for a result with the id 'c9'"):
        await agent.think("Look", tool_results=[ToolResultBlock("c9", ())])


async def test_it_takes_the_options_of_a_turn() -> None:
    model, seen = ScriptedModel(["Fine."]), list[Event]()
    agent = Agent[Shop](model, system=system, tools=[sell], deps_type=Shop)
    await agent.think("Hi", deps=Shop(), temperature=0.5, observer=seen.append)
    request = model.requests[0]
    assert (request.system, request.settings.temperature) == ("You sell at Corner.", 0.5)
    assert [event.message.role for event in seen if isinstance(event, MessageAdded)] == ["user", "assistant"]


async def test_a_conversation_that_is_too_long_is_not_shortened() -> None:
    model = ScriptedModel(["never", "never"], window=1_000)
    long = [Message.user("word " * 4_000), Message.assistant("ok"), Message.user("Well?")]
    with pytest.raises(ContextExceededError):
        await Agent(model).think(long)
    assert len(model.requests) <= 1, "no summary is asked for"


def test_many_think_at_once() -> None:
    async def all_of_them() -> list[str]:
        turns = await asyncio.gather(*(Agent(ScriptedModel([str(number)])).think("?") for number in range(20)))
        return [turn.text for turn in turns]

    assert asyncio.run(all_of_them()) == [str(number) for number in range(20)]
    assert think("2+2?", model=ScriptedModel(["4"])) == "4"
