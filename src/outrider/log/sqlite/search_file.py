"""The tables of the search index in SQLite."""

from __future__ import annotations

import sqlite3
from functools import cache
from pathlib import Path

from outrider.log.sqlite.index_file import IndexFile

APPLICATION = 0x4F555453
FORM = 1
"""The form of the tables. A file of another form is built again."""

_TABLES = """
    CREATE TABLE session (
        number INTEGER PRIMARY KEY,  -- as in the log
        id TEXT NOT NULL,
        seq INTEGER NOT NULL,        -- the newest entry that is indexed
        checksum INTEGER NOT NULL,   -- of that entry: another one means another log
        messages INTEGER NOT NULL,   -- the number of messages up to there
        calls TEXT NOT NULL          -- the calls that had no result by then, as JSON
    );
    CREATE TABLE passage (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        time REAL NOT NULL,
        message INTEGER NOT NULL,
        reference TEXT NOT NULL,
        kind TEXT NOT NULL,
        tool TEXT NOT NULL,
        folded TEXT NOT NULL
    );
    CREATE UNIQUE INDEX passage_message ON passage (session, message, reference, kind);
    CREATE INDEX passage_reference ON passage (session, reference);
"""
_TRIGRAMS = """
    CREATE VIRTUAL TABLE trigram
    USING fts5(folded, content='', detail=none, tokenize='trigram case_sensitive 1');
    -- Fewer and larger merges: building takes half the time.
    INSERT INTO trigram (trigram, rank) VALUES ('automerge', 0);
    INSERT INTO trigram (trigram, rank) VALUES ('crisismerge', 64);
    INSERT INTO trigram (trigram, rank) VALUES ('hashsize', 33554432);
"""


@cache
def has_trigrams() -> bool:
    """Return whether this SQLite has FTS5 with trigrams. Without, searching reads every passage."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(_TRIGRAMS)
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True


def search_file(path: Path, trigrams: bool) -> IndexFile:
    """Return the file of a search index, with trigrams or without."""
    tables = f"{_TABLES}{_TRIGRAMS if trigrams else ''}"
    return IndexFile(path, "search index", APPLICATION, 2 * FORM + trigrams, tables)
