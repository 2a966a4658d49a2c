"""The fourth story: sub-agents at once, one of them with a schema, the data that came back, and the tree."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from outrider.cli.demo.sample import list_files, read_file
from outrider.cli.demo.stage import Stage
from outrider.cli.session_tree import Branch, tree_lines, tree_of
from outrider.log.log import Log
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event, MessageAdded, TextDelta, ToolFinished
from outrider.runtime.session import Session
from outrider.subagents import Profile, with_subagents

PROMPT = 'Delegate "read notes.txt", "read chart.png" and "read all files" as a table of file, kind, lines.'
READER = Profile(
    name="Reader",
    description="Reads files, and says what is in them.",
    tools=("list_files", "read_file"),
    limits={"turns": 10},
)


def typed_report(stage: Stage) -> str:
    """Three sub-agents, two with words and one with data."""
    stage.about("three sub-agents at once, one with a JSON Schema")
    tasks: list[ToolFinished] = []
    with Log(stage.folder) as log:
        team = with_subagents(Agent(model=stage.model, tools=[list_files, read_file]), [READER])
        with Session.open(log, agent=team, cwd=stage.sample, observer=_watched(stage, tasks)) as session:
            stage.screen.question(PROMPT)
            ended = asyncio.run(session.run(PROMPT))
        tree = tree_of(log, session.id)
    data = data_of(tasks)
    stage.say("", "The data that came back, held against the schema:")
    for row in (row for rows in data for row in rows):
        stage.show("  ", row)
    stage.say("", "The tree, with what each of them cost (the demo model is free):")
    stage.say(*tree_lines(tree))
    stage.check({f"the run ended as {ended.status!r}, not 'done'": ended.status == "done"})
    stage.check(_promises(tasks, data, tree))
    return "Three sub-agents at once, with their costs; one brought data by a schema."


def data_of(tasks: Sequence[ToolFinished]) -> list[Any]:
    """What the sub-agents with a schema reported."""
    return [task.details["structured_output"] for task in tasks if "structured_output" in (task.details or {})]


def _watched(stage: Stage, tasks: list[ToolFinished]) -> Callable[[Event], None]:
    def seen(event: Event) -> None:
        if not tasks or not isinstance(event, TextDelta | MessageAdded):  # the data says more than words about it
            stage.screen.show(event)
        if isinstance(event, ToolFinished) and event.name == "Task":
            tasks.append(event)

    return seen


def _promises(tasks: Sequence[ToolFinished], data: Sequence[Any], tree: Branch) -> dict[str, bool]:
    rows = [(row["file"], row["lines"]) for rows in data for row in rows]
    return {
        f"three tasks were to be done, {len(tasks)} were": len(tasks) == 3,
        "a task failed": not any(task.result.is_error for task in tasks),
        f"one task was to come back with data, {len(data)} did": len(data) == 1,
        "the result is not the data": data == [json.loads(task.result.text) for task in tasks if data_of([task])],
        "the data does not say how many lines notes.txt has": ("notes.txt", 7) in rows,
        f"each task was to have a session of its own, there are {len(tree.children)}": len(tree.children) == 3,
        "the cost of the tree is not known": tree.usage.cost is not None,
    }
