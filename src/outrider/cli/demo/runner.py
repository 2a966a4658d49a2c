"""Runs the demos, then prints the results and what to try next."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from outrider.cli.demo.batch import batch_on_workers
from outrider.cli.demo.coding import coding_task
from outrider.cli.demo.editor import prepared_repository, watching_from_an_editor
from outrider.cli.demo.long_day import long_day
from outrider.cli.demo.picture import one_conversation, picture_from_a_tool
from outrider.cli.demo.report import typed_report
from outrider.cli.demo.script import script_that_holds_its_conversation
from outrider.cli.demo.story import SAMPLE, Story
from outrider.cli.event_printer import EventPrinter
from outrider.environment import LOG_KEY_VARIABLE
from outrider.processes.programs import Programs

StoryFunction: TypeAlias = Callable[[Story], str]
STORIES: dict[str, StoryFunction] = {
    "A coding task": coding_task,
    "A picture from a tool": picture_from_a_tool,
    "Watching from an editor": watching_from_an_editor,
    "A typed report": typed_report,
    "A script that holds its conversation": script_that_holds_its_conversation,
    "A long day": long_day,
    "A batch on workers": batch_on_workers,
    "A repository of another agent": prepared_repository,
    "One conversation over six vendors": one_conversation,
}
"""Each function runs a demo, checks its results, and returns a sentence for the summary."""
NOT_SHOWN = (
    "Pictures approved on a phone need a browser: docs/stories/7-pictures-approved-on-a-phone.md",
    "A refund approved later needs a browser: docs/stories/11-a-refund-approved-later.md",
    "A batch on Postgres needs a database: docs/stories/8-a-batch-on-postgres.md",
)
"""Stories that need more than this package, and where to read them."""
NEXT_COMMANDS = {
    "": "chat in this folder",
    "doctor": "see which API key to set, to use a real model",
    "--help": "list all commands",
}


def run_stories(sample: Path = SAMPLE) -> int:
    """Run the demos; return 0 if all checks passed."""
    printer = EventPrinter(sys.stdout)
    printer.heading("Outrider demo", "no API key, no LLM; nothing leaves this machine")
    printer.line(f"{len(STORIES)} demos. Each checks its own results; the summary is at the end.")
    os.environ[LOG_KEY_VARIABLE] = os.urandom(32).hex()  # for the logs of the demos; the user's key is not made here
    failures: dict[str, list[str]] = {}
    sentences: dict[str, str] = {}
    with TemporaryDirectory(prefix="outrider-demo-") as folder:
        for number, (title, run) in enumerate(STORIES.items(), 1):
            story = Story(printer, f"{number} of {len(STORIES)}  {title}", Path(folder, str(number)), sample)
            story.folder.mkdir()
            sentences[title] = _run_story(run, story)
            failures[title] = story.failures
    printer.heading("Results", "checked against what really happened")
    for title, sentence in sentences.items():
        for failure in failures[title]:
            printer.failure(f"{title}: {failure}.")
        if not failures[title]:
            printer.success(sentence)
    for sentence in NOT_SHOWN:
        printer.line(f"- {sentence}")
    printer.line("")
    printer.line("Next:")
    for command, purpose in NEXT_COMMANDS.items():
        printer.line(f"  {program()} {command:<8}  {purpose}")
    return 1 if any(failures.values()) else 0


def program() -> str:
    """Return the command that starts this program: after `make demo` it is not on the path."""
    if Programs([Path.cwd()]).find("outrider"):
        return "outrider"
    return sys.argv[0] if Path(sys.argv[0]).name == "outrider" else "python -P -m outrider"


def _run_story(run: StoryFunction, story: Story) -> str:
    try:
        return run(story)
    except Exception as error:  # noqa: BLE001 - a failed demo must not stop the others
        story.failures.append(f"the demo failed ({type(error).__name__}: {error})")
        return ""
