"""Lists to choose from, with a search: of anything, of models, and of sessions."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, NamedTuple

from prompt_toolkit import Application
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output.vt100 import Vt100_Output

from outrider.cli.styles import BOLD, CYAN, DIM, columns, fit, home_relative, styled
from outrider.errors import OutriderError
from outrider.log.session_id import shown_id
from outrider.processes.signals import suspend
from outrider.text import ago, counted, dollars, thousands
from outrider.text.visible import safe_line

if TYPE_CHECKING:
    from outrider.coding.session_lists import SessionList
    from outrider.log.log import Log
    from outrider.log.summary import Summary

MOST_ROWS = 12
LEAST_LABEL = 12
"""Columns that a label keeps; facts that leave it less are not shown."""


class PickerChoice(NamedTuple):
    """One line of the list."""

    value: str
    label: str
    detail: str = ""
    """Shown at the end, and searched too."""
    facts: tuple[str, ...] = ()
    """Short texts in columns of their own, after the label. The first ones are the most important."""
    is_current: bool = False
    """Marked, and chosen at first."""


class Table:
    """The lines of choices, in columns that all of them share."""

    def __init__(self, choices: Sequence[PickerChoice]) -> None:
        self._label = max((columns(safe_line(each.label)) for each in choices), default=0)
        facts = zip_longest(*(each.facts for each in choices), fillvalue="")
        self._facts = [max(map(columns, column)) for column in facts]
        self._has_mark = any(each.is_current for each in choices)

    def line(self, choice: PickerChoice, width: int, *, is_chosen: bool) -> str:
        """Return the line of a choice. What does not fit is cut, or left out: the detail first, then the last facts."""
        mark = ("● " if choice.is_current else "  ") if self._has_mark else ""
        room = max(1, width - 2 - len(mark))
        facts = [f"  {fact:<{wide}}" for fact, wide in zip(choice.facts, self._facts, strict=False)]
        least = min(self._label, max(LEAST_LABEL, room // 3))
        while facts and columns("".join(facts)) > room - least:
            facts.pop()
        shown = "".join(facts)
        label = fit(safe_line(choice.label), room - columns(shown))
        if facts:
            label += " " * (min(self._label, room - columns(shown)) - columns(label))
        left = room - columns(label) - columns(shown) - 2
        shown += f"  {fit(safe_line(choice.detail), left)}" if choice.detail and left > 3 else ""
        cursor = styled("❯", CYAN) if is_chosen else " "
        return f"{cursor} {styled(mark, CYAN)}{styled(label, BOLD) if is_chosen else label}{styled(shown, DIM)}"


class Picker:
    """Shows choices and lets the user take one."""

    def __init__(
        self,
        title: str,
        choices: Sequence[PickerChoice],
        preview: Callable[[str], Sequence[str]] | None = None,
        start: str | None = None,
    ) -> None:
        self._title = title
        self._choices = choices
        self._preview = preview
        self._table = Table(choices)
        self._texts = [f"{each.label} {' '.join(each.facts)} {each.detail}".lower() for each in choices]
        self._matches: tuple[str, Sequence[PickerChoice]] = "", choices
        """The search, and what it has found."""
        starts = (at for at, each in enumerate(choices) if (each.is_current if start is None else each.value == start))
        self._at = next(starts, 0)
        self._search = Buffer(multiline=False, on_text_changed=lambda _: self._go(-self._at))
        self._app: Application[str | None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            output=ScreenOutput.from_pty(sys.stdout),
            erase_when_done=True,
        )
        self._app.ttimeoutlen = 0.05  # Esc leaves at once

    async def pick(self) -> str | None:
        """Return the value of the choice; None if the user leaves the list."""
        return await self._app.run_async(handle_sigint=False)

    @property
    def _found(self) -> Sequence[PickerChoice]:
        text = self._search.text.lower()
        if self._matches[0] != text:
            pairs = zip(self._choices, self._texts, strict=True)
            words = text.split()
            self._matches = text, [each for each, searched in pairs if all(word in searched for word in words)]
        return self._matches[1]

    def _layout(self) -> Layout:
        before = BeforeInput(ANSI(styled("› ", BOLD, CYAN)))
        title = FormattedTextControl(lambda: ANSI(styled(fit(safe_line(self._title), self._width), BOLD)))
        return Layout(
            HSplit(
                [
                    Window(title, height=1),
                    Window(BufferControl(self._search, input_processors=[before]), height=1),
                    Window(FormattedTextControl(self._rows), height=self._height, dont_extend_height=True),
                    Window(FormattedTextControl(self._below), height=self._room_below, dont_extend_height=True),
                ]
            )
        )

    def _height(self) -> int:
        room = get_terminal_size().lines - 4
        rows = max(len(self._choices), len(self._found))
        return max(2, min(MOST_ROWS, rows, room // 2 if self._preview else room)) + 1

    def _room_below(self) -> int:
        return max(0, get_terminal_size().lines - 3 - self._height()) if self._preview else 0

    def _rows(self) -> ANSI:
        found, most = self._found, self._height() - 1
        start = max(0, min(self._at - most // 2, len(found) - most))
        shown = enumerate(found[start : start + most], start)
        lines = [self._table.line(each, self._width, is_chosen=at == self._at) for at, each in shown]
        keys = f"{len(found)} of {len(self._choices)}    ↑ ↓ choose    Enter take    Esc leave    type to search"
        return ANSI("\n".join([*(lines or ["  Nothing is found."]), styled(fit(keys, self._width), DIM)]))

    def _below(self) -> ANSI:
        """Return the preview of the chosen row, as much of it as fits."""
        found, room = self._found, self._room_below()
        lines = list(self._preview(found[self._at].value)) if self._preview and found else []
        if len(lines) > room:
            lines[max(0, room - 1) :] = [f"… {counted(len(lines) - room + 1, 'more line')}"]
        return ANSI("\n".join(f"  {fit(safe_line(line), self._width - 2)}" for line in lines))

    @property
    def _width(self) -> int:
        return get_terminal_size().columns - 1

    def _go(self, by: int) -> None:
        self._at = max(0, min(self._at + by, len(self._found) - 1))

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        far = len(self._choices)
        steps = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "pageup": -MOST_ROWS, "pagedown": MOST_ROWS}
        for name, step in (steps | {"home": -far, "end": far}).items():
            keys.add(name)(lambda _, by=step: self._go(by))

        @keys.add("c-z")
        def _(event: KeyPressEvent) -> None:
            run_in_terminal(suspend)

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            if found := self._found:
                event.app.exit(result=found[self._at].value)

        @keys.add("escape", eager=True)
        @keys.add("c-c")
        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        return keys


async def pick(
    title: str,
    choices: Sequence[PickerChoice],
    preview: Callable[[str], Sequence[str]] | None = None,
    start: str | None = None,
) -> str | None:
    """Let the user take one of the choices. Return its value; None if there is none or the user leaves the list.

    `preview` returns lines about the value of the chosen row, which are shown below the list. `start` is the value that
    is chosen at first, if it is not the current one.
    """
    return await Picker(title, choices, preview, start).pick() if choices else None


class ScreenOutput(Vt100_Output):
    """Erases below the cursor without copying the screen to the scrollback.

    In the first column of the first row, tmux and other terminals take that code for clearing the screen.
    """

    def erase_down(self) -> None:
        """Erase the rest of the line, and the lines below."""
        self.write_raw("\x1b7\x1b[K\x1b[C\x1b[J\x1b8")


def model_choices(current: str, used: Sequence[str] = ()) -> list[PickerChoice]:
    """Return the models of the providers that have a key, the demo model, the current model, and those used before."""
    from outrider.cli.models import HOSTED, OTHERS, api_of
    from outrider.providers.catalogue import tiers

    details = {
        f"{prefix}/{model}": tier
        for prefix in (*HOSTED, *OTHERS)
        if api_of(prefix).key
        for tier, model in tiers.models_of(prefix).items()
    }
    details |= {"demo": "built in: a few rules, not an LLM"}
    details |= {name: "used before" for name in used if name not in details}
    details = details if current in details else {current: "", **details}
    found = [PickerChoice(name, name, about, _model_facts(name), name == current) for name, about in details.items()]
    return [each for each in found if each.facts or each.is_current]


def _model_facts(name: str) -> tuple[str, ...]:
    """Return the price of a million tokens and the context window of a model; empty if it cannot be used."""
    from outrider.providers.catalogue.prices import rates_of
    from outrider.providers.catalogue.windows import window_of
    from outrider.providers.resolution import resolve

    try:
        provider = resolve(name)
    except OutriderError:
        return ()
    rates = rates_of(*name.split("/", 1)) if "/" in name else ()
    price = (
        " / ".join(f"${round(each * 1_000_000, 4):g}" for each in (rates[-1].fresh, rates[-1].output)) if rates else ""
    )
    window = window_of(provider)
    return price, f"{thousands(window)} context" if window else ""


MOST = 200
"""Sessions that the list loads at first. A search finds others, too."""
PAUSE_SECONDS = 0.15
"""How long the user has stopped typing when the log is searched."""
LONGEST_FOLDER = 16
"""Characters of a folder's path. Its end says more than its beginning."""
TOGGLE = "\0all"
"""The result of a picker whose user wants the other kind of list."""


