"""`outrider demo`: the main job on the bundled sample folder, live, and a look at what was recorded."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from outrider.agent import Agent
from outrider.attachments import Attachment
from outrider.cli.screen import Screen
from outrider.conversation import from_json, to_json
from outrider.events import Event, ToolFinished
from outrider.history import violations
from outrider.log.log import Log
from outrider.log.summary import Summary
from outrider.messages import Message
from outrider.providers.demo import DemoModel
from outrider.results import ToolResult
from outrider.runs import RunResult
from outrider.session import Session
from outrider.subagents import Profile, with_subagents
from outrider.text import counted, human_size
from outrider.tools import ToolContext, tool

SAMPLE = Path(__file__).parent / "sample"
PROMPT = "Explore this folder: read everything, look at the picture, and tell me what is there."
DELEGATION = 'Delegate this: "read notes.txt and report.pdf", and "read everything" as a table of file, kind and lines.'
READER = Profile(
    name="Reader",
    description="Reads files, and says what is in them.",
    tools=("list_files", "read_file"),
    limits={"turns": 10},
)
PACE = 0.03


@tool(effect="read")
def list_files(context: ToolContext, folder: str = ".") -> str:
    """List the files of a folder, one a line."""
    return "\n".join(sorted(path.name for path in (context.cwd / folder).iterdir() if path.is_file()))


@tool(effect="read")
async def read_file(path: str, context: ToolContext) -> AsyncIterator[str | ToolResult]:
    """Read a file: text as text, a picture or a PDF as the file itself.

    Args:
        path: The file, relative to the working directory.
    """
    file = context.cwd / path
    size = file.stat().st_size
    data = b""
    with file.open("rb") as stream:
        while chunk := stream.read(max(64, size // 8)):
            data += chunk
            yield f"{human_size(len(data))} of {human_size(size)}"
            await asyncio.sleep(PACE if sys.stdout.isatty() else 0)
    if file.suffix in (".png", ".pdf"):
        yield ToolResult(f"{path} is attached.", attachments=[Attachment.from_path(file)])
    else:
        yield ToolResult(data.decode())


def demo() -> int:
    """Run the demo; 0 if all of it held."""
    screen = Screen(sys.stdout)
    screen.heading("Outrider demo", "demo model, not an LLM: no key is needed and nothing leaves this machine")
    agent = Agent(model=DemoModel(PACE if screen.live else 0), tools=[list_files, read_file])
    tasks: list[ToolFinished] = []
    with TemporaryDirectory() as folder, Log(folder) as log:
        team = with_subagents(agent, [READER])
        session = Session.open(log, agent=team, cwd=SAMPLE, observer=_watched(screen, tasks))
        screen.question(PROMPT)
        explored = asyncio.run(session.run(PROMPT))
        screen.heading(
            "Two sub-agents at once", "each has a session of its own; one of them reports data by a JSON Schema"
        )
        screen.question(DELEGATION)
        delegated = asyncio.run(session.run(DELEGATION))
        _show_data(screen, tasks)
        screen.heading(
            "What was recorded", f"{counted(len(delegated.conversation), 'message')}, ready for any provider"
        )
        for message in delegated.conversation:
            screen.line(f"{message.role:>9}  {_blocks(message)}")
        saved = to_json(delegated.conversation)
        screen.line("")
        screen.line(f"As JSON it has {human_size(len(saved))}: files are referred to by their hash.")
        failures = [*check(session, explored, saved), *check_tasks(tasks, log.children(session.id))]
        session.close()
    for failure in failures:
        screen.failure(failure)
    if not failures:
        screen.success("Every call was answered once, in order; the conversation reads back equal and can be sent.")
        screen.line("Next: the README shows the same from Python, in ten lines.")
    return 1 if failures else 0


def _watched(screen: Screen, tasks: list[ToolFinished]) -> Callable[[Event], None]:
    def seen(event: Event) -> None:
        screen.show(event)
        if isinstance(event, ToolFinished) and event.name == "Task":
            tasks.append(event)

    return seen


def _show_data(screen: Screen, tasks: Sequence[ToolFinished]) -> None:
    for data in _data_of(tasks):
        screen.line("")
        screen.line("The data that came back:")
        for row in data:
            screen.line(f"  {json.dumps(row, ensure_ascii=False)}")


def _data_of(tasks: Sequence[ToolFinished]) -> list[Any]:
    return [task.details["structured_output"] for task in tasks if "structured_output" in task.details]


def check(session: Session, result: RunResult, saved: str) -> list[str]:
    """What the first part of the demo promises and does not hold."""
    results = [block for message in result.conversation for block in message.tool_results]
    kinds = {file.mime_type for block in results for file in block.attachments}
    promises = {
        f"the run ended as {result.status!r}, not 'done': {result.error}": result.status == "done",
        "a call failed": not any(block.is_error for block in results),
        f"four calls were to be answered, {len(results)} were": len(results) == 4,
        f"a picture and a PDF were to be attached, there are {sorted(kinds)}": kinds
        == {"image/png", "application/pdf"},
        "the answer does not speak of the picture": "640 × 400" in result.text,
        "the conversation did not read back equal": from_json(saved, session.store) == session.messages,
        "the history cannot be sent": not violations(session.history.sendable()),
    }
    return [complaint for complaint, holds in promises.items() if not holds]


def check_tasks(tasks: Sequence[ToolFinished], children: Sequence[Summary]) -> list[str]:
    """What the second part promises and does not hold."""
    data = _data_of(tasks)
    promises = {
        f"two tasks were to be done, {len(tasks)} were": len(tasks) == 2,
        "a task failed": not any(task.result.is_error for task in tasks),
        f"one task was to come back with data, {len(data)} did": len(data) == 1,
        "the result is not the data": data == [json.loads(task.result.text) for task in tasks if _data_of([task])],
        "the data does not say how many lines notes.txt has": ("notes.txt", 7)
        in [(row["file"], row["lines"]) for rows in data for row in rows],
        f"each task was to have a session of its own, there are {len(children)}": len(children) == 2,
    }
    return [complaint for complaint, holds in promises.items() if not holds]


def _blocks(message: Message) -> str:
    counts = Counter(block.__struct_config__.tag for block in message.content)
    files = sum(len(result.attachments) for result in message.tool_results)
    named = ", ".join(f"{count} × {kind}" if count > 1 else str(kind) for kind, count in counts.items())
    return f"{named} (with {counted(files, 'file')})" if files else named
