"""Empty folders that take the place of protected paths while commands run, so that they cannot create them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from outrider.coding import placeholder_keeper as keeper

ANSWER_SECONDS, END_SECONDS = 60.0, 2.0
"""How long to wait for the keeper: a disk may be slow, but the program must end."""
_PASSED = ("LD_LIBRARY_PATH",)
"""All that it may need of our environment. It lives longer than keys should."""
# In the background, so that its end leaves no zombie. It outlives the terminal and what is typed there.
_START = 'trap "" HUP INT TERM; exec 3<&0; "$@" <&3 3<&- &'


class Placeholders:
    """The placeholders of one sandbox. A process beside this one makes and removes them. Threads may share them."""

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python
        self._keeper: _Keeper | None = None
        self._mutex = threading.Lock()

    def hold(self, paths: Sequence[str], folder: str) -> tuple[list[str], str]:
        """Make placeholders at those of the paths where there is nothing, until the command has ended.

        Return these paths, and the path of the command's ticket. Tickets are made in the folder, which the caller
        removes. Raises OSError.
        """
        with self._mutex:
            if self._keeper and self._keeper.owner == os.getpid():
                try:
                    return self._keeper.hold(folder, paths)
                except _GoneError:
                    self._keeper.end()
            self._keeper = _Keeper(self._python)  # a forked process has its own
            return self._keeper.hold(folder, paths)


class _GoneError(OSError):
    """The keeper was killed, does not answer, or could not be started."""


class _Keeper:
    """The keeper's process. It ends with this object, or with this process."""

    def __init__(self, python: str) -> None:
        self.owner = os.getpid()
        self._python = python
        self._socket, theirs = socket.socketpair()
        self.end = weakref.finalize(self, _end, self._socket, self.owner)
        with theirs:
            subprocess.run(
                ["/bin/sh", "-c", _START, "sh", python, "-I", "-S", str(Path(keeper.__file__).resolve())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={name: os.environ[name] for name in _PASSED if name in os.environ},
                start_new_session=True,
                check=False,
            )

    def hold(self, folder: str, paths: Sequence[str]) -> tuple[list[str], str]:
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            answer = _asked(self._socket, ["hold", folder, *paths])
        except OSError as error:
            raise _GoneError(error.errno, "the process that protects names does not answer", self._python) from error
        if answer[0] == "failed":
            raise OSError(int(answer[1]), *answer[2:])
        return answer[2:], answer[1]


def _asked(connection: socket.socket, words: Sequence[str]) -> list[str]:
    """Return the answer to a request. Raises OSError if there is none."""
    connection.sendall(b"\0".join(map(os.fsencode, words)) + keeper.END)
    answer = b""
    while not answer.endswith(keeper.END):
        if not (data := connection.recv(1 << 16)):
            raise ConnectionResetError
        answer += data
    return [os.fsdecode(word) for word in answer.removesuffix(keeper.END).split(b"\0")]


def _end(connection: socket.socket, owner: int) -> None:
    """Have the placeholders removed that no running command needs, and let the keeper end."""
    with connection, suppress(OSError):  # if it does not answer, it removes them a moment later
        if os.getpid() == owner:  # a forked process ends without the placeholders of its parent
            connection.settimeout(END_SECONDS)
            _asked(connection, ["end"])
