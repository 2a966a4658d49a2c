"""The commands of a session that run in the background, for the person to see and end."""

from __future__ import annotations

import codecs
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.coding.access import Access
from outrider.processes.processes import Process, end

if TYPE_CHECKING:
    from outrider.coding.toolbox.command_terminal import CommandTerminal


class BackgroundCommand:
    """A command that goes on after its call."""

    def __init__(
        self,
        number: int,
        command: str,
        process: Process,
        path: Path,
        access: Access,
        terminal: CommandTerminal | None = None,
    ) -> None:
        self.number = number
        """Counts from 1 in a session."""
        self.command = command
        self.access: Access = access
        self.terminal = terminal
        """What the model types into, if it has one."""
        self.process = process
        self.path = path
        """The file with its newest output."""
        self.exit_code: int | None = None
        """The shell's exit code; None while it runs."""
        self.running = True
        """Whether the shell runs, or a process that it started can still print."""
        self.ended_by_user = False
        self.shell_ended = threading.Event()
        """Set when the shell has ended and all of its output has been read."""
        self._began = time.monotonic()
        self._seconds: float | None = None

    @property
    def seconds(self) -> float:
        """Its age, or how long the shell ran."""
        return time.monotonic() - self._began if self._seconds is None else self._seconds

    def set_exit_code(self, code: int) -> None:
        self._seconds = self.seconds
        self.exit_code = code

    def end(self) -> None:
        """End it with everything that it started, on behalf of the user. Takes up to a second."""
        self.ended_by_user = self.exit_code is None
        end([self.process])

    def follow(self) -> OutputReader:
        """Return a reader of what it prints from now on."""
        return OutputReader(self.path)

    def newest_output(self, size: int) -> bytes:
        """Return the end of its output. May block."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - size))
                return file.read(size)
        except OSError:  # removed with the sub-agent that started it
            return b""


class BackgroundCommands:
    """The background commands of a session and of its sub-agents."""

    def __init__(self, parent: BackgroundCommands | None = None) -> None:
        self._own: list[BackgroundCommand] = []
        self._numbers: Iterator[int] = parent._numbers if parent else itertools.count(1)
        self._all: list[BackgroundCommand] = parent._all if parent else []
        self._movable: list[Callable[[], None]] = parent._movable if parent else []

    def __iter__(self) -> Iterator[BackgroundCommand]:
        return iter(tuple(self._all))

    @property
    def running(self) -> int:
        return sum(each.running for each in self)

    def count_from(self, number: int) -> None:
        """Give the next command this number."""
        self._numbers = itertools.count(number)

    def find(self, number: int) -> BackgroundCommand | None:
        return next((each for each in self if each.number == number), None)

    @property
    def own_terminals(self) -> list[BackgroundCommand]:
        """The commands that were added here and have a terminal."""
        return [each for each in self._own if each.terminal]

    @contextmanager
    def movable(self, move: Callable[[], None]) -> Iterator[None]:
        """Let the user move a command that a call waits for here, until the end of the block."""
        self._movable.append(move)
        try:
            yield
        finally:
            self._movable.remove(move)

    def move_running(self) -> int:
        """Move the commands that calls wait for to the background. Return how many there are."""
        moving = tuple(self._movable)
        for move in moving:
            move()
        return len(moving)

    def add(
        self, command: str, process: Process, path: Path, access: Access, terminal: CommandTerminal | None = None
    ) -> BackgroundCommand:
        added = BackgroundCommand(next(self._numbers), command, process, path, access, terminal)
        self._own.append(added)
        self._all.append(added)
        return added

    def clear(self) -> None:
        """Forget the commands that were added here, which have ended with their workspace."""
        for each in self._own:
            self._all.remove(each)
        self._own.clear()


class OutputReader:
    """Reads what is appended to the output of a command from now on, in whole lines."""

    MOST = 256 * 1024
    """Bytes that are read at once; of a flood, only the newest are."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = ""
        self._open()

    def __enter__(self) -> OutputReader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def lines(self, *, rest: bool = False) -> str:
        """Return the lines since the last call, without the last line break; with `rest` also an unfinished line.

        A line that is too long to wait for its end is returned in parts.
        """
        text = self._line + self._decoder.decode(self._read())
        whole, _, self._line = text.rpartition("\n")
        if rest or len(self._line) > self.MOST:
            whole, self._line = text.strip("\n"), ""
        return whole

    def _read(self) -> bytes:
        if self._file is None:
            return b""
        waiting = os.fstat(self._file.fileno()).st_size - self._file.tell()
        if waiting > self.MOST:
            self._file.seek(-self.MOST, os.SEEK_END)
        data = self._file.read(self.MOST) or b""
        if not data and self._is_replaced():
            self._file.close()
            self._open()
        return data

    def _is_replaced(self) -> bool:
        """Return whether another file has taken the place of this one, because the output became too long."""
        assert self._file
        try:
            return os.stat(self._path).st_ino != os.fstat(self._file.fileno()).st_ino
        except OSError:
            return False

    def _open(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            self._file: FileIO | None = FileIO(self._path)
            self._file.seek(0, os.SEEK_END)
        except OSError:  # removed with the sub-agent that started it
            self._file = None
