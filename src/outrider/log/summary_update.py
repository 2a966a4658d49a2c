"""The changes that new entries make to the summary of their session."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable

import msgspec

from outrider.conversation.messages import AttachmentBlock, Message, Usage
from outrider.log.entries import (
    AttachmentStored,
    AttemptFailed,
    CompactionEntry,
    Entry,
    MessageEntry,
    ResultsClearedEntry,
    RewindEntry,
    SessionSettings,
    TitleEntry,
)
from outrider.log.replay import merged
from outrider.text import clean

TITLE_CHARACTERS = 80
_COUNTS = "UPDATE session SET last = ?, updated = ?, size = size + ?, entries = entries + ?"
_COUNT = f"{_COUNTS} WHERE number = ?"
_COUNT_TURNS = (
    f"{_COUNTS}, turns = turns + ?, input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, "
    "cached_tokens = cached_tokens + ?, cache_write_tokens = cache_write_tokens + ?, "
    "reasoning_tokens = reasoning_tokens + ?, cost = CASE WHEN ? IS NULL THEN cost ELSE coalesce(cost, 0) + ? END "
    "WHERE number = ?"
)


class SummaryUpdate:
    """Accumulates the changes of a batch of entries."""

    def __init__(self, settings: SessionSettings | None = None) -> None:
        self.size = 0
        self.entries = 0
        self.turns = 0
        self.usage = Usage()
        self.model = ""
        """The model of the newest reply."""
        self.title = ""
        """The beginning of the first prompt."""
        self.files: list[str] = []
        """The hashes of the files that were added."""
        self.settings = settings or SessionSettings()
        self.settings_changed = False

    def add(self, entry: Entry, size: int) -> None:
        """Add one entry."""
        self.size += size
        self.entries += 1
        match entry:
            case MessageEntry(message=message, usage=usage):
                if message.role == "assistant":
                    self.model = clean(entry.model) or self.model
                    self.turns += 1
                    self.usage += usage or Usage()
                elif not self.title:
                    self.title = _title(message)
            case AttemptFailed(usage=usage):
                self.usage += usage or Usage()
            case CompactionEntry() | ResultsClearedEntry():
                self.usage += getattr(entry, "usage", None) or Usage()
                self.settings = merged(self.settings, SessionSettings(abridged=True))
                self.settings_changed = True
            case TitleEntry(title=title, usage=usage):
                self.usage += usage or Usage()
                self.settings = merged(self.settings, SessionSettings(made_title=clean(title)))
                self.settings_changed = True
            case RewindEntry(conversation=True):
                self.settings = merged(self.settings, SessionSettings(rewound=True))
                self.settings_changed = True
            case AttachmentStored(attachment=attachment):
                self.files.append(attachment.sha256)
                self.size += attachment.size
            case SessionSettings(model=model):
                self.settings = merged(self.settings, entry)
                self.settings_changed = True
                self.model = model or self.model

    def write(self, connection: sqlite3.Connection, session: int, last: int) -> None:
        """Update the summary, in the same transaction as the entries."""
        changed = [last, time.time(), self.size, self.entries]
        if self.turns or self.usage != Usage():
            used = self.usage
            tokens = (used.input_tokens, used.output_tokens, used.cached_tokens, used.cache_write_tokens)
            connection.execute(
                _COUNT_TURNS, (*changed, self.turns, *tokens, used.reasoning_tokens, used.cost, used.cost, session)
            )
        else:
            connection.execute(_COUNT, (*changed, session))
        if self.model:
            named = self.model, session, self.model
            connection.execute("UPDATE session SET model = ? WHERE number = ? AND model != ?", named)
        if self.title:
            connection.execute("UPDATE session SET title = ? WHERE number = ? AND title = ''", (self.title, session))
        if self.settings_changed:
            self._write_settings(connection, session)
        if self.files:
            add_references(connection, session, self.files)

    def _write_settings(self, connection: sqlite3.Connection, session: int) -> None:
        settings = self.settings
        connection.execute(
            "UPDATE session SET settings = ? WHERE number = ?", (msgspec.json.encode(settings).decode(), session)
        )
        if title := settings.made_title if settings.title is None else settings.title:
            connection.execute("UPDATE session SET title = ? WHERE number = ?", (title, session))


def references(connection: sqlite3.Connection, session: int) -> set[str]:
    """Return the hashes of the files that a session may read."""
    return {name for (name,) in connection.execute("SELECT sha256 FROM reference WHERE session = ?", (session,))}


def add_references(connection: sqlite3.Connection, session: int, files: Iterable[str]) -> None:
    """Allow the session to read these files."""
    connection.executemany("INSERT OR IGNORE INTO reference VALUES (?, ?)", [(session, file) for file in files])


def _title(message: Message) -> str:
    words = " ".join(clean(message.text)[: 4 * TITLE_CHARACTERS].split())
    if not words:
        words = next(
            (clean(block.label) for block in message.content if isinstance(block, AttachmentBlock)), "(no words)"
        )
    return words if len(words) <= TITLE_CHARACTERS else f"{words[: TITLE_CHARACTERS - 1]}…"
