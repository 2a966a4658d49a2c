"""The titles of the newest sessions, read in a few milliseconds: for shell completion. Imports nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def newest_titles(folder: Path, most: int) -> list[tuple[str, str]]:
    """Return the ids and titles of a log's newest sessions, without those of sub-agents; none if it cannot be read."""
    file = (folder / "log.db").absolute().as_uri()
    wanted = "SELECT id, title FROM session WHERE parent = '' ORDER BY opened DESC LIMIT ?"
    try:
        with closing(sqlite3.connect(f"{file}?mode=ro", uri=True, timeout=0.1)) as database:
            return database.execute(wanted, (most,)).fetchall()
    except sqlite3.Error:
        return []
