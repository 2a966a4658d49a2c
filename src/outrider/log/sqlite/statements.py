"""Statements in the words of Postgres, run by SQLite."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec

from outrider.log.sql import Statement, Work

T = TypeVar("T")


def run_work(connection: sqlite3.Connection, work: Work[T]) -> T:
    """Run the statements of some work, and return its result."""
    try:
        statement = next(work)
        while True:
            statement = work.send(execute(connection, statement))
    except StopIteration as end:
        result: T = end.value
        return result


def execute(connection: sqlite3.Connection, statement: Statement) -> list[Any]:
    """Run one statement and return its rows."""
    sql = _in_sqlite(statement.sql)
    if statement.rows is not None:
        connection.executemany(sql, map(_numbered, statement.rows))
        return []
    return connection.execute(sql, _numbered(statement.values)).fetchall()


@cache
def _in_sqlite(sql: str) -> str:
    """Return a statement for SQLite, which has no arrays.

    >>> _in_sqlite("DELETE FROM turn WHERE session = ANY($1) AND seq > $2")
    'DELETE FROM turn WHERE session IN (SELECT value FROM json_each(?1)) AND seq > ?2'
    """
    return re.sub(r"= ANY\((\?\d+)\)", r"IN (SELECT value FROM json_each(\1))", re.sub(r"\$(\d)", r"?\1", sql))


def _numbered(values: Sequence[Any]) -> dict[str, Any]:
    """Return values by their numbers: from Python 3.14 on, `?1` takes them from no sequence."""
    return {str(number): _stored(value) for number, value in enumerate(values, 1)}


def _stored(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, list) else value
