"""A permission question on the screen, and the key that answers it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from outrider.cli.chat.call_lines import coloured
from outrider.cli.chat.keys import Keyboard, with_key
from outrider.cli.chat.view import View
from outrider.cli.plain import exact, plain, plain_lines
from outrider.cli.styles import BOLD, DIM, YELLOW, broken, columns, fit, styled
from outrider.coding.permissions.question import Answer, Question
from outrider.coding.toolbox.titles import title

PREVIEW_LINES = 12


class QuestionPrompt:
    """Asks the person. One question at a time; Escape and Ctrl-C say no and stop the turn."""

    def __init__(self, view: View, keyboard: Keyboard, folder: Path, interrupt: Callable[[bool], None]) -> None:
        self._view = view
        self._keyboard = keyboard
        self._folder = folder
        self._interrupt = interrupt

    async def __call__(self, question: Question) -> Answer:
        """Show the question and wait."""
        with self._keyboard.listening():
            try:
                await self._show(question)
                return await self._answer(question)
            finally:
                self._view.ask(())

    async def _answer(self, question: Question) -> Answer:
        while True:
            name = (await self._keyboard.next()).name.lower()
            if name == "y":
                return Answer("once")
            if name == "a" and question.always:
                return Answer("always")
            if name == "n":
                return Answer("no")
            if name == "t":
                return Answer("no", await self._words())
            if name in ("escape", "c-c"):
                self._interrupt(name == "c-c")
                return Answer("no")

    async def _words(self) -> str:
        said = ""
        while True:
            asked = plain_lines(f"What should it do instead? {said}▏")
            self._view.ask([styled(line, YELLOW) for line in broken(asked, self._view.region.width)])
            key = await self._keyboard.next()
            if key.name == "enter":
                return said
            if key.name in ("escape", "c-c"):
                return ""
            said = with_key(said, key)

    async def _show(self, question: Question) -> None:
        """What would be done, then the keys. What is too long stands above: nobody agrees to what they cannot see."""
        width = self._view.region.width
        asked = list(_asked(question, width, self._folder))
        keys = list(_keys(question, width))
        room = self._view.region.height - 3  # a line above the cursor, and the status with its distance
        if len(asked) + len(keys) > min(room, PREVIEW_LINES + 6):
            self._view.write(asked)
            asked = [*asked[1 : 3 if question.asker else 2], styled("    (all of it stands above)", DIM)]
        self._view.ask(asked)
        await self._keyboard.until_heard()
        self._view.ask([*asked, *keys] if len(asked) + len(keys) <= room else keys)


def _asked(question: Question, width: int, folder: Path) -> Iterator[str]:
    head = exact(title(question.tool, question.input, folder)).replace("\n", "⏎")
    yield ""
    if question.asker:
        yield styled(f"  {fit(plain(question.asker), width - 8)} asks:", YELLOW)
    yield styled(f"? {fit(f'May I? {head}', width - 2)}", BOLD, YELLOW)
    yield from _preview(question, width, is_cut=columns(head) > width - 10)
    if question.reason:
        for line in broken(plain(question.reason), width - 2):
            yield styled(f"  {line}", DIM)


def _keys(question: Question, width: int) -> Iterator[str]:
    always = plain(f"always in this project: {', '.join(question.always)}") if question.always else ""
    for key, meaning in {"y": "yes, this once", "a": always}.items():
        for number, line in enumerate(broken(meaning, width - 4) if meaning else ()):
            yield f"  {styled(key if number == 0 else ' ', BOLD)} {line}"
    refusals = {"n": "no", "t": "no, and say why", "esc": "stop"}
    together = "    ".join(f"{key} {meaning}" for key, meaning in refusals.items())
    shown = [f"{styled(key, BOLD)} {meaning}" for key, meaning in refusals.items()]
    yield from [f"  {'    '.join(shown)}"] if columns(together) <= width - 2 else [f"  {each}" for each in shown]


def _preview(question: Question, width: int, *, is_cut: bool) -> Iterator[str]:
    """All that would be done, where the title does not say it."""
    given = question.input
    if question.tool in ("Edit", "Write"):
        yield from _argument("file_path", given, width) if is_cut else ()
        yield from coloured(_changed_lines(question.tool, given), width)
        if given.get("replace_all"):
            yield styled("    (all occurrences are replaced)", DIM)
    elif question.tool == "Bash" and isinstance(command := given.get("command"), str):
        if is_cut or "\n" in command:
            yield from _indented(command, width)
    elif is_cut or len(str(given)) > 40:
        for name in given:
            yield from _argument(name, given, width)


def _changed_lines(tool: str, input: dict[str, Any]) -> list[str]:
    if tool == "Write":
        return [f"+{line}" for line in _lines(input.get("content"))]
    old, new = _lines(input.get("old_string")), _lines(input.get("new_string"))
    # Without names of files, which it has not, and without numbers: where in the file this is, nobody knows yet.
    return [line for line in list(difflib.unified_diff(old, new, lineterm="", n=1))[2:] if not line.startswith("@@")]


def _lines(value: Any) -> list[str]:
    text = exact("" if value is None else str(value))
    return text.removesuffix("\n").split("\n") if text else []


def _argument(name: str, input: dict[str, Any], width: int) -> Iterator[str]:
    value = input.get(name, "")
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=repr).decode()
    yield from _indented(f"{plain(name)}: {text}", width)


def _indented(text: str, width: int) -> Iterator[str]:
    for line in exact(text).split("\n"):
        yield from (f"    {part}" for part in broken(line, width - 4))
