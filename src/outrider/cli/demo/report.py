"""Demo 4: three sub-agents in parallel, one with a schema; the data they return, and the tree of sessions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from outrider.cli.demo.story import Story, list_files, read_file
from outrider.cli.session_format import Branch, tree_lines, tree_of
from outrider.log.log import Log
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event, MessageAdded, TextDelta, ToolFinished
from outrider.runtime.session import Session
from outrider.subagents import Profile, with_subagents

PROMPT = 'Delegate "read notes.txt", "read chart.png" and "read all files" as a table of file, kind, lines.'
READER = Profile(
    name="Reader",
    description="Reads files and describes them.",
    tools=("list_files", "read_file"),
    limits={"max_turns": 10},
)


def typed_report(story: Story) -> str:
    """Run three sub-agents: two return text, one returns data."""
    story.heading("three sub-agents in parallel, one with a JSON Schema")
    tasks: list[ToolFinished] = []
    with Log(story.folder) as log:
        team = with_subagents(Agent(model=story.model, tools=[list_files, read_file]), [READER])
        with Session.open(log, agent=team, cwd=story.sample, observer=_observer(story, tasks)) as session:
            story.printer.question(PROMPT)
            result = asyncio.run(session.run(PROMPT))
        tree = tree_of(log, session.id)
    data = structured_outputs(tasks)
    story.print_lines("", "The data, validated against the schema:")
    for row in (row for rows in data for row in rows):
        story.print_json("  ", row)
    story.print_lines("", "The tree of sessions with their costs (the demo model is free):")
    story.print_lines(*tree_lines(tree))
    story.check({f"the run ended with status {result.status!r}, not 'done'": result.status == "done"})
    story.check(_checks(tasks, data, tree))
    return "Typed report: of three parallel sub-agents, one returned validated data."


def structured_outputs(tasks: Sequence[ToolFinished]) -> list[Any]:
    """Return the data of the sub-agents that have a schema."""
    return [task.details["structured_output"] for task in tasks if "structured_output" in (task.details or {})]


def _observer(story: Story, tasks: list[ToolFinished]) -> Callable[[Event], None]:
    def observe(event: Event) -> None:
        if not tasks or not isinstance(event, TextDelta | MessageAdded):  # the data is printed instead of the answer
            story.printer.show(event)
        if isinstance(event, ToolFinished) and event.name == "Task":
            tasks.append(event)

    return observe


def _checks(tasks: Sequence[ToolFinished], data: Sequence[Any], tree: Branch) -> dict[str, bool]:
    rows = [(row["file"], row["lines"]) for rows in data for row in rows]
    return {
        f"expected three tasks, not {len(tasks)}": len(tasks) == 3,
        "a task failed": not any(task.result.is_error for task in tasks),
        f"expected data from one task, not from {len(data)}": len(data) == 1,
        "the text of the result differs from the data": data
        == [json.loads(task.result.text) for task in tasks if structured_outputs([task])],
        "the data does not say how many lines notes.txt has": ("notes.txt", 7) in rows,
        f"expected a session for each task, not {len(tree.children)}": len(tree.children) == 3,
        "the cost of the tree is unknown": tree.usage.cost is not None,
    }
