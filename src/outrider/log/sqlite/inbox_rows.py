"""The rows of the inbox in SQLite, which end with the holder of a session."""

from __future__ import annotations

import sqlite3
import time

from outrider.log.inbox_tables import ANSWERED_SECONDS, QuestionRow

COLUMNS = "session.number, question.id, session.id, call_id, asked, body, answer, answered_by"
JOINED = "question JOIN session ON session.number = question.session AND session.fence = question.fence"


def forget_inbox(connection: sqlite3.Connection, number: int) -> None:
    """Delete the questions of a session and the messages to it: its holder is gone, or another takes over.

    What it has taken stays for a while: senders must be able to tell it from what was lost.
    """
    for table in ("question", "listener"):
        connection.execute(f"DELETE FROM {table} WHERE session = ?", (number,))
    old = time.time() - ANSWERED_SECONDS
    connection.execute("DELETE FROM signal WHERE session = ? AND (taken IS NULL OR taken < ?)", (number, old))


def find_question(connection: sqlite3.Connection, id: str) -> QuestionRow | None:
    """Return a question of a holder that still has its session."""
    found = connection.execute(f"SELECT {COLUMNS} FROM {JOINED} WHERE question.id = ?", (id,)).fetchone()
    return QuestionRow(*found) if found else None
