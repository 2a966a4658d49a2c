"""The guidance on Task names the tools and profiles that the agent has, and no others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider import Agent, Profile, Tool, tool, with_subagents
from outrider.coding.toolbox import TOOL_NAMES
from outrider.subagents.profile import built_in
from tests.subagents.teams import HELPER, bench_in

ADVICE = {
    "reading a file whose path you know: use Read": {"Read"},
    "looking for one thing by its name, such as a class: use Grep or Glob": {"Grep", "Glob"},
    "searching two or three files that you know: use Read or Grep yourself": {"Read", "Grep"},
    "one change to a file: use Edit or Write": {"Edit", "Write"},
    "a simple command: use Bash directly": {"Bash"},
    "one page whose address you know: use WebFetch": {"WebFetch"},
}
WHEN = (
    "open-ended questions, such as how authentication works",
    "searches that take several rounds, or go through many files",
    "work of several steps that finds things out and then changes them",
    "running tests or fetching documentation",
)
PRINCIPLE = (
    "Use direct tools for targeted, single operations; use Task for open-ended exploration or multi-step workflows."
)


def as_tool(name: str) -> Tool:
    @tool(name=name)
    def function() -> str:
        """Do it."""
        return name

    return function


def instructions(tools: Sequence[str], profiles: Sequence[Profile] | None = None, model: str = "demo") -> str:
    return with_subagents(Agent(model=model, tools=list(map(as_tool, tools))), profiles).system_prompt


def own_words(text: str) -> str:
    """The guidance without the profiles, whose descriptions are their own."""
    return text.partition("Available sub-agents:")[0]


def test_with_all_tools_it_says_when_to_use_task_and_when_not() -> None:
    said = instructions(TOOL_NAMES)
    for each in (*WHEN, *ADVICE, PRINCIPLE):
        assert each in said
    assert re.search(r"authentication works \(Explore\)\n", said)
    assert re.search(r"then changes them \(General\)\n", said)


@given(st.lists(st.sampled_from([*TOOL_NAMES, "own"]), unique=True))
def test_it_names_no_tool_that_the_agent_does_not_have(tools: list[str]) -> None:
    said = own_words(instructions(tools, [HELPER]))
    named = {name for name in TOOL_NAMES if re.search(rf"\b{name}\b(?! is)", said)}
    assert named <= set(tools)
    assert "{" not in said
    assert not re.search(r"^\[", said, re.M)
    for advice, about in ADVICE.items():
        assert (advice.partition(":")[0] in said) == bool(about & set(tools))
    for each in WHEN:
        assert each in said


def test_it_names_no_profile_that_cannot_be_sent_out() -> None:
    assert "(" not in own_words(instructions(TOOL_NAMES, [HELPER]))
    assert own_words(instructions(["Bash"])).count("(General)") == 1
    assert "(Explore)" not in instructions(["Bash"])


def test_it_follows_the_tools_when_they_change() -> None:
    """Guidance belongs to the agent that reads it, not to the moment at which Task was made."""
    team = with_subagents(Agent(model="demo", tools=[as_tool("Read"), as_tool("Bash")]))
    fewer = Agent(model="demo", tools=[each for each in team.tools if isinstance(each, Tool) and each.name != "Bash"])
    assert "use Bash directly" in team.system_prompt
    assert "use Bash directly" not in fewer.system_prompt
    assert "use Read" in fewer.system_prompt


def test_in_a_workbench_it_names_the_tools_of_the_settings(folder: Path) -> None:
    said = own_words(bench_in(folder, tools=["Task", "Glob", "Bash"]).agent(model="demo").system_prompt)
    said = said.partition("# Sub-agents")[2]
    assert "such as a class: use Glob\n" in said
    assert "use Bash directly" in said
    for name in ("Read", "Grep", "Edit", "Write", "WebFetch"):
        assert f"use {name}" not in said


# Models


def line_of(name: str, said: str) -> str:
    return next(line for line in said.splitlines() if line.startswith(f"- {name}: "))


@pytest.mark.parametrize(
    ("name", "tier"), [("Explore", "fast"), ("Plan", "balanced"), ("Bash", "fast"), ("General", "balanced")]
)
def test_each_profile_is_listed_with_its_tier(name: str, tier: str) -> None:
    line = line_of(name, instructions(TOOL_NAMES, model="anthropic/powerful"))
    assert line.endswith(f" Model: {tier}.")
    profile = next(each for each in built_in() if each.name == name)
    assert profile.description in line


@pytest.mark.parametrize(
    ("wanted", "model", "said"),
    [
        ("", "anthropic/balanced", "the same as yours"),
        ("inherit", "anthropic/balanced", "the same as yours"),
        ("openai/gpt-6-luna", "anthropic/balanced", "openai/gpt-6-luna"),
        ("powerful", "gemini/fast", "powerful"),
        ("fast", "demo", "the same as yours"),  # it has no tiers
    ],
)
def test_the_model_that_is_listed_is_the_one_that_answers(wanted: str, model: str, said: str) -> None:
    profile = Profile(name="Poet", description="Writes verse.", model=wanted)
    assert line_of("Poet", instructions([], [profile], model)) == f"- Poet: Writes verse. Model: {said}."


def test_a_project_s_wish_for_another_vendor_is_not_listed_as_if_it_counted() -> None:
    profile = Profile(name="Spy", description="Looks.", model="openai/gpt-6-luna", from_project=True)
    assert line_of("Spy", instructions([], [profile], "anthropic/fast")).endswith("Model: the same as yours.")


def test_a_tier_that_is_set_wrongly_does_not_keep_the_agent_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_FAST", "fast")
    profile = Profile(name="Poet", description="Writes verse.", model="fast")
    assert line_of("Poet", instructions([], [profile])).endswith("Model: fast.")
