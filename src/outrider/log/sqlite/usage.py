"""The usage index of a log in a folder: `usage.db`, which can be built again from the log."""

from __future__ import annotations

from pathlib import Path

from outrider.log.sqlite.index_file import IndexFile

APPLICATION = 0x4F555455
FORM = 2
"""The form of the tables. A file of another form is built again."""

_TABLES = """
    CREATE TABLE usage_indexed (
        session INTEGER PRIMARY KEY,  -- as in the log
        id TEXT NOT NULL,
        seq INTEGER NOT NULL,        -- the newest entry that is indexed
        checksum INTEGER NOT NULL,   -- of that entry: another one means another log
        model TEXT NOT NULL,
        folder TEXT NOT NULL
    );
    CREATE TABLE used (
        session INTEGER NOT NULL,
        quarter INTEGER NOT NULL,    -- of an hour
        model TEXT NOT NULL,         -- empty for that of the session
        requests INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,
        cost REAL NOT NULL,
        first_token REAL NOT NULL,
        measured INTEGER NOT NULL,
        PRIMARY KEY (session, quarter, model)
    ) WITHOUT ROWID;
    CREATE TABLE turn (
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        time REAL NOT NULL,
        tokens INTEGER NOT NULL,     -- of the context
        is_compaction INTEGER NOT NULL,
        cost REAL,
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;
"""


def usage_file(path: Path) -> IndexFile:
    """Return the file of a usage index."""
    return IndexFile(path, "usage index", APPLICATION, FORM, _TABLES)
