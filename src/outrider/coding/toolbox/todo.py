"""The Todo tool: the plan of a session."""

from __future__ import annotations

import msgspec

from outrider.coding.toolbox.workspace import Todo, Workspace
from outrider.text import counted
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, tool

MOST_STEPS = 100
LONGEST_STEP = 2000
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


def todo(workspace: Workspace) -> Tool:
    @tool(name="Todo", effect="idempotent", concurrent=False)
    def plan(todos: list[Todo]) -> ToolResult:
        """Write down the plan for work of several steps, and keep it up to date. The list replaces the previous one.

        Mark a step in_progress before you begin it and completed as soon as it is done; one at a time.

        Args:
            todos: All steps of the plan, in order.
        """
        if problem := _problem(todos):
            return ToolResult(f"The plan was not changed: {problem}", is_error=True)
        workspace.todos = tuple(todos)
        steps = [{"content": step.content, "status": step.status} for step in todos]
        return ToolResult(_summary(todos), details={"todos": steps})

    return msgspec.structs.replace(plan, lasting=True)


def _problem(todos: list[Todo]) -> str:
    if len(todos) > MOST_STEPS:
        return f"it has {len(todos)} steps, and {MOST_STEPS} are the most. Put small ones together."
    for number, step in enumerate(todos, 1):
        if not step.content.strip():
            return f"step {number} is blank."
        if len(step.content) > LONGEST_STEP:
            return f"step {number} has {len(step.content):,} characters, and {LONGEST_STEP:,} are the most."
    return ""


def _summary(todos: list[Todo]) -> str:
    if not todos:
        return "The plan is empty now."
    done = sum(step.status == "completed" for step in todos)
    lines = [f"The plan has {counted(len(todos), 'step')}, {done} completed."]
    lines += [f"{_MARKS[step.status]} {' '.join(step.content.split())}" for step in todos]
    if sum(step.status == "in_progress" for step in todos) > 1:
        lines.append("More than one step is in progress; one at a time is better.")
    return "\n".join(lines)
