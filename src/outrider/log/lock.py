"""The lock on a session: one holder at a time, each with a fence of its own, taken over when it is dead.

The fence counts up with every holder, and every write asks for it: whoever was taken over while it slept cannot write
any more, whatever it believes.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import msgspec

from outrider.errors import SessionHeldError
from outrider.log.database import reading
from outrider.log.holder import BEAT_SECONDS, STALE_SECONDS, Holder
from outrider.log.summary import SessionRow, find


def check_free(row: SessionRow, path: Path) -> None:
    """Raises SessionHeldError, which says by whom, if a living process holds the session."""
    if lives(row, path):
        holder = row.summary.holder
        raise SessionHeldError(
            f"the session {row.summary.id[:8]} is open elsewhere: {holder}. Close it there, look at it with "
            f"`outrider sessions show {row.summary.id[:8]}`, or go on in a copy: `outrider sessions fork`"
        )


def lives(row: SessionRow, path: Path) -> bool:
    """Whether a living process holds the session."""
    holder = row.summary.holder
    if holder is None:
        return False
    known = holder.lives()
    return _beats(row, path) if known is None else known


def _beats(row: SessionRow, path: Path) -> bool:
    """Whether a holder that cannot be asked still shows that it lives."""
    if 0 <= time.time() - row.beaten < STALE_SECONDS:
        return True
    # By the clock it is gone; but clocks jump. Only a heart that does not beat while one watches is dead.
    until = time.monotonic() + 1.5 * BEAT_SECONDS
    while time.monotonic() < until:
        time.sleep(BEAT_SECONDS / 20)
        with reading(path) as connection:
            now = find(connection, "number = ?", row.number)
        if not now or (now[0].beat, now[0].fence) != (row.beat, row.fence):
            return True
    return False


def take(found: SessionRow, holder: Holder, first: bool, connection: sqlite3.Connection) -> bool:
    """Make it ours, if nobody was faster, and its holder did not show any life; the one opened last, if so wanted."""
    cursor = connection.execute(
        "UPDATE session SET holder = ?, fence = fence + 1, beaten = ? WHERE number = ? AND fence = ? AND beat = ?",
        (written(holder), time.time(), found.number, found.fence, found.beat),
    )
    if first:
        newest = "(SELECT max(opened) + 1 FROM session)"
        connection.execute(f"UPDATE session SET opened = {newest} WHERE number = ?", (found.number,))
    return cursor.rowcount == 1


def let_go(number: int, fence: int, connection: sqlite3.Connection) -> None:
    """Nobody holds it any more, if we still did."""
    connection.execute("UPDATE session SET holder = '' WHERE number = ? AND fence = ?", (number, fence))


def beat(held: dict[int, int], connection: sqlite3.Connection) -> None:
    """Show that the holder of these sessions lives."""
    connection.executemany(
        "UPDATE session SET beat = beat + 1, beaten = ? WHERE number = ? AND fence = ?",
        [(time.time(), number, fence) for number, fence in list(held.items())],
    )


def written(holder: Holder | None) -> str:
    """A holder as it stands in the table."""
    return msgspec.json.encode(holder).decode() if holder else ""
