"""The scripted model: it says what it was told to, as a provider says it, and fails on demand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Log, Profile, Session, run, with_subagents
from outrider.conversation.messages import Message, TextBlock, ThinkingBlock, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.conversation.usage import Usage
from outrider.errors import ProviderError
from outrider.providers.base import Provider, Reply, Request, StopReason, ToolSpec
from outrider.runtime.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from outrider.testing import Cut, Delay, ScriptedModel, Step, call, malformed_call


def request(*prompt: str, **fields: Any) -> Request:
    return Request([Message.user(*prompt)], MemoryStore(), **fields)


async def ask(model: ScriptedModel, asked: Request | None = None) -> list[Delta | Reply]:
    return [item async for item in model.stream(asked or request("hi"))]


async def reply_to(step: Step) -> Reply:
    last = (await ask(ScriptedModel([step])))[-1]
    assert isinstance(last, Reply)
    return last


def test_it_is_a_provider() -> None:
    assert isinstance(ScriptedModel([]), Provider)
    assert ScriptedModel([]).name == "scripted"


async def test_a_string_is_one_delta_and_one_reply() -> None:
    assert await ask(ScriptedModel(["Hello."])) == [
        TextDelta("Hello."),
        Reply(Message.assistant("Hello."), StopReason.END, Usage()),
    ]


async def test_parts_come_in_order_and_calls_get_ids() -> None:
    step = [ThinkingBlock("hm"), "I'll look.", call("read", path="a"), call("read", path="b")]
    assert await ask(ScriptedModel([step])) == [
        ThinkingDelta("hm"),
        TextDelta("I'll look."),
        ToolCallDelta("call_1", "read", '{"path":"a"}'),
        ToolCallDelta("call_2", "read", '{"path":"b"}'),
        Reply(
            Message.assistant(
                ThinkingBlock("hm"),
                "I'll look.",
                ToolUseBlock("call_1", "read", {"path": "a"}),
                ToolUseBlock("call_2", "read", {"path": "b"}),
            ),
            StopReason.TOOL_USE,
        ),
    ]


async def test_ids_are_not_used_twice_in_a_conversation() -> None:
    model = ScriptedModel([call("a"), [call("b"), call("c")], call("d")])
    replies = [(await ask(model))[-1] for _ in range(3)]
    ids = [each.id for item in replies if isinstance(item, Reply) for each in item.message.tool_calls]
    assert len(set(ids)) == 4


async def test_an_id_that_the_script_gives_is_kept() -> None:
    reply = await reply_to([ToolUseBlock("mine", "read", {}), call("read")])
    assert [each.id for each in reply.message.tool_calls] == ["mine", "call_1"]


async def test_the_step_itself_is_not_changed() -> None:
    step = [call("read")]
    await ask(ScriptedModel([step]))
    assert step == [ToolUseBlock("", "read", {})]


def test_an_argument_may_have_the_name_of_any_parameter() -> None:
    assert call("read", tool="x", self="y", name="z").input == {"tool": "x", "self": "y", "name": "z"}


async def test_arguments_that_are_no_json_come_as_the_model_wrote_them() -> None:
    items = await ask(ScriptedModel([malformed_call("read", '{"path": ')]))
    assert items == [
        ToolCallDelta("call_1", "read", '{"path": '),
        Reply(
            Message.assistant(ToolUseBlock("call_1", "read", {}, invalid_input='{"path": ')),
            StopReason.TOOL_USE,
        ),
    ]


@pytest.mark.parametrize(
    "step", ["hi", TextBlock("hi"), ["h", "i"], ("hi",), Message.assistant("hi"), Message.user("hi")]
)
async def test_whatever_form_the_step_has_the_reply_is_the_assistants(step: Step) -> None:
    reply = await reply_to(step)
    assert reply.message.role == "assistant"
    assert reply.text == "hi"


async def test_a_reply_is_played_as_it_is() -> None:
    reply = Reply(Message.assistant("cut sho"), StopReason.MAX_TOKENS, Usage(7, 3))
    assert await ask(ScriptedModel([reply], usage=Usage(1))) == [TextDelta("cut sho"), reply]


async def test_an_empty_step_is_an_empty_reply() -> None:
    for step in ("", []):
        assert await ask(ScriptedModel([step])) == [Reply(Message("assistant", ()))]


async def test_each_reply_uses_what_was_set() -> None:
    model = ScriptedModel(["a", "b"], usage=Usage(10, 2))
    for _ in range(2):
        last = (await ask(model))[-1]
        assert isinstance(last, Reply)
        assert last.usage == Usage(10, 2)


@pytest.mark.parametrize(
    ("chunk", "pieces"),
    [(0, ["abcdefg"]), (1, list("abcdefg")), (3, ["abc", "def", "g"]), (7, ["abcdefg"]), (99, ["abcdefg"])],
)
async def test_text_comes_in_pieces_of_the_size_that_was_set(chunk: int, pieces: list[str]) -> None:
    items = await ask(ScriptedModel(["abcdefg"], chunk=chunk))
    assert items == [*map(TextDelta, pieces), Reply(Message.assistant("abcdefg"))]


async def test_steps_are_played_one_after_the_other() -> None:
    model = ScriptedModel(step for step in ("one", "two"))
    assert [(await ask(model))[0] for _ in range(2)] == [TextDelta("one"), TextDelta("two")]


async def test_a_request_after_the_last_step_is_an_error_that_counts() -> None:
    model = ScriptedModel(["only"])
    await ask(model)
    with pytest.raises(ProviderError, match="the script has 1 steps, and this is request 2"):
        await ask(model)


async def test_what_it_was_asked_can_be_read_afterwards() -> None:
    first = request("one", system="be brief", tools=(ToolSpec("read", "Reads.", {"type": "object"}),))
    second = request("two", reminder="last turn")
    model = ScriptedModel(["a", ProviderError("no")])
    await ask(model, first)
    with pytest.raises(ProviderError):
        await ask(model, second)
    assert model.requests == [first, second]


async def test_an_error_is_raised_before_anything_is_said() -> None:
    items = []
    with pytest.raises(ProviderError, match="overloaded"):  # noqa: PT012 - what came before the error is looked at
        async for item in ScriptedModel([ProviderError("overloaded")]).stream(request("hi")):
            items.append(item)
    assert items == []


async def test_after_an_error_the_script_goes_on() -> None:
    model = ScriptedModel([ProviderError("overloaded"), "better now"])
    with pytest.raises(ProviderError):
        await ask(model)
    assert (await ask(model))[0] == TextDelta("better now")


async def test_a_cut_reply_has_its_deltas_and_no_reply() -> None:
    assert await ask(ScriptedModel([Cut(["It pri", call("read")])])) == [
        TextDelta("It pri"),
        ToolCallDelta("call_1", "read", "{}"),
    ]


async def test_a_reply_cut_by_an_error_has_its_deltas_first() -> None:
    items = []
    with pytest.raises(ProviderError, match="reset"):  # noqa: PT012 - what came before the error is looked at
        async for item in ScriptedModel([Cut("It pri", ProviderError("reset"))]).stream(request("hi")):
            items.append(item)
    assert items == [TextDelta("It pri")]


async def test_a_delayed_reply_says_nothing_before_its_time_and_can_be_cancelled() -> None:
    model = ScriptedModel([Delay(3600, "too late")])
    task = asyncio.create_task(ask(model))
    while not model.requests:
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_delayed_step_is_played_in_the_end() -> None:
    assert (await ask(ScriptedModel([Delay(0.001, Cut("a"))]))) == [TextDelta("a")]


async def test_a_step_may_depend_on_what_was_asked() -> None:
    model = ScriptedModel([lambda asked: asked.messages[-1].text.upper(), lambda asked: lambda asked: Cut("nested")])
    assert (await ask(model, request("hi")))[0] == TextDelta("HI")
    assert await ask(model) == [TextDelta("nested")]


async def test_one_function_may_play_every_step() -> None:
    model = ScriptedModel(lambda asked: asked.messages[-1].text[::-1])
    for word in ("one", "two", "three"):
        assert (await ask(model, request(word)))[0] == TextDelta(word[::-1])


async def test_requests_at_the_same_time_each_get_a_step_of_their_own() -> None:
    model = ScriptedModel([f"step {number}" for number in range(20)], chunk=1)
    replies = await asyncio.gather(*(ask(model) for _ in range(20)))
    texts = sorted(items[-1].text for items in replies if isinstance(items[-1], Reply))
    assert texts == sorted(f"step {number}" for number in range(20))


async def test_the_deltas_together_are_the_reply() -> None:
    items = await ask(ScriptedModel([["añb", ThinkingBlock("why"), "ç😀"]], chunk=2))
    deltas, reply = items[:-1], items[-1]
    assert isinstance(reply, Reply)
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "añbç😀"
    assert [delta.text for delta in deltas if isinstance(delta, ThinkingDelta)] == ["why"]


async def test_calls_of_a_reply_get_ids_too() -> None:
    reply = await reply_to(Reply(Message.assistant(call("read"), call("read")), StopReason.TOOL_USE))
    assert len({each.id for each in reply.message.tool_calls} - {""}) == 2


# Failures of the test


def wrong(asked: Request) -> str:
    assert asked.system == "be brief", "the instructions are lost"
    return "fine"


@pytest.mark.parametrize("script", [wrong, [wrong], [Delay(0, wrong)]])
def test_an_assertion_in_a_script_reaches_the_test(script: Any) -> None:
    with pytest.raises(AssertionError, match="the instructions are lost"):
        run("hi", model=ScriptedModel(script))


async def test_it_reaches_who_awaits_a_session_or_its_events() -> None:
    session = Session(Agent(ScriptedModel(wrong)))
    with pytest.raises(AssertionError, match="lost"):
        await session.run("hi")
    with pytest.raises(AssertionError, match="lost"):
        _ = [event async for event in session.stream("again")]
    assert not session._task.is_busy


async def test_a_session_in_a_log_can_go_on_after_it(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        async with Session.open(log, agent=Agent(ScriptedModel(wrong))) as session:
            with pytest.raises(AssertionError):
                await session.run("hi")
        async with Session.open(log, session.id, Agent(ScriptedModel(["Hello."]))) as again:
            assert (await again.run()).text == "Hello."


async def test_an_assertion_of_another_provider_is_a_failure_of_it() -> None:
    class Broken(ScriptedModel):
        passes_assertions = False

    result = await Agent(Broken(wrong)).run("hi")
    assert (result.status, result.error) == (
        "error",
        "scripted failed: AssertionError: the instructions are lost\nassert '' == 'be brief'\n  \n  - be brief",
    )


def test_steps_that_were_not_used_fail_the_test() -> None:
    unused = pytest.raises(AssertionError, match=r"2 of 3 steps were not used: ToolUseBlock\(.*, 'three'$")
    with unused, ScriptedModel(["one", call("look"), "three"]) as model:
        run("hi", model=model)


def test_a_script_that_was_used_up_passes() -> None:
    with ScriptedModel(["one"]) as model:
        assert run("hi", model=model).text == "one"
    with ScriptedModel(lambda asked: "whatever"):
        pass


def test_another_failure_is_not_hidden_by_steps_that_were_not_used() -> None:
    with pytest.raises(ZeroDivisionError), ScriptedModel(["one"]):
        raise ZeroDivisionError


def test_an_assertion_in_a_sub_agent_is_raised_at_the_end() -> None:
    def answer(asked: Request) -> Step:
        if "Task" in {spec.name for spec in asked.tools}:
            return (
                call("Task", description="look", prompt="Look.", subagent_type="R")
                if len(asked.messages) == 1
                else "Seen."
            )
        raise AssertionError("the sub-agent has no tools")

    model = ScriptedModel(answer)
    team = with_subagents(Agent(model), [Profile(name="R", description="Reads.")])
    with pytest.raises(AssertionError, match="has no tools"), model:
        assert asyncio.run(team.run("hi")).status == "done"
