"""The five stories one after the other, what held, and what to do next."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from outrider.cli.demo.coding import coding_task
from outrider.cli.demo.editor import watching_from_an_editor
from outrider.cli.demo.files import picture_from_a_tool
from outrider.cli.demo.report import typed_report
from outrider.cli.demo.sample import SAMPLE
from outrider.cli.demo.script import script_that_holds_its_conversation
from outrider.cli.demo.stage import Stage
from outrider.cli.screen import Screen

Story: TypeAlias = Callable[[Stage], str]
STORIES: dict[str, Story] = {
    "A coding task": coding_task,
    "A picture from a tool": picture_from_a_tool,
    "Watching from an editor": watching_from_an_editor,
    "A typed report": typed_report,
    "A script that holds its conversation": script_that_holds_its_conversation,
}
"""Each tells itself, checks what it promises, and says what held."""
NEXT = """\
Next:  outrider           talk, in a folder of yours
       outrider doctor    set a key, for answers of a real model
       outrider --help    everything else; the README has the same from Python"""


def tell_all(sample: Path = SAMPLE) -> int:
    """Tell the stories; 0 if every promise in them held."""
    screen = Screen(sys.stdout)
    screen.heading("Outrider demo", "demo model, not an LLM: no key, and nothing leaves this machine")
    screen.line("Five stories: each checks what it promises, and the end says what held.")
    broken: dict[str, list[str]] = {}
    held: dict[str, str] = {}
    with TemporaryDirectory(prefix="outrider-demo-") as folder:
        for number, (title, story) in enumerate(STORIES.items(), 1):
            stage = Stage(screen, f"{number} of {len(STORIES)}  {title}", Path(folder, str(number)), sample)
            stage.folder.mkdir()
            held[title] = _told(story, stage)
            broken[title] = stage.broken
    screen.heading("What held", "each promise was checked on what really happened")
    for title, sentence in held.items():
        for complaint in broken[title]:
            screen.failure(f"{title}: {complaint}.")
        if not broken[title]:
            screen.success(sentence)
    screen.line("")
    screen.line(NEXT)
    return 1 if any(broken.values()) else 0


def _told(story: Story, stage: Stage) -> str:
    try:
        return story(stage)
    except Exception as error:  # noqa: BLE001 - a story that breaks off has not kept its promise; the others are told
        stage.broken.append(f"the story broke off ({type(error).__name__}: {error})")
        return ""
