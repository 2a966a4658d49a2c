"""Hooks of an agent in Python: what each may do, and what its mistakes do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Hooks, Log, Session, with_subagents
from outrider.conversation.messages import Message
from outrider.conversation.user_messages import REPORT
from outrider.errors import ConversationError, HookBlockedError
from outrider.hooks import HookResult
from outrider.prompts import prompt
from outrider.runtime.events import Event, Notice, ToolStarted
from outrider.runtime.hooks import (
    HOOK_SAYS,
    AfterTool,
    BeforeCompaction,
    BeforeTool,
    PromptSubmitted,
    SessionEnd,
    SessionStart,
    Stop,
    SubagentStop,
    newest_request,
)
from outrider.testing import ScriptedModel, call


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agent(steps: list[Any], **hooks: Any) -> Agent:
    return Agent(ScriptedModel(steps), tools=[add], hooks=Hooks(**hooks))


async def test_a_call_is_blocked_and_the_model_reads_why() -> None:
    async def check(event: BeforeTool) -> HookResult | None:
        assert (event.tool, event.input) == ("add", {"a": 1, "b": 2})
        return HookResult(block="no sums today")

    events: list[Any] = []
    result = await agent([call("add", a=1, b=2), "Fine."], before_tool=check).run("go", observer=events.append)
    (refused,) = result.conversation[2].tool_results
    assert refused.is_error
    assert refused.text == "add was not run: a hook blocked it: no sums today"
    assert not any(isinstance(event, ToolStarted) for event in events)


async def test_arguments_are_changed_before_the_approver_sees_them(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def double(event: BeforeTool) -> HookResult:
        return HookResult(input={**event.input, "a": event.input["a"] * 2}, context="doubled")

    def approve(use: Any, tool: Any) -> bool:
        seen.append(use.input)
        return True

    with Log(tmp_path / "log.db") as log:
        async with Session.open(
            log, agent=agent([call("add", a=1, b=2), "Fine."], before_tool=[double, double]), approve=approve
        ) as session:
            result = await session.run("go")
    (answer,) = result.conversation[2].tool_results
    assert seen == [{"a": 4, "b": 2}]
    assert answer.text.startswith("6")
    assert "[A hook says:]\ndoubled\n\ndoubled" in answer.text


async def test_a_hook_after_a_call_adds_to_its_result() -> None:
    async def check(event: AfterTool) -> HookResult:
        return HookResult(block=f"{event.result} is odd", context="more")

    result = await agent([call("add", a=1, b=2), "Fine."], after_tool=check).run("go")
    (answer,) = result.conversation[2].tool_results
    assert answer.text.startswith("3")
    assert "3 is odd" in answer.text
    assert "more" in answer.text
    assert not answer.is_error


async def test_a_prompt_is_blocked_or_gets_context() -> None:
    async def check(event: PromptSubmitted) -> HookResult:
        return HookResult(block="secret") if "password" in event.prompt else HookResult(context="It is Monday.")

    asked = agent(["One.", "Two."], prompt_submitted=check).session()
    blocked = await asked.run("my password is 1")
    assert (blocked.status, blocked.error) == (
        "error",
        "a hook blocked the prompt (secret); change the prompt, or the hook",
    )
    assert not asked.messages
    with pytest.raises(HookBlockedError):
        await asked.think("password")
    result = await asked.run("hello")
    assert result.conversation[0].text.endswith("[A hook says:]\nIt is Monday.")
    assert result.text == "One."


async def test_a_session_starts_once_and_ends_once() -> None:
    seen: list[Any] = []

    async def note(event: Any) -> HookResult:
        seen.append(event)
        return HookResult(context="Welcome.")

    async with agent(["One.", "Two."], session_start=note, session_end=note).session() as session:
        first = await session.run("a")
        await session.run("b")
    await session.aclose()
    session.close()
    assert [type(event) for event in seen] == [SessionStart, SessionEnd]
    assert seen[0].source == "new"
    assert "Welcome." in first.conversation[0].text
    with agent([], session_end=note).session():
        pass  # nothing was said: nothing ends
    assert len(seen) == 2


def test_a_session_that_is_closed_in_sync_code_ends_as_well() -> None:
    seen: list[Any] = []

    async def note(event: Any) -> None:
        seen.append(event)

    import asyncio

    session = agent(["One."], session_end=note).session()
    asyncio.run(session.run("a"))
    session.close()
    assert len(seen) == 1


async def test_a_run_goes_on_while_a_hook_says_so_and_not_for_ever() -> None:
    seen: list[Stop] = []

    async def more(event: Stop) -> HookResult | None:
        seen.append(event)
        return HookResult(block="Run the tests first.") if len(seen) < 2 else None

    result = await agent(["Done.", "Tests pass."], stop=more).run("go")
    assert (result.status, result.text) == ("done", "Tests pass.")
    assert "Run the tests first." in result.conversation[2].text
    assert [event.is_continued for event in seen] == [False, True]

    async def always(event: Stop) -> HookResult:
        return HookResult(block="again")

    stubborn = await agent(["Done."] * 20, stop=always).run("go")
    assert stubborn.status == "done"
    assert stubborn.turns == 9


async def test_a_compaction_is_prevented() -> None:
    async def never(event: BeforeCompaction) -> HookResult:
        assert event.reason == "manual"
        return HookResult(block="keep it")

    session = agent(["One " * 500, "Two " * 500, "Three " * 500], before_compaction=never).session()
    for words in ("a" * 4000, "b" * 4000, "c" * 4000):
        await session.run(words)
    with pytest.raises(ConversationError, match="a hook prevents the compaction: keep it"):
        await session.compact()


async def test_a_hook_may_remark_on_a_compaction() -> None:
    async def remark(event: BeforeCompaction) -> HookResult:
        return HookResult(note="here it comes")

    seen: list[Event] = []
    session = agent(["One " * 500, "Two " * 500, "Three " * 500, "A summary."], before_compaction=remark).session()
    session.observe(seen.append)
    for words in ("a" * 4000, "b" * 4000, "c" * 4000):
        await session.run(words)
    await session.compact()
    assert Notice("here it comes") in seen


async def test_a_sub_agent_stops_with_its_own_event() -> None:
    seen: list[Any] = []

    async def note(event: Any) -> None:
        seen.append(event)

    hooks = Hooks(stop=note, subagent_stop=note, session_start=note, prompt_submitted=note)
    model = ScriptedModel(
        [call("Task", subagent_type="general", description="Look", prompt="Look around"), "Seen it.", "All done."]
    )
    result = await with_subagents(Agent(model, tools=[add], hooks=hooks)).run("go")
    assert result.text == "All done."
    assert [type(event).__name__ for event in seen] == ["SessionStart", "PromptSubmitted", "SubagentStop", "Stop"]
    ended = seen[2]
    assert isinstance(ended, SubagentStop)
    assert ended.text == "Seen it."


async def test_a_hook_that_fails_blocks_a_call_and_nothing_else() -> None:
    async def broken(event: Any) -> HookResult:
        raise RuntimeError("oops")

    events: list[Any] = []
    result = await agent([call("add", a=1, b=2), "Fine."], before_tool=broken, after_tool=broken, stop=broken).run(
        "go", observer=events.append
    )
    assert "a hook failed: RuntimeError: oops" in result.conversation[2].tool_results[0].text
    assert result.status == "done"
    assert [event.text for event in events if isinstance(event, Notice)] == ["a hook failed: RuntimeError: oops"]


@pytest.mark.parametrize("returned", [False, True, "no", HookResult])
async def test_a_hook_that_returns_something_else_has_failed(returned: Any) -> None:
    """False before a call may be meant as a refusal; the result of a tool that ran is not lost."""

    async def odd(event: Any) -> Any:
        return returned

    refused = await agent([call("add", a=1, b=2), "Fine."], before_tool=odd).run("go")
    assert "a hook failed: TypeError: it returned" in refused.conversation[2].tool_results[0].text
    events: list[Any] = []
    ran = await agent([call("add", a=1, b=2), "Fine."], after_tool=odd).run("go", observer=events.append)
    assert (ran.status, ran.conversation[2].tool_results[0].text) == ("done", "3")
    assert ["not None or a HookResult" in event.text for event in events if isinstance(event, Notice)] == [True]


def test_a_hook_must_be_async_and_hooks_must_be_hooks() -> None:
    with pytest.raises(TypeError, match="the hook print of stop must be an async function"):
        Hooks(stop=print)
    with pytest.raises(TypeError, match=r"hooks must be Hooks"):
        Agent("demo", hooks=[print])


async def test_a_cancel_during_a_hook_after_a_call_keeps_its_result() -> None:
    import asyncio

    entered = asyncio.Event()

    async def slow(event: AfterTool) -> None:
        entered.set()
        await asyncio.Event().wait()

    session = agent([call("add", a=1, b=2), "Fine."], after_tool=slow).session()
    running = asyncio.ensure_future(session.run("go"))
    await entered.wait()
    session.cancel()
    assert (await running).status == "cancelled"
    assert session.messages[2].tool_results[0].text.startswith("3")


@pytest.mark.parametrize(
    "said", [prompt("interrupted"), prompt("goal_failed"), f"{REPORT}a1 is done.]", f"{HOOK_SAYS}Be brief.", " "]
)
def test_what_others_say_in_the_name_of_the_user_is_not_the_newest_request(said: str) -> None:
    messages = [Message.user("Write it."), Message.assistant("I will."), Message.user(said)]
    assert newest_request(reversed(messages)) == "Write it."
