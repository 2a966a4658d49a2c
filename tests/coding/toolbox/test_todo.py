"""`Todo`: the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.coding.toolbox.todo import MOST_STEPS, todo
from outrider.coding.toolbox.workspace import Todo, Workspace
from outrider.errors import ValidationError
from tests.coding.toolbox.calling import call


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def steps(*each: tuple[str, str]) -> list[dict[str, str]]:
    return [{"content": content, "status": status} for content, status in each]


async def test_the_plan_is_kept_and_said(workspace: Workspace) -> None:
    plan = steps(("Read", "completed"), ("Write", "in_progress"), ("Test", "pending"))
    result = await call(todo(workspace), todos=plan)
    assert result.text == "The plan has 3 steps, 1 completed.\n[x] Read\n[>] Write\n[ ] Test"
    assert result.details == {"todos": plan}
    assert list(workspace.todos) == [Todo("Read", "completed"), Todo("Write", "in_progress"), Todo("Test", "pending")]


async def test_a_new_plan_replaces_the_last_one(workspace: Workspace) -> None:
    tool = todo(workspace)
    await call(tool, todos=steps(("Old", "pending")))
    await call(tool, todos=[{"content": "New"}])
    assert list(workspace.todos) == [Todo("New", "pending")]
    result = await call(tool, todos=[])
    assert result.text == "The plan is empty now."
    assert list(workspace.todos) == []


async def test_two_steps_at_once_are_allowed_and_remarked_on(workspace: Workspace) -> None:
    result = await call(todo(workspace), todos=steps(("A", "in_progress"), ("B", "in_progress")))
    assert not result.is_error
    assert result.text.endswith("More than one step is in progress; one at a time is better.")
    assert len(workspace.todos) == 2


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (steps(("Fine", "pending"), (" \n", "pending")), "step 2 is blank"),
        (steps(*[("x", "pending")] * (MOST_STEPS + 1)), "it has 101 steps, and 100 are the most"),
        (steps(("x" * 3000, "pending")), "step 1 has 3,000 characters"),
    ],
)
async def test_a_plan_that_is_none_changes_nothing(workspace: Workspace, plan: Any, said: str) -> None:
    tool = todo(workspace)
    await call(tool, todos=steps(("Kept", "pending")))
    result = await call(tool, todos=plan)
    assert result.is_error
    assert result.text.startswith("The plan was not changed")
    assert said in result.text
    assert list(workspace.todos) == [Todo("Kept", "pending")]


@pytest.mark.parametrize("plan", [steps(("x", "done")), [{"status": "pending"}], ["x"], "x", None])
async def test_a_wrong_shape_is_named(workspace: Workspace, plan: Any) -> None:
    with pytest.raises(ValidationError, match="todos"):
        await call(todo(workspace), todos=plan)


async def test_a_step_of_several_lines_is_said_in_one(workspace: Workspace) -> None:
    result = await call(todo(workspace), todos=steps(("first\n  second", "pending")))
    assert result.text.endswith("[ ] first second")


def test_running_it_again_does_no_harm(workspace: Workspace) -> None:
    assert todo(workspace).effect == "idempotent"


async def test_other_words_for_a_step_are_taken_and_not_shown(workspace: Workspace) -> None:
    result = await call(todo(workspace), todos=[{"content": "Read", "status": "pending", "activeForm": "Reading"}])
    assert not result.is_error
    assert result.details == {"todos": [{"content": "Read", "status": "pending"}]}
