"""Empty folders that take the place of protected paths while commands run, so that they cannot create them.

A mount needs something to be mounted on. A placeholder is a folder that holds one empty folder, a token, for each
sandbox that uses it: the kernel refuses to remove a folder that another sandbox's token keeps in use, and never removes
content. Placeholders are made before a command and stay for a series of commands, because a disk takes longer to make
and remove them than a command takes to start.

Each command has a ticket: a named pipe that it opens and keeps open until it has ended. We hold the other end. The
kernel says when the command has closed it, however it ended, and tells that from a command that has not started yet.
Tokens of processes that were killed are removed by the next one that works in the folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import threading
import time
import weakref
from collections.abc import Iterable, Mapping

IDLE_SECONDS = 0.3
"""How long placeholders stay after the last command, so that a series of commands shares them. It is also the margin
for a killed command: its ticket is closed a moment before the kernel has ended all of its processes."""
START_SECONDS = 60.0
"""A command that has not started by then, such as one that an editor refused, does not count."""
_NAME = "held-by-outrider-while-a-command-runs"
"""A person who cannot create a file because of a placeholder finds the reason in it."""
_TOKEN = re.compile(rf"{_NAME}-(\d+)-(\d+)-[0-9a-f]+\Z")
_TRIES = 5
"""Another process may remove the placeholder while this one makes its token."""


class Placeholders:
    """The placeholders of one sandbox. Threads may share them."""

    def __init__(self) -> None:
        self._token = f"{_NAME}-{_namespace()}-{os.getpid()}-{os.urandom(4).hex()}"
        self._held: set[str] = set()
        self._tickets: dict[int, str] = {}
        self._unused: list[str] = []
        self._deadlines: dict[int, float] = {}
        self._endings = select.epoll()
        self._until = 0.0
        self._watching = False
        self._mutex = threading.Lock()
        self._finalizer = weakref.finalize(self, _end, self._held, self._tickets, self._token, os.getpid())

    def hold(self, paths: Iterable[str], folder: str) -> tuple[list[str], str]:
        """Make placeholders at those of the paths where there is nothing, and remove them after the command.

        Return these paths, and the path of the command's ticket. Tickets are made in the folder, which the caller
        removes. Raises OSError.
        """
        with self._mutex:
            absent = [path for path in paths if self._make(path)]
            ticket = self._ticket(folder)
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="placeholders", daemon=True).start()
        return absent, ticket

    def _ticket(self, folder: str) -> str:
        """Return a pipe that no command uses. A disk takes long to make one, so they are used again."""
        ticket = self._unused.pop() if self._unused else ""
        if os.path.dirname(ticket) != folder or not os.path.exists(ticket):
            ticket = f"{folder}/ticket-{os.urandom(8).hex()}"
            os.mkfifo(ticket, 0o600)
        handle = os.open(ticket, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._tickets[handle] = ticket
        self._deadlines[handle] = time.monotonic() + START_SECONDS
        self._endings.register(handle, 0)  # that the other end was closed is reported without being asked for
        return ticket

    def _make(self, path: str) -> bool:
        """Return whether there is nothing at a path but a placeholder, and add our token to it."""
        if path in self._held and os.path.exists(f"{path}/{self._token}"):
            return True
        self._held.discard(path)
        tokens = _tokens(path)
        if (not tokens and os.path.lexists(path)) or not os.access(os.path.dirname(path), os.W_OK):
            return False
        for _ in range(_TRIES):
            with contextlib.suppress(FileNotFoundError):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path, 0o700)
                os.mkdir(f"{path}/{self._token}", 0o700)
                self._held.add(path)
                for token in filter(_is_over, tokens):
                    _rmdir(f"{path}/{token}")
                return True
        raise FileNotFoundError(2, "a protected name cannot be held", path)

    def _watch(self) -> None:
        """Remove the placeholders when no command has run for a moment."""
        while True:
            ended = self._endings.poll(self._pause())
            with self._mutex:
                for handle, _ in ended:
                    self._unused.append(self._tickets[handle])
                    self._drop(handle)
                for handle in [each for each, deadline in self._deadlines.items() if deadline <= time.monotonic()]:
                    del self._deadlines[handle]
                    if not _is_open(handle, self._tickets[handle]):
                        self._drop(handle)
                if not self._tickets and time.monotonic() >= self._until:
                    _remove(self._held, self._token)
                    self._held.clear()
                    self._watching = False
                    return

    def _pause(self) -> float | None:
        """Return the seconds until something may be over without an ending that is reported."""
        with self._mutex:
            if not self._tickets:
                return max(0.0, self._until - time.monotonic())
            return max(0.0, min(self._deadlines.values()) - time.monotonic()) if self._deadlines else None

    def _drop(self, handle: int) -> None:
        _close(handle, self._tickets.pop(handle), self._endings)
        self._deadlines.pop(handle, None)
        self._until = time.monotonic() + IDLE_SECONDS


def is_placeholder(path: str) -> bool:
    """Return whether there is a placeholder at a path."""
    return bool(_tokens(path))


def is_token(name: str) -> bool:
    """Return whether a name is that of a folder in a placeholder."""
    return name.startswith(_NAME) and bool(_TOKEN.match(name))


def _end(paths: Iterable[str], tickets: Mapping[int, str], token: str, owner: int) -> None:
    """Remove the placeholders at the end of the process, unless a command still runs: in a terminal of an editor."""
    if os.getpid() != owner:  # a forked process ends without the placeholders of its parent
        return
    if not any(_is_open(handle, ticket) for handle, ticket in tickets.items()):
        _remove(paths, token)
    for handle, ticket in tickets.items():
        _close(handle, ticket)


def _remove(paths: Iterable[str], token: str) -> None:
    for path in paths:
        if _rmdir(f"{path}/{token}"):
            _rmdir(path)


def _rmdir(path: str) -> bool:
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def _is_open(handle: int, ticket: str) -> bool:
    """Return whether a command has opened its ticket, and not closed it."""
    if not _is_ticket(handle, ticket):
        return False
    try:
        os.read(handle, 1)
    except BlockingIOError:
        return True
    return False


def _close(handle: int, ticket: str, endings: select.epoll | None = None) -> None:
    """Close a ticket, unless something else in the process has closed it already: then the number may be another's."""
    if _is_ticket(handle, ticket):
        if endings:
            endings.unregister(handle)
        os.close(handle)


def _is_ticket(handle: int, ticket: str) -> bool:
    """Return whether the handle is still that of a ticket."""
    try:
        target = os.readlink(f"/proc/self/fd/{handle}")
        return os.path.basename(target.removesuffix(" (deleted)")) == os.path.basename(ticket)
    except OSError:
        return False


def _tokens(path: str) -> list[str]:
    """Return the tokens in a placeholder; nothing if the path is anything else."""
    if os.path.islink(path):
        return []
    try:
        names = os.listdir(path)
    except OSError:
        return []
    return names if all(_TOKEN.match(name) for name in names) else []


def _is_over(token: str) -> bool:
    matched = _TOKEN.match(token)
    if not matched or matched[1] != _namespace():
        return False
    try:
        os.kill(int(matched[2]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _namespace() -> str:
    """Return the number of our process namespace: process ids mean nothing in another one."""
    return str(os.stat("/proc/self/ns/pid").st_ino)
