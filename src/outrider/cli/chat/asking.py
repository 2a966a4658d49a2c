"""A permission question on the screen, and the key that answers it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from outrider.cli.chat.call_lines import diff_lines
from outrider.cli.chat.keys import Keyboard
from outrider.cli.chat.styles import BOLD, DIM, YELLOW, columns, fit, styled
from outrider.cli.chat.view import View
from outrider.cli.plain import plain, plain_lines
from outrider.permissions.question import Answer, Question
from outrider.toolbox.titles import title

PREVIEW_LINES = 12
MOST_LINES = 400
_YES, _ALWAYS, _NO, _WORDS = ("y", "enter"), ("a",), ("n",), ("t",)


class Asker:
    """Asks the person. One question at a time; Escape and Ctrl-C say no and stop the turn."""

    def __init__(self, view: View, keyboard: Keyboard, folder: Path, interrupt: Callable[[bool], None]) -> None:
        self._view = view
        self._keyboard = keyboard
        self._folder = folder
        self._interrupt = interrupt

    async def __call__(self, question: Question) -> Answer:
        """Show the question and wait."""
        try:
            self._view.ask(list(self._panel(question)))
            return await self._answer(question)
        finally:
            self._view.ask(())

    async def _answer(self, question: Question) -> Answer:
        while True:
            key = (await self._keyboard.next()).lower()
            if key in _YES:
                return Answer("once")
            if key in _ALWAYS and question.always:
                return Answer("always")
            if key in _NO:
                return Answer("no")
            if key in _WORDS:
                return Answer("no", await self._words())
            if key in ("escape", "c-c"):
                self._interrupt(key == "c-c")
                return Answer("no")

    async def _words(self) -> str:
        said = ""
        while True:
            self._view.ask([styled(f"What should it do instead? {said}▏", YELLOW)])
            key = await self._keyboard.next()
            if key == "enter":
                return said
            if key in ("escape", "c-c"):
                return ""
            said = said[:-1] if key == "backspace" else said + key if len(key) == 1 else said

    def _panel(self, question: Question) -> Iterator[str]:
        width = self._view.region.width
        head = plain(title(question.tool, question.input, self._folder))
        yield ""
        yield styled(f"? {fit(f'May I? {head}', width - 2)}", BOLD, YELLOW)
        yield from self._preview(list(_preview(question.tool, question.input, width)))
        if question.reason:
            yield styled(f"  {fit(plain(question.reason), width - 2)}", DIM)
        yield f"  {styled('y', BOLD)} yes, this once"
        if question.always:
            rules = fit(plain(", ".join(question.always)), width - 30)
            yield f"  {styled('a', BOLD)} always in this project: {rules}"
        yield f"  {styled('n', BOLD)} no    {styled('t', BOLD)} no, and say why    {styled('esc', BOLD)} stop"

    def _preview(self, lines: list[str]) -> list[str]:
        """What would be done. What is too long for the panel stands above it: nobody agrees to what they cannot see."""
        if len(lines) <= PREVIEW_LINES:
            return lines
        self._view.write(["", *lines])
        return [styled("    (all of it stands above)", DIM)]


def _preview(tool: str, input: dict[str, Any], width: int) -> Iterator[str]:
    """All that would be done, where the title does not say it."""
    if tool == "Edit":
        old, new = (plain_lines(str(input.get(key, ""))).split("\n") for key in ("old_string", "new_string"))
        yield from diff_lines("\n".join(difflib.unified_diff(old, new, lineterm="", n=1)), width, MOST_LINES)
    elif tool == "Write":
        content = str(input.get("content", "")).split("\n")
        yield from diff_lines("\n".join(f"+{line}" for line in content), width, MOST_LINES)
    elif tool == "Bash":
        command = plain_lines(str(input.get("command", "")))
        if "\n" in command or columns(command) > width - 20:
            for line in command.split("\n"):
                yield from (f"    {part}" for part in _broken(line, width - 4))


def _broken(line: str, width: int) -> Iterator[str]:
    """A line in pieces that fit, with nothing left out."""
    piece = ""
    for character in line:
        if columns(piece + character) > width:
            yield piece
            piece = ""
        piece += character
    yield piece
