"""The tables of sessions, of their entries and of their files in SQLite, and who holds a session.

One holder at a time; a dead one's session can be taken over. The fence counts up with every holder, and every write
checks it. So a process that slept while another took its session over can no longer write.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from outrider.log.append import NOTHING_USED, SummaryUpdate
from outrider.log.backend import ROW
from outrider.log.entries import SessionStarted
from outrider.log.holder import BEAT_SECONDS, STALE_SECONDS, Holder
from outrider.log.inbox_tables import ANSWERED_SECONDS
from outrider.log.rows import LAST_SEQ, Extent, Row, in_order
from outrider.log.sqlite.database import reading
from outrider.log.summary import COLUMNS, SessionRow, session_row

INSERT = "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)"
SELECT = f"SELECT {ROW} FROM event"
_COUNTS = (
    "UPDATE session SET last = ?, chain = ?, updated = coalesce(?, updated), size = size + ?, entries = entries + ?"
)
_NEWEST = "(SELECT max(opened) FROM session)"
DATE_IMPORT = """
    UPDATE session SET created = :created, updated = :used, opened = coalesce(
        (SELECT min(opened) - 1 FROM session WHERE updated > :used AND number <> :number), opened
    ) WHERE number = :number
"""
"""Give an imported session its own times, and its place among the sessions that were used then."""
_USE = f"UPDATE session SET opened = {_NEWEST} + 1 WHERE number = ? AND opened < {_NEWEST}"
_COUNT = f"{_COUNTS} WHERE number = ?"
_COUNT_PROMPT = f"{_COUNTS}, title = CASE title WHEN '' THEN ? ELSE title END WHERE number = ?"
_COUNT_TURNS = (
    f"{_COUNTS}, turns = turns + ?, input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, "
    "cached_tokens = cached_tokens + ?, cache_write_tokens = cache_write_tokens + ?, "
    "reasoning_tokens = reasoning_tokens + ?, cost = CASE WHEN ? IS NULL THEN cost ELSE coalesce(cost, 0) + ? END, "
    "model = CASE ? WHEN '' THEN model ELSE ? END, title = CASE title WHEN '' THEN ? ELSE title END WHERE number = ?"
)


def find(connection: sqlite3.Connection, condition: str, *values: Any) -> list[SessionRow]:
    """Return the sessions that match an SQL condition, which may include ORDER BY and LIMIT."""
    return [session_row(row) for row in connection.execute(f"SELECT {COLUMNS} FROM session WHERE {condition}", values)]


def read_rows(connection: sqlite3.Connection, extent: Extent, upto: int | None = None) -> Iterator[Row]:
    """Iterate over the rows of a session up to a seq, in order. Raise DamagedLogError if any is missing or damaged."""
    query = f"{SELECT} WHERE session = ? AND seq <= ? ORDER BY seq"
    rows = connection.execute(query, (extent.session, LAST_SEQ if upto is None else upto))
    return in_order(rows, extent, 0, min(extent.last, upto or extent.last))


def insert(connection: sqlite3.Connection, started: SessionStarted, holder: str = "") -> int:
    """Insert a new session as the one that was used last. Return its number."""
    now = time.time()
    cursor = connection.execute(
        "INSERT INTO session (id, parent, created, updated, opened, holder, fence, beaten) "
        "VALUES (?, ?, ?, ?, (SELECT coalesce(max(opened), 0) + 1 FROM session), ?, 1, ?)",
        (started.session, started.parent, now, now, holder, now),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def write_update(connection: sqlite3.Connection, update: SummaryUpdate, session: int, last: int, head: bytes) -> None:
    """Update the summary of a session, in the same transaction as its entries. The head is that of their chain."""
    changed = [last, head, time.time() if update.has_news else None, update.size, update.entries]
    if update.turns or update.model or update.usage != NOTHING_USED:
        used = update.usage
        tokens = (used.input_tokens, used.output_tokens, used.cached_tokens, used.cache_write_tokens)
        costs = used.reasoning_tokens, used.cost, used.cost
        names = update.model, update.model, update.title
        connection.execute(_COUNT_TURNS, (*changed, update.turns, *tokens, *costs, *names, session))
    elif update.title:
        connection.execute(_COUNT_PROMPT, (*changed, update.title, session))
    else:
        connection.execute(_COUNT, (*changed, session))
    if update.is_use:
        connection.execute(_USE, (session,))
    if update.settings_changed:
        settings = msgspec.json.encode(update.settings).decode()
        connection.execute("UPDATE session SET settings = ? WHERE number = ?", (settings, session))
    if title := update.set_title:
        connection.execute("UPDATE session SET title = ? WHERE number = ?", (title, session))
    if update.files:
        files = [(session, file) for file in update.files]
        connection.executemany("INSERT OR IGNORE INTO reference VALUES (?, ?)", files)


def references(connection: sqlite3.Connection, session: int) -> set[str]:
    """Return the hashes of the files that a session may read."""
    return {name for (name,) in connection.execute("SELECT sha256 FROM reference WHERE session = ?", (session,))}


def forget_inbox(connection: sqlite3.Connection, number: int) -> None:
    """Delete the questions of a holder and the messages to it: it is gone, or another takes over.

    Questions that need no holder stay. What it has taken stays for a while: senders must be able to tell it from what
    was lost.
    """
    connection.execute("DELETE FROM question WHERE session = ? AND fence <> 0", (number,))
    connection.execute("DELETE FROM listener WHERE session = ?", (number,))
    old = time.time() - ANSWERED_SECONDS
    connection.execute("DELETE FROM signal WHERE session = ? AND (taken IS NULL OR taken < ?)", (number, old))


def is_held(row: SessionRow, path: Path) -> bool:
    """Return whether a live process holds the session."""
    holder = row.summary.holder
    if holder is None:
        return False
    alive = holder.is_alive()
    return _has_heartbeat(row, path) if alive is None else alive


def _has_heartbeat(row: SessionRow, path: Path) -> bool:
    """Return whether a remote holder still sends heartbeats."""
    if 0 <= time.time() - row.beaten < STALE_SECONDS:
        return True
    # Clocks differ and jump. Expire a holder only if its counter stays still while we watch.
    deadline = time.monotonic() + 1.5 * BEAT_SECONDS
    while time.monotonic() < deadline:
        time.sleep(BEAT_SECONDS / 20)
        with reading(path) as connection:
            now = find(connection, "number = ?", row.number)
        if not now or (now[0].beat, now[0].fence) != (row.beat, row.fence):
            return True
    return False


def acquire(found: SessionRow, holder: Holder, connection: sqlite3.Connection) -> bool:
    """Set the holder unless the fence or the heartbeat changed meanwhile. Return whether this succeeded."""
    cursor = connection.execute(
        "UPDATE session SET holder = ?, fence = fence + 1, beaten = ? WHERE number = ? AND fence = ? AND beat = ?",
        (holder.encoded, time.time(), found.number, found.fence, found.beat),
    )
    if cursor.rowcount == 1:
        forget_inbox(connection, found.number)
    return cursor.rowcount == 1


def release(number: int, fence: int, connection: sqlite3.Connection) -> None:
    """Clear the holder, if the fence is still ours."""
    cursor = connection.execute("UPDATE session SET holder = '' WHERE number = ? AND fence = ?", (number, fence))
    if cursor.rowcount == 1:
        forget_inbox(connection, number)


def heartbeat(held: dict[int, int], connection: sqlite3.Connection) -> None:
    """Increase the heartbeat counter of the held sessions."""
    connection.executemany(
        "UPDATE session SET beat = beat + 1, beaten = ? WHERE number = ? AND fence = ?",
        [(time.time(), number, fence) for number, fence in list(held.items())],
    )
