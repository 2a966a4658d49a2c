"""Choosing a session from a list: conversations of this repository first; typing also searches what was said."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from outrider.cli.chat.picker import Picker, PickerChoice
from outrider.cli.styles import home_relative
from outrider.coding.session_lists import SessionList
from outrider.errors import OutriderError
from outrider.text import ago, counted, dollars

if TYPE_CHECKING:
    from outrider.log.log import Log
    from outrider.log.summary import Summary

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
    return [PickerChoice(each.id, each.title, each.id[:8], _facts(each, sessions)) for each in found]


def _facts(summary: Summary, sessions: SessionList) -> tuple[str, ...]:
    where = "" if sessions.is_here(summary) else home_relative(summary.folder)
    where = where if len(where) <= LONGEST_FOLDER else f"…{where[1 - LONGEST_FOLDER :]}"
    made = "" if summary.origin in ("", "chat") else {"print": "-p"}.get(summary.origin, summary.origin)
    return ago(time.time() - summary.updated), counted(summary.turns, "turn"), dollars(summary.usage.cost), made, where
