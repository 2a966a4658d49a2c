"""The start of the chat: the greeting, and the slow parts that are prepared while the user types."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.markdown import rendered
from outrider.cli.chat.session_view import SessionView
from outrider.cli.chat.status_line import StatusLine
from outrider.cli.styles import BOLD, DIM, styled
from outrider.coding import sentences
from outrider.coding.config.loading import Loaded
from outrider.coding.consent.item import ConsentItem, waiting_note
from outrider.text.visible import one_line, safe_line
from outrider.version import __version__

SHOWN_PLACE = 40
"""Characters of a place in the status line."""


class Preparation:
    """Imports and creates what the first answer needs, in a thread."""

    def __init__(
        self, current: CurrentSession, view: SessionView, status: StatusLine, waiting: Sequence[ConsentItem]
    ) -> None:
        """`waiting` are the settings that wait for consent."""
        self._current = current
        self._waiting = waiting
        self._view = view
        self._status = status
        self._prepared: asyncio.Future[None] | None = None
        self._notes_shown = False
        """Whether the notes of the workbench were shown."""

    def start(self, then: Callable[[], None]) -> None:
        """Begin to prepare. `then` is called on the event loop at the end: in the thread, drawing would race."""

        def on_done(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and not done.exception():  # an error is reported when the result is needed
                then()

        self._prepared = asyncio.get_running_loop().run_in_executor(None, self._prepare)
        self._prepared.add_done_callback(on_done)

    async def finished(self) -> None:
        """Wait until all is prepared, and show its notes once. Raises OutriderError."""
        assert self._prepared  # `start` was called
        await asyncio.shield(self._prepared)
        if not self._notes_shown:
            self._notes_shown = True
            bench = self._current.bench
            found = self._current.found_servers
            waiting = waiting_note([*self._waiting, *found.waiting, *bench.extensions.waiting])
            for note in filter(None, (bench.project.sandbox_note, *bench.notes, *found.notes, waiting)):
                self._view.note(note)

    def _prepare(self) -> None:
        rendered("*warm*", 80)  # imports the Markdown renderer
        self._current.prepare()
        sandbox = "sandboxed" if self._current.bench.project.is_sandboxed else "no sandbox"
        where = f" in {one_line(self._current.where, SHOWN_PLACE)}" if self._current.place else ""
        self._status.sandbox = sandbox + where


def greet(loaded: Loaded, current: CurrentSession, view: SessionView, status: StatusLine) -> None:
    where = safe_line(current.where)
    view.write([f"{styled('Outrider', BOLD)} {styled(f'{__version__} in {where}', DIM)}"])
    view.dim(f"{sentences.mode_is(current.mode)} Type /help for commands and keys.")
    if status.is_without_key:
        view.note(sentences.NO_KEY)
    for note in loaded.notes:
        view.note(note)
    view.write([""])
