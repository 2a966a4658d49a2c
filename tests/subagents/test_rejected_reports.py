"""A report that never satisfies its schema: the parent reads what is wrong with it, and what it was."""

from __future__ import annotations

import pytest

from outrider import Agent, Limits, RunError
from outrider.subagents import Profile
from outrider.testing import ScriptedModel
from tests.subagents.reporting import Team, report_back, task

COUNT = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 1}}, "required": ["count"]}
WRONG = report_back(count=-41)


def limited(**limits: int) -> Profile:
    return Profile(name="Helper", description="Does what it is told to.", limits=limits)


async def answer_of(steps: list[object], profile: Profile) -> str:
    team = Team([task("a", output_schema=COUNT)], {"a": steps}, profiles=[profile])  # type: ignore[dict-item]
    assert (await team.run()).status == "done"
    result = team.results[0].result
    assert result.outcome == "failed"
    return result.text


@pytest.mark.parametrize(
    ("steps", "limits"),
    [
        ([[WRONG]] * 20, {}),
        ([[WRONG]] * 20, {"max_turns": 2}),
        ([[WRONG], "I cannot.", "I really cannot."], {}),
        ([[WRONG], "I cannot."], {"max_turns": 2}),
    ],
    ids=["repeated", "no turns left", "given up", "no turn to remind it"],
)
async def test_the_parent_reads_the_violation_and_the_rejected_data(
    steps: list[object], limits: dict[str, int]
) -> None:
    text = await answer_of(steps, limited(**limits))
    assert "the report was rejected: count: " in text
    assert '{"count":-41}' in text
    assert "repeated the same calls" not in text
    assert "ended without a report" not in text


async def test_the_newest_of_several_reports_counts() -> None:
    text = await answer_of([[WRONG], [report_back(count="many")], "No.", "No."], limited())
    assert '{"count":"many"}' in text
    assert "-41" not in text


async def test_arguments_that_are_no_json_are_given_as_they_came() -> None:
    from outrider.conversation.messages import ToolUseBlock

    broken = ToolUseBlock("c1", "report_back", {}, '{"count": 4')
    text = await answer_of([[broken], "No.", "No."], limited())
    assert 'The rejected data: {"count": 4' in text


async def test_long_data_is_shortened() -> None:
    text = await answer_of([[report_back(count="x" * 100_000)], "No.", "No."], limited())
    assert "characters left out here" in text
    assert len(text) < 10_000


async def test_the_error_of_ask_says_it_also_at_a_limit() -> None:
    agent = Agent(model=ScriptedModel([[WRONG]] * 9), limits=Limits(max_turns=3))
    with pytest.raises(RunError, match=r"max_turns(.|\n)*the report was rejected: count: (.|\n)*-41"):
        await agent.ask("How many?", COUNT)
