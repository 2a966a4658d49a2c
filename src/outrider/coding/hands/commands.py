"""The background commands that run in the hands, for `/tasks` and the status line."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import cast

from outrider.coding.hands.connection import HandsConnection
from outrider.coding.hands.protocol import CommandState
from outrider.coding.hands.requests import EndCommand, FollowOutput, MoveRunning, ReadOutput
from outrider.coding.toolbox.background_commands import BackgroundCommand, BackgroundCommands, OutputReader
from outrider.errors import HandsError
from outrider.processes.processes import Process

_SECONDS = 30.0


class CommandElsewhere(BackgroundCommand):
    """One command. Its state is what the hands said last."""

    def __init__(self, connection: HandsConnection, state: CommandState) -> None:
        super().__init__(state.number, state.command, cast(Process, None), Path(os.devnull), state.access)
        self._connection = connection
        self.exit_code, self.running, self.ended_by_user = state.exit_code, state.running, state.ended_by_user
        age = time.monotonic() - connection.commands_at if state.running else 0.0
        self._seconds = state.seconds + age

    def end(self) -> None:
        self._connection.ask_now(EndCommand(self.number), type(None), seconds=_SECONDS)

    def follow(self) -> OutputReader:
        return cast(OutputReader, _Follower(self._connection, self.number))

    def newest_output(self, size: int) -> bytes:
        try:
            return self._connection.ask_now(ReadOutput(self.number, size), bytes, seconds=_SECONDS)
        except HandsError:
            return b""


class _Follower:
    """Asks the hands for the lines that are new."""

    def __init__(self, connection: HandsConnection, number: int) -> None:
        self._connection = connection
        self._number = number
        self._name = os.urandom(8).hex()

    def __enter__(self) -> _Follower:
        self.lines()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def lines(self, *, rest: bool = False) -> str:
        try:
            request = FollowOutput(self._number, self._name, rest)
            return self._connection.ask_now(request, str, seconds=_SECONDS)
        except HandsError:
            return ""


class CommandsElsewhere(BackgroundCommands):
    """The background commands of a session and of its sub-agents."""

    def __init__(self, connection: HandsConnection) -> None:
        super().__init__()
        self._connection = connection
        self.waiting = 0
        """How many calls wait for a command, which could be moved to the background."""

    def __iter__(self) -> Iterator[BackgroundCommand]:
        return iter([CommandElsewhere(self._connection, each) for each in self._connection.commands])

    def move_running(self) -> int:
        if self.waiting:
            self._connection.ask_now(MoveRunning(), type(None), seconds=_SECONDS)
        return self.waiting
