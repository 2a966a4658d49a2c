"""The search index of a log in a folder: `search.db`, which can be built again from the log.

A SQLite without FTS5 finds the same by reading every passage.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from outrider.conversation.passages import SearchQuery, best
from outrider.log.passage_tables import HIT, MAX_TRIGRAMS, PASSAGE, Hit, IndexedPassage, Passages, Scope
from outrider.log.sql import Statement, Work
from outrider.log.sqlite.index_file import IndexFile, SqliteIndex

T = TypeVar("T")
APPLICATION = 0x4F555453
FORM = 2
"""The form of the tables. A file of another form is built again."""

_TABLES = """
    CREATE TABLE indexed (
        session INTEGER PRIMARY KEY, -- as in the log
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


class SqlitePassageTables(IndexFile):
    """The file of the index, with trigrams or without. It is opened for each search."""

    def __init__(self, path: Path, *, trigrams: bool | None = None) -> None:
        self._trigrams = has_trigrams() if trigrams is None else trigrams
        tables = f"{_TABLES}{_TRIGRAMS if self._trigrams else ''}"
        super().__init__(path, "search index", APPLICATION, 2 * FORM + self._trigrams, tables)

    def open(self, work: Callable[[Passages], T]) -> T:
        return self.run(lambda index: work(_SqlitePassages(index, self, self._trigrams)))


class _SqlitePassages(Passages):
    """The open index."""

    def __init__(self, index: sqlite3.Connection, file: IndexFile, trigrams: bool) -> None:
        self._database = SqliteIndex(index)
        self._index, self._file, self._trigrams = index, file, trigrams

    def clear(self) -> None:
        self._file.clear(self._index)

    def _insert(self, passages: Sequence[IndexedPassage]) -> Work[None]:
        [(newest,)] = yield Statement("SELECT coalesce(max(id), 0) FROM passage")
        insert = f"INSERT OR IGNORE INTO passage ({PASSAGE}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
        yield Statement(insert, rows=[each.columns for each in passages])
        if self._trigrams:
            trigrams = "INSERT INTO trigram (rowid, folded) SELECT id, folded FROM passage WHERE id > $1"
            yield Statement(trigrams, (newest,))

    def hits(self, query: SearchQuery, scope: Scope, limit: int) -> list[Hit]:
        index, words = self._index, query.words
        index.create_function("has_whole", 1, query.has_whole, deterministic=True)
        order = ("p.id",) if scope.is_one_session else ("p.time", "p.id")
        source, values = self._matching(words, scope)
        newest = ", ".join(["has_whole(p.folded) DESC", *(f"{column} DESC" for column in order)])
        rows = index.execute(f"SELECT {HIT} {source} ORDER BY {newest} LIMIT ?", (*values, limit)).fetchall()
        if not rows and len(words) > 1:
            parts = [self._matching([word], scope) for word in words]
            matches = [set(index.execute(f"SELECT {', '.join(order)} {part}", given)) for part, given in parts]
            condition, given = _in_scope(scope)
            total = index.execute(f"SELECT count(*) FROM passage p WHERE {condition}", given).fetchone()[0]
            for *_, number in best(matches, total, limit):
                rows += index.execute(f"SELECT {HIT} FROM passage p WHERE p.id = ?", (number,)).fetchall()
        return [Hit(*row) for row in rows]

    def _matching(self, words: Sequence[str], scope: Scope) -> tuple[str, list[str]]:
        """Return the FROM and WHERE of the passages that contain all words, with their values."""
        trigrams = {word[at : at + 3]: None for word in words for at in range(min(len(word) - 2, MAX_TRIGRAMS))}
        condition, given = _in_scope(scope)
        checks = " AND ".join([condition, *("instr(p.folded, ?)" for _ in words)])
        if not trigrams or not self._trigrams:
            return f"FROM passage p WHERE {checks}", [*given, *words]
        match = " AND ".join('"{}"'.format(each.replace('"', '""')) for each in trigrams)
        joined = "FROM trigram JOIN passage p ON p.id = trigram.rowid WHERE trigram MATCH ?"
        return f"{joined} AND {checks}", [match, *given, *words]

    def forget(self, numbers: Sequence[int]) -> None:
        # The index is emptied: its trigrams of one session cannot be overwritten alone.
        if not self.states().keys().isdisjoint(numbers):
            self.clear()


def _in_scope(scope: Scope) -> tuple[str, list[str]]:
    """Return the condition on a passage, with its values."""
    without = "p.tool IS NOT ?", scope.without or "\0"
    if scope.sessions is None:
        return without[0], [without[1]]
    numbers = msgspec.json.encode(scope.sessions).decode()
    return f"p.session IN (SELECT value FROM json_each(?)) AND {without[0]}", [numbers, without[1]]
