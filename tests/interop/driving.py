"""What the drivers in Python share: the play, and the report. Run by the Python that has the client."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
PLAY: Json = json.loads(sys.argv[1])
FOLDERS, PROMPTS = PLAY["folders"], PLAY["prompts"]
PROJECT: str = FOLDERS["project"]


def notes() -> str:
    return Path(PROJECT, "notes.txt").read_text()


def report(scene: str, **what: Any) -> None:
    """Print one line for a scene."""
    print(json.dumps({"scene": scene, **what}), flush=True)


def reporting_the_first_words() -> Callable[[Json], None]:
    """A watcher that reports when the first words of an answer are there."""
    begun: list[Json] = []

    def watch(update: Json) -> None:
        if update["sessionUpdate"] == "agent_message_chunk" and not begun:
            begun.append(update)
            report("streaming")

    return watch


def when_it_runs(act: Callable[[], object]) -> Callable[[Json], None]:
    """A watcher that acts when the command to be cancelled has shown something."""

    def watch(update: Json) -> None:
        if update["sessionUpdate"] == "tool_call_update" and "started" in json.dumps(update.get("content", "")):
            act()

    return watch


def noticing(status: str) -> tuple[asyncio.Event, Callable[[Json], None]]:
    """An event, and a watcher that sets it when a call has this status."""
    seen = asyncio.Event()
    return seen, lambda update: seen.set() if update.get("status") == status else None
