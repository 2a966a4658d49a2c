"""Teams that cannot work are refused when they are made."""

from __future__ import annotations

from typing import Any

import pytest

from outrider import Agent, tool, with_subagents
from outrider.errors import ToolDefinitionError
from outrider.subagents import Profile
from outrider.testing import ScriptedModel
from tests.subagents.reporting import HELPER


@pytest.mark.parametrize("at_once", [0, -1, 1.5, None])
def test_a_team_in_which_no_sub_agent_could_run_is_refused(at_once: Any) -> None:
    with pytest.raises(ValueError, match=r"at_once is .*; at least 1 sub-agent must be able to run"):
        with_subagents(Agent(model="demo"), [HELPER], at_once=at_once)


def test_a_tool_of_the_user_with_the_name_task_is_refused() -> None:
    @tool(name="Task")
    def todo(text: str) -> str:
        """Add a task to the list."""
        return text

    with pytest.raises(ToolDefinitionError, match=r"called Task, .*; choose another with @tool\(name=…\)"):
        with_subagents(Agent(model="demo", tools=[todo]), [HELPER])


def test_two_profiles_with_one_name_are_refused() -> None:
    other = Profile(name="Helper", description="Another one.")
    with pytest.raises(ValueError, match="two profiles are called Helper"):
        with_subagents(Agent(model="demo"), [HELPER, other])


def test_the_task_tool_of_an_earlier_team_is_replaced() -> None:
    first = with_subagents(Agent(model=ScriptedModel([])), [HELPER])
    second = with_subagents(first, [Profile(name="Poet", description="Writes verse.")])
    (task,) = second.tools
    assert task.parameters["properties"]["subagent_type"]["enum"] == ["Poet"]
