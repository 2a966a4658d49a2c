"""Rows of the event table: what was changed, lost or moved is noticed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outrider.errors import DamagedLogError
from outrider.log.rows import Extent, is_intact, row
from outrider.log.sql import Statement
from outrider.log.sqlite.backend import SqliteBackend
from outrider.log.sqlite.database import open_for_writing
from outrider.log.sqlite.session_table import INSERT, read_rows
from outrider.log.sqlite.statements import execute

SESSION = 7
WHOLE = Extent(SESSION, 5)


class Reads(SqliteBackend):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _fetch(self, query: str, *values: object) -> list[Any]:
        return execute(self._connection, Statement(query, values))


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_for_writing(tmp_path / "log.db")) as connection:
        connection.executemany(INSERT, [row(SESSION, seq, 1.5, "message", b"{}") for seq in range(1, 6)])
        yield connection


def test_a_row_of_other_values_or_types_is_not_intact() -> None:
    whole = row(SESSION, 1, 1.5, "message", b"{}")
    assert is_intact(whole)
    others: list[list[Any]] = [
        [8, None, "7"],
        [2, b"1"],
        [2.5, 1, None],
        ["text", b"message"],
        [b"[]", "{}"],
        [0, None],
    ]
    for column, values in enumerate(others):
        for value in values:
            assert not is_intact((*whole[:column], value, *whole[column + 1 :])), (column, value)


def test_rows_come_in_order_up_to_a_seq(connection: sqlite3.Connection) -> None:
    assert [each[1] for each in read_rows(connection, WHOLE)] == [1, 2, 3, 4, 5]
    assert [each[1] for each in read_rows(connection, WHOLE, upto=3)] == [1, 2, 3]
    assert [each[1] for each in Reads(connection).newest_rows(WHOLE, 2)] == [4, 5]


@pytest.mark.parametrize("gone", [1, 3, 5])
def test_a_row_that_is_gone_is_named(connection: sqlite3.Connection, gone: int) -> None:
    connection.execute("DELETE FROM event WHERE seq = ?", (gone,))
    with pytest.raises(DamagedLogError, match=f"entry {gone} of a session is missing or damaged"):
        list(read_rows(connection, WHOLE))


def test_after_a_recovery_gaps_are_no_damage_but_a_missing_end_is(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM event WHERE seq IN (1, 3)")
    extent = Extent(SESSION, 5, gapless=False)
    assert [each[1] for each in read_rows(connection, extent)] == [2, 4, 5]
    assert [each[1] for each in read_rows(connection, extent, upto=3)] == [2], "the last one may be lost, too"
    connection.execute("DELETE FROM event WHERE seq = 5")
    with pytest.raises(DamagedLogError, match="entry 5"):
        list(read_rows(connection, extent))


def test_a_row_whose_bytes_were_changed_is_named(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE event SET body = x'5b5d' WHERE seq = 4")
    for rows in (lambda: list(read_rows(connection, WHOLE)), lambda: Reads(connection).newest_rows(WHOLE, 3)):
        with pytest.raises(DamagedLogError, match="entry 4"):
            rows()


def test_rows_of_a_damaged_tree_in_the_wrong_order_are_refused() -> None:
    """SQLite reads the order from the tree, which a flipped bit can change."""
    rows = [row(SESSION, seq, 1.5, "message", b"{}") for seq in (1, 3, 2)]

    class Damaged:
        def execute(self, query: str, values: tuple[int, int]) -> list[Any]:
            return rows

    with pytest.raises(DamagedLogError, match="entry 4"):
        list(read_rows(Damaged(), Extent(SESSION, 3, gapless=False)))
    rows[:] = [row(SESSION + 1, 1, 1.5, "message", b"{}")]
    with pytest.raises(DamagedLogError, match="entry 1"):
        list(read_rows(Damaged(), Extent(SESSION, 1)))
