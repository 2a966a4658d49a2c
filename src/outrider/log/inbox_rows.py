"""The rows of the inbox that end with the holder of a session."""

from __future__ import annotations

import sqlite3


def forget_inbox(connection: sqlite3.Connection, number: int) -> None:
    """Delete the questions of a session and the messages to it: its holder is gone, or another takes over."""
    for table in ("question", "signal", "listener"):
        connection.execute(f"DELETE FROM {table} WHERE session = ?", (number,))