async def pick_session(title: str, log: Log, folder: Path) -> str | None:
    """Let the user choose a session. Return its id; None if there is none or the user leaves the list."""
    from outrider.coding.session_lists import SessionList

    sessions, every, words = SessionList(log, folder), False, ""
    while True:
        listed = await asyncio.to_thread(partial(sessions.page, MOST, every=every))
        if not listed and every:
            return None
        if not listed and not words:  # there may be others
            every = True
            continue
        hint = "Tab: only chats" if every else "Tab: also of -p, batches and programs"
        picker = _SessionPicker(f"{title}    {hint}", _choices(sessions, listed), sessions, every=every)
        picker.words = words
        if (chosen := await picker.pick()) != TOGGLE:
            return chosen
        every, words = not every, picker.words


class _SessionPicker(Picker):
    """A picker that also shows the sessions in which the words were said."""

    def __init__(self, title: str, choices: Sequence[PickerChoice], sessions: SessionList, *, every: bool) -> None:
        self._sessions, self._every = sessions, every
        self._said: tuple[str, list[PickerChoice]] = "", []
        """The words that the log was searched for, and what was found."""
        self._looking: asyncio.Task[None] | None = None
        super().__init__(title, choices)
        self._search.on_text_changed += lambda _: self._look()

    @property
    def words(self) -> str:
        """What the user has typed."""
        return self._search.text

    @words.setter
    def words(self, text: str) -> None:
        self._search.text = text
        self._search.cursor_position = len(text)

    async def pick(self) -> str | None:
        """Return the value of the choice; None if the user leaves the list."""
        try:
            self._look()
            return await super().pick()
        finally:
            if self._looking:
                self._looking.cancel()

    @property
    def _found(self) -> list[PickerChoice]:
        listed = list(super()._found)
        known = {each.value for each in listed}
        words, said = self._said
        return [*listed, *(each for each in said if each.value not in known)] if words == self.words else listed

    def _look(self) -> None:
        if self._looking:
            self._looking.cancel()
        self._looking = asyncio.ensure_future(self._search_log(self.words)) if self.words.strip() else None

    async def _search_log(self, words: str) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        try:
            found = await asyncio.to_thread(partial(self._sessions.found, words, every=self._every))
        except OutriderError:  # such as a damaged entry: the rows that are there can still be chosen
            return
        self._said = words, _choices(self._sessions, [each.summary for each in found])
        self._app.invalidate()

    def _keys(self) -> KeyBindings:
        keys = super()._keys()

        @keys.add("tab")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result=TOGGLE)

        return keys


def _choices(sessions: SessionList, found: Sequence[Summary]) -> list[PickerChoice]:
    """Return the rows: title, age, turns, cost, what made it, the folder if it is another, and the id."""
    return [PickerChoice(each.id, each.title, shown_id(each.id), _facts(each, sessions)) for each in found]


def _facts(summary: Summary, sessions: SessionList) -> tuple[str, ...]:
    where = "" if sessions.is_here(summary) else home_relative(summary.folder)
    where = where if len(where) <= LONGEST_FOLDER else f"…{where[1 - LONGEST_FOLDER :]}"
    made = "" if summary.origin in ("", "chat") else {"print": "-p"}.get(summary.origin, summary.origin)
    return ago(time.time() - summary.updated), counted(summary.turns, "turn"), dollars(summary.usage.cost), made, where
