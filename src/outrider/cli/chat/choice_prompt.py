"""Ask the user what the model wants to know: a list to choose from, or a line to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from outrider.cli.chat.keyboard import Keyboard
from outrider.cli.chat.question_lines import key_lines, read_line
from outrider.cli.chat.session_view import SessionView
from outrider.cli.styles import BOLD, CYAN, DIM, YELLOW, fit, styled, wrap_columns
from outrider.log.questions import Answer, ChoiceField, ChoiceQuestion
from outrider.text.visible import safe_line, safe_lines

OWN_WORDS = "Something else, in your own words"
ROOM_BELOW = 7
"""Lines for the keys, which are several in a narrow window, and for what is below the question."""


class _DeclinedError(Exception):
    """The user does not answer."""


class ChoicePrompt:
    """Asks one question after the other. Escape declines all of them; Ctrl-C cancels the turn, too."""

    def __init__(self, view: SessionView, keyboard: Keyboard, interrupt: Callable[[bool], None]) -> None:
        self._view = view
        self._keyboard = keyboard
        self._interrupt = interrupt

    async def __call__(self, call_id: str, question: ChoiceQuestion) -> Answer:
        """Show the questions and return the answers."""
        content: dict[str, Any] = {}
        count = len(question.questions)
        try:
            for number, field in enumerate(question.questions, 1):
                place = f" ({number} of {count})" if count > 1 else ""
                with self._keyboard.capturing():  # anew: a key that follows an answer is not the next answer
                    content[field.key] = await self._value(field, place)
        except _DeclinedError:
            return Answer("decline")
        finally:
            self._view.ask(())
        return Answer("answer", content=content)

    async def _value(self, field: ChoiceField, place: str) -> str | list[str]:
        """Show a question, then its keys once they count, and return the answer."""
        picker = _Picker(field, place)
        if len(whole := picker.lines(self._view.region.width)) > self._view.region.height - ROOM_BELOW:
            self._view.write(whole)
            picker.is_short = True
        self._view.ask(picker.lines(self._view.region.width))
        await self._keyboard.wait_until_idle()
        if not field.choices:
            return await self._words(picker) or await self._value(field, place)
        while True:
            self._view.ask([*picker.lines(self._view.region.width), *picker.keys(self._view.region.width)])
            key = await self._keyboard.next_alone()
            if key.name in ("escape", "c-c"):
                self._decline(key.name)
            elif not picker.press(key.name):
                self._keyboard.give_back(key)
            if picker.wants_words:
                picker.take_words(await self._words(picker))
            if picker.is_done:
                return picker.value

    async def _words(self, picker: _Picker) -> str:
        """Return what the user writes; "" to go back to the list. Without a list, Escape declines."""
        width = self._view.region.width
        keys = key_lines({"enter": "send", "esc": "back to the list" if picker.field.choices else "decline"}, width)
        above = [*picker.question_lines(width), *keys]
        text, key = await read_line(self._view, self._keyboard, "Your answer:", above)
        if key == "c-c" or (key == "escape" and not picker.field.choices):
            self._decline(key)
        return text.strip() if key == "enter" else ""

    def _decline(self, key: str) -> None:
        if key == "c-c":
            self._interrupt(True)
        raise _DeclinedError


class _Picker:
    """The state of one list."""

    def __init__(self, field: ChoiceField, place: str) -> None:
        self.field = field
        self.is_short = False
        """Whether the question and the descriptions are above, because they do not fit."""
        self.is_done = False
        self._place = place
        self._labels = [each.label for each in field.choices]
        self._at = 0
        self._taken: set[int] = set()
        self._words = ""

    @property
    def wants_words(self) -> bool:
        """Whether the user has chosen to write the answer."""
        return len(self._labels) in self._taken and not self._words

    @property
    def value(self) -> str | list[str]:
        """The answer."""
        taken = [label for at, label in enumerate([*self._labels, self._words]) if at in self._taken]
        return list(dict.fromkeys(taken)) if self.field.multiple else taken[0]

    def press(self, key: str) -> bool:
        """Change the list. Return False if the key means nothing here."""
        count = len(self._labels) + self.field.own_words
        if key in ("up", "down"):
            self._at = (self._at + (1 if key == "down" else -1)) % count
        elif key.isdecimal() and key.isascii() and 1 <= int(key) <= count:
            self._at = int(key) - 1
            self._take()
        elif key == "enter":
            if self.field.multiple:
                self.is_done = bool(self._taken)
            else:
                self._take()
        elif key == " " and self.field.multiple:
            self._take()
        else:
            return False
        return True

    def take_words(self, words: str) -> None:
        """Take what the user wrote, if it is anything."""
        self._words = words
        if not words:
            self._taken.discard(len(self._labels))
        self.is_done = bool(words) and not self.field.multiple

    def _take(self) -> None:
        if self.field.multiple:
            self._taken ^= {self._at}
            self._words = self._words if len(self._labels) in self._taken else ""
        else:
            self._taken = {self._at}
            self.is_done = not self.wants_words

    def lines(self, width: int) -> list[str]:
        """Return the question and the choices."""
        return [*self.question_lines(width), *self._rows(width)]

    def keys(self, width: int) -> Iterator[str]:
        """Yield the keys of the list."""
        taking = {"space": "choose", "enter": "send"} if self.field.multiple else {"enter": "choose"}
        return key_lines({"↑ ↓": "move", **taking, "esc": "decline"}, width)

    def question_lines(self, width: int) -> Iterator[str]:
        """Yield the question."""
        header = safe_line(self.field.header)
        lines = safe_lines(self.field.text).split("\n")
        if self.is_short:
            lines = [safe_line(self.field.text)]
        yield ""
        if header or self._place:
            yield styled(fit(f"? {header or 'Question'}{self._place}", width), BOLD, YELLOW)
        for number, line in enumerate(lines):
            for part in [fit(line, width - 2)] if self.is_short else _wrapped(line, width - 2):
                mark = "? " if not number and not (header or self._place) else "  "
                yield styled(f"{mark}{part}", BOLD)

    def _rows(self, width: int) -> Iterator[str]:
        own = [(self._words or OWN_WORDS, "")] if self.field.own_words and self.field.choices else []
        for at, (label, description) in enumerate([*((c.label, c.description) for c in self.field.choices), *own]):
            box = f"[{'x' if at in self._taken else ' '}] " if self.field.multiple else ""
            mark, style = (styled("❯", CYAN), (BOLD,)) if at == self._at else (" ", ())
            room = max(1, width - 4 - len(box))
            labels = [fit(safe_line(label), room)] if self.is_short else list(_wrapped(safe_line(label), room))
            yield f"{mark} {box}{styled(str(at + 1), BOLD)} {styled(labels[0], *style)}"
            yield from (f"{' ' * (4 + len(box))}{styled(each, *style)}" for each in labels[1:])
            if description and not self.is_short:
                yield from (styled(f"{' ' * (4 + len(box))}{each}", DIM) for each in _wrapped(description, room))


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the text in lines that end between words where they can."""
    from textwrap import wrap

    for line in wrap(text, width, break_on_hyphens=False) or [""]:
        yield from wrap_columns(line, width)
