"""What a story has on hand: a screen, a folder of its own, someone to ask, and the promises that it did not keep."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.cli.screen import Screen
from outrider.cli.styles import columns, fit, styled
from outrider.providers.testing.demo import DemoModel

PACE = 0.02
"""Seconds for a word, where somebody watches."""
LINE, SCENE = 0.05, 0.6
"""Seconds for a line, and between what is to be read and what comes next."""
WIDEST = 120
LONGEST_STRINGS = (32, 24, 16)
"""Characters that are shown of a string in JSON: as many as the line has room for."""
END = 32
"""Columns of the end of a line that is too long all the same."""


class Stage:
    """One story's."""

    def __init__(self, screen: Screen, title: str, folder: Path, sample: Path) -> None:
        self.screen = screen
        self.title = title
        self.folder = folder
        """For what the story keeps."""
        self.sample = sample
        """The folder that the model is asked about."""
        self.pace = PACE if screen.live else 0.0
        self.model = DemoModel(self.pace)
        self.broken: list[str] = []
        """What was promised and does not hold, each a sentence without its end."""

    def about(self, subtitle: str) -> None:
        """The title, and what the story is about."""
        self.rest()
        self.screen.heading(self.title, subtitle)

    def say(self, *lines: str) -> None:
        """Lines, one after the other, cut to the width of the terminal."""
        for line in lines:
            self.screen.line(fit(line, self._width))
            self._wait(LINE)

    def show(self, lead: str, value: Any, style: str = "") -> None:
        """A piece of JSON in one line, its long strings cut, and where that is not enough its middle."""
        lines = [f"{lead}{_in_short(value, longest)}" for longest in LONGEST_STRINGS]
        line = next((line for line in lines if columns(line) <= self._width), lines[-1])
        if columns(line) > self._width:
            line = fit(line, self._width - END) + line[-END:]
        self.screen.line(styled(line, style) if style and self.screen.live else line)
        self._wait(LINE)

    def rest(self) -> None:
        """Time to read."""
        self._wait(SCENE)

    def check(self, promises: Mapping[str, bool]) -> None:
        """Keep each promise that does not hold: what is to be said of it then, and whether it holds."""
        self.broken += [complaint for complaint, holds in promises.items() if not holds]

    def program(self, module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """How a module is run as a process of its own: its command, and an environment with folders of this story."""
        ours = {"OUTRIDER_HOME": str(self.folder / "home"), "OUTRIDER_CONFIG": str(self.folder / "config.toml")}
        others = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
        return [sys.executable, "-m", module, *arguments], others | ours | {"PYTHONIOENCODING": "utf-8"}

    @property
    def _width(self) -> int:
        return shutil.get_terminal_size().columns - 1 if self.screen.live else WIDEST

    def _wait(self, seconds: float) -> None:
        if self.screen.live:
            time.sleep(seconds)


def last_words(said: str) -> str:
    """The last line of what a program said of its end."""
    return (said.strip() or "nothing").splitlines()[-1]


def _in_short(value: Any, longest: int) -> str:
    return json.dumps(_cut(value, longest), ensure_ascii=False, separators=(",", ":"))


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, dict):
        return {name: _cut(item, longest) for name, item in value.items()}
    if isinstance(value, list):
        return [_cut(item, longest) for item in value]
    return fit(value, longest) if isinstance(value, str) else value
