"""The lock on a session: one holder at a time. A dead holder's lock can be taken over.

The fence counts up with every holder, and every write checks it. So a process that slept while another took its session
over can no longer write.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from outrider.log.holder import BEAT_SECONDS, STALE_SECONDS, Holder
from outrider.log.sqlite.database import reading
from outrider.log.sqlite.session_table import find, forget_inbox
from outrider.log.summary import SessionRow


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


def acquire(found: SessionRow, holder: Holder, mark_opened: bool, connection: sqlite3.Connection) -> bool:
    """Set the holder unless the fence or the heartbeat changed meanwhile. Return whether this succeeded."""
    cursor = connection.execute(
        "UPDATE session SET holder = ?, fence = fence + 1, beaten = ? WHERE number = ? AND fence = ? AND beat = ?",
        (holder.encoded, time.time(), found.number, found.fence, found.beat),
    )
    if cursor.rowcount == 1:
        forget_inbox(connection, found.number)
    if mark_opened:
        newest = "(SELECT max(opened) + 1 FROM session)"
        connection.execute(f"UPDATE session SET opened = {newest} WHERE number = ?", (found.number,))
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
