"""Ask the user for permission on the screen, and read the answering key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from outrider.cli.chat.keyboard import Keyboard, with_key
from outrider.cli.chat.session_view import SessionView
from outrider.cli.chat.tool_call_lines import coloured_diff
from outrider.cli.sanitize import reveal_hidden, safe_line, safe_lines
from outrider.cli.styles import BOLD, DIM, YELLOW, columns, fit, styled, wrap_columns
from outrider.coding.permissions.question import ALL_EDITS, Answer, Mode, Question
from outrider.coding.permissions.rules import meaning_of
from outrider.coding.remote.bodies import changed_lines, offers_edits
from outrider.coding.toolbox.titles import title

PREVIEW_LINES = 12


class PermissionPrompt:
    """Asks the user, one question at a time. Escape and Ctrl-C deny the call and cancel the turn."""

    def __init__(
        self,
        view: SessionView,
        keyboard: Keyboard,
        folder: Path,
        interrupt: Callable[[bool], None],
        mode: Callable[[], Mode] = lambda: "ask",
    ) -> None:
        self._view = view
        self._keyboard = keyboard
        self._folder = folder
        self._interrupt = interrupt
        self._mode = mode

    async def __call__(self, question: Question) -> Answer:
        """Show the question and wait for the answer."""
        with self._keyboard.capturing():
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
            if name == "e" and self._is_edit(question):
                return Answer("edits")
            if name == "n":
                return Answer("no")
            if name == "t":
                return Answer("no", await self._read_reason())
            if name in ("escape", "c-c"):
                self._interrupt(name == "c-c")
                return Answer("no")

    def _is_edit(self, question: Question) -> bool:
        return offers_edits(question, self._mode())

    async def _read_reason(self) -> str:
        reason = ""
        while True:
            asked = safe_lines(f"What should it do instead? {reason}▏")
            self._view.ask([styled(line, YELLOW) for line in wrap_columns(asked, self._view.region.width)])
            key = await self._keyboard.next()
            if key.name == "enter":
                return reason
            if key.name in ("escape", "c-c"):
                return ""
            reason = with_key(reason, key)

    async def _show(self, question: Question) -> None:
        """Show the whole call, then the keys. A long call is written above, so that the user sees all they approve."""
        width = self._view.region.width
        asked = list(_question_lines(question, width, self._folder))
        keys = list(_key_lines(question, width, edits=self._is_edit(question)))
        room = self._view.region.height - 3  # less the line above the cursor, the blank line and the status line
        if len(asked) + len(keys) > min(room, PREVIEW_LINES + 6):
            self._view.write(asked)
            asked = [*asked[1 : 3 if question.asker else 2], styled("    (shown in full above)", DIM)]
        self._view.ask(asked)
        await self._keyboard.wait_until_idle()
        self._view.ask([*asked, *keys] if len(asked) + len(keys) <= room else keys)


def _question_lines(question: Question, width: int, folder: Path) -> Iterator[str]:
    head = reveal_hidden(title(question.tool, question.input, folder)).replace("\n", "⏎")
    yield ""
    if question.asker:
        yield styled(f"  {fit(safe_line(question.asker), width - 8)} asks:", YELLOW)
    yield styled(f"? {fit(f'Allow {head}', width - 2)}", BOLD, YELLOW)
    yield from _preview(question, width, is_cut=columns(head) > width - 10)
    if question.reason:
        for line in wrap_columns(safe_line(question.reason), width - 2):
            yield styled(f"  {line}", DIM)


def _key_lines(question: Question, width: int, *, edits: bool) -> Iterator[str]:
    always = safe_line(f"always in this project: {meaning_of(question.always)}") if question.always else ""
    for key, action in {"y": "yes, once", "e": ALL_EDITS if edits else "", "a": always}.items():
        for number, line in enumerate(wrap_columns(action, width - 4) if action else ()):
            yield f"  {styled(key if number == 0 else ' ', BOLD)} {line}"
    refusals = {"n": "no", "t": "no, with instructions", "esc": "cancel the turn"}
    together = "    ".join(f"{key} {meaning}" for key, meaning in refusals.items())
    shown = [f"{styled(key, BOLD)} {meaning}" for key, meaning in refusals.items()]
    yield from [f"  {'    '.join(shown)}"] if columns(together) <= width - 2 else [f"  {each}" for each in shown]


def _preview(question: Question, width: int, *, is_cut: bool) -> Iterator[str]:
    """Yield the whole call where the title does not show all of it."""
    given = question.input
    if question.tool in ("Edit", "Write"):
        yield from _argument("file_path", given, width) if is_cut else ()
        yield from coloured_diff(changed_lines(question.tool, given, reveal_hidden), width)
        if given.get("replace_all"):
            yield styled("    (all occurrences are replaced)", DIM)
    elif question.tool == "Bash" and isinstance(command := given.get("command"), str):
        if is_cut or "\n" in command:
            yield from _indented(command, width)
    elif is_cut or len(str(given)) > 40:
        for name in given:
            yield from _argument(name, given, width)


def _argument(name: str, input: dict[str, Any], width: int) -> Iterator[str]:
    value = input.get(name, "")
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=repr).decode()
    yield from _indented(f"{safe_line(name)}: {text}", width)


def _indented(text: str, width: int) -> Iterator[str]:
    for line in reveal_hidden(text).split("\n"):
        yield from (f"    {part}" for part in wrap_columns(line, width - 4))
