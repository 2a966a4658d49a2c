"""The example of `spawn` in docs/api.md asks its sub-agent once, also if the process ended in between."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Log, Session, Tool, ToolContext, spawn, tool
from outrider.testing import Delay, ScriptedModel, call

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def example(model: ScriptedModel) -> Tool[..., Any]:
    """Return the tool of the page, with this model for its sub-agent."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S))
    found = next(each for each in ast.parse(code).body if getattr(each, "name", "") == "second_opinion")
    reviewer: Callable[..., Agent] = lambda _, **fields: Agent(model, **fields)  # noqa: E731
    names: dict[str, Any] = {"Agent": reviewer, "ToolContext": ToolContext, "spawn": spawn, "tool": tool}
    exec(compile(ast.Module([found], []), PAGE.name, "exec"), names)
    made: Tool[..., Any] = names["second_opinion"]
    return made


@pytest.mark.parametrize("replied", [False, True])
async def test_after_a_crash_the_sub_agent_goes_on_without_a_second_prompt(tmp_path: Path, replied: bool) -> None:
    asking = call("second_opinion", question="What is 2+2?")
    with Log(tmp_path) as log:
        first = ScriptedModel([call("nothing"), Delay(60, "Late.")] if replied else [Delay(60, "Late.")])
        session = await Session.open(log, "case", Agent(ScriptedModel([asking]), tools=[example(first)]), create=True)
        running = asyncio.create_task(session.run("Ask."))
        while len(first.requests) < (2 if replied else 1):
            await asyncio.sleep(0.01)
        await session.suspend()
        await running
        again = Agent(ScriptedModel(["Done."]), tools=[example(ScriptedModel(["It says 4."]))])
        async with Session.open(log, "case", again) as session:
            assert (await session.run()).conversation[2].tool_results[0].text == "It says 4."
        (child,) = log.children("case")
        assert [each.text for each in log.messages(child.id) if each.role == "user" and each.text] == ["What is 2+2?"]


async def test_an_answer_that_was_stored_before_the_crash_is_not_asked_for_again(tmp_path: Path) -> None:
    """The sub-agent has answered; the result of its call is not in the log yet."""
    replies = ScriptedModel(["It says 4."])
    made = example(replies)
    session: Session[Any]

    @tool(effect="read")
    async def second_opinion(question: str, context: ToolContext) -> str:
        "Ask another agent, and stop before the result is stored."
        await made(question, context)
        session.freeze()
        raise asyncio.CancelledError

    with Log(tmp_path) as log:
        asking = ScriptedModel([call("second_opinion", question="What is 2+2?")])
        session = await Session.open(log, "case", Agent(asking, tools=[second_opinion]), create=True)
        await session.run("Ask.")
        await session.aclose()
        again = Agent(ScriptedModel(["Done."]), tools=[example(ScriptedModel([]))])
        async with Session.open(log, "case", again) as session:
            assert (await session.run()).conversation[2].tool_results[0].text == "It says 4."
