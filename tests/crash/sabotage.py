"""Ways to break the promises of the log, so that it can be seen that the harness notices."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

from outrider.conversation.store import FolderStore
from outrider.log.state import SessionState
from outrider.runtime.calls import Call
from outrider.tools.context import ToolContext
from tests.crash.points import Connection


def runs_tools_without_their_intents() -> None:
    """Nothing says that a call was begun."""
    Call.intent = lambda self: None  # type: ignore[method-assign]


def shows_what_is_not_on_disk() -> None:
    """What is to be committed counts as committed, and is when the next comes. (The first few make the session.)"""
    execute = Connection.execute
    commits: list[sqlite3.Connection] = []
    owed: list[sqlite3.Connection] = []

    def execute_later(self: Connection, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and len(commits) > 3:
            owed.append(self)
            return self.cursor()
        if sql == "COMMIT":
            commits.append(self)
        if sql == "BEGIN IMMEDIATE" and self in owed:
            owed.remove(self)
            execute(self, "COMMIT")
        return execute(self, sql, *args)

    Connection.execute = execute_later  # type: ignore[method-assign]


def begins_anew_what_may_not_be_repeated() -> None:
    """On resume, a write counts as a call like any other."""
    SessionState.unknown_outcomes = lambda self: []  # type: ignore[method-assign]


def forgets_the_key() -> None:
    """A call that is carried out again gets another key."""
    make = ToolContext.__init__

    def made(self: ToolContext, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self.key = os.urandom(4).hex()

    ToolContext.__init__ = made  # type: ignore[method-assign]


def loses_files() -> None:
    """Files are said to be stored, and are not."""
    take = FolderStore.put

    def put(self: FolderStore, *args: Any, **kwargs: Any) -> Any:
        reference = take(self, *args, **kwargs)
        (self.folder / reference.sha256[:2] / reference.sha256).unlink()
        return reference

    FolderStore.put = put  # type: ignore[method-assign]
