"""Keeps protected names taken while commands run, and frees them afterwards. It runs alone, with `python -I -S`.

A mount needs something to be mounted on. Where a protected name is free, a placeholder takes it: a folder with an empty
folder in it, the marker. The keeper makes and removes placeholders. It is a process of its own, in a session of its
own, so that they are removed however the process that asked for them ends.

Who uses a placeholder has a shared lock on it. Who finds it without a lock, or is the last to have one, removes it. The
kernel drops the locks of a killed keeper, and knows those of every container on the machine. Only empty folders are
ever removed.

Each command has a ticket: a named pipe that it opens and keeps open until it has ended. The keeper has the other end.
The kernel says when the command has closed it, however it ended, and tells that from a command that has not started
yet. A ticket that is not used in time is removed, and a command without its ticket does not start.

Requests and answers are words, each ended by a zero byte, and an empty word at the end. This file imports nothing of
the package, because it must start quickly.
"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MARKER = "held-by-outrider-while-a-command-runs"
"""A person who cannot create a file because of a placeholder finds the reason in it."""
IDLE_SECONDS = 0.3
"""How long placeholders stay after the last command, so that a series of commands shares them. It is also the margin
for a killed command: its ticket is closed a moment before the kernel has ended all of its processes."""
START_SECONDS = 60.0
"""A command that has not started by then, such as one that an editor refused, does not start any more."""
END = b"\0\0"
_STICKY = 0o1000
"""The mode of a placeholder tells it from a folder of the user in the moment before it has its marker."""
_TICKET = "ticket-"
_TRIES = 200
"""Another process may be removing the placeholder: try again, a few milliseconds each time."""


def is_placeholder(path: str) -> bool:
    """Return whether there is a placeholder at a path: a folder with nothing in it but an empty marker.

    Markers of older versions have numbers at their end.
    """
    try:
        names = os.listdir(path)
        is_marked = all(name.startswith(MARKER) and not os.listdir(f"{path}/{name}") for name in names)
        return bool(names) and is_marked and not os.path.islink(path)
    except OSError:
        return False


def remove_unused(paths: Iterable[str]) -> None:
    """Remove the placeholders at these protected paths that no keeper holds: those of a killed one."""
    for path in paths:
        if _is_ours(path) and (handle := _opened(path)) is not None:
            _release(path, handle)


def _is_ours(path: str) -> bool:
    """Return whether a protected path has a placeholder, finished or not."""
    return is_placeholder(path) or is_being_changed(path)


def is_being_changed(path: str) -> bool:
    """Return whether a placeholder is being made or removed at a path: it has no marker yet, or no more."""
    try:
        return bool(os.lstat(path).st_mode & _STICKY) and not os.listdir(path)
    except OSError:
        return False


def _opened(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None


def _is_at(handle: int, path: str) -> bool:
    """Return whether an open folder is still at its path."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except OSError:
        return False


def _changed(path: str) -> int:
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0


def _release(path: str, handle: int) -> None:
    """Remove a placeholder if nobody else holds it, and close it."""
    import fcntl  # Windows has no such module

    # A file system without locks refuses this, and the placeholder stays: another process may use it.
    if _succeeds(fcntl.flock, handle, fcntl.LOCK_EX | fcntl.LOCK_NB) and _is_at(handle, path):
        _succeeds(_remove, path)
    os.close(handle)


def _remove(path: str) -> None:
    """Remove what is empty. If the user has put something into a placeholder, it becomes an ordinary folder."""
    is_ours = _is_ours(path)
    for name in os.listdir(path):
        if name.startswith(MARKER):
            os.rmdir(f"{path}/{name}")
    if not (is_ours and _succeeds(os.rmdir, path)):
        os.chmod(path, os.lstat(path).st_mode & 0o7777 & ~_STICKY)


def _succeeds(action: Callable[..., object], *arguments: object) -> bool:
    try:
        action(*arguments)
    except OSError:
        return False
    return True


class Keeper:
    """Holds placeholders for the process at the other end of a socket."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._has_parent = True
        self._unread = b""
        self._held: dict[str, int] = {}
        """Open placeholders, each with our lock, by their paths."""
        self._changes: dict[str, int] = {}
        """When each was changed last as we know it, in nanoseconds: by making its marker."""
        self._tickets: dict[int, str] = {}
        """The paths of tickets by our end of them."""
        self._deadlines: dict[int, float] = {}
        """When a ticket that was not opened is removed."""
        self._folders: set[str] = set()
        self._until = 0.0
        """When the placeholders are removed, unless a command runs."""
        self._events = select.poll()
        self._events.register(parent, select.POLLIN)

    def run(self) -> None:
        """Answer requests. End when the parent and all of its commands have, and nothing is left."""
        while self._has_parent or self._tickets or self._held:
            for handle, event in self._events.poll(self._pause()):
                if handle != self._parent:
                    self._drop(handle)
                elif event & select.POLLHUP or not self._read():
                    self._orphan()
            self._revoke()
            if not self._tickets and time.monotonic() >= self._until:
                self._free()

    def _pause(self) -> float | None:
        """Return the milliseconds until something is to be done without an event."""
        moments = list(self._deadlines.values())
        if self._held and not self._tickets:
            moments.append(self._until)
        return max(0.0, min(moments) - time.monotonic()) * 1e3 + 1 if moments else None

    def _read(self) -> bool:
        """Answer what has arrived. Return whether the parent is there."""
        try:
            data = os.read(self._parent, 1 << 16)
        except OSError:
            return False
        self._unread += data
        while END in self._unread:
            request, _, self._unread = self._unread.partition(END)
            answer = self._answered([os.fsdecode(word) for word in request.split(b"\0")])
            _succeeds(_send, self._parent, answer)  # the parent may have been killed
        return bool(data)

    def _orphan(self) -> None:
        """Go on without the parent. Its last requests are not answered, and no command of it starts any more."""
        self._has_parent = False
        self._events.unregister(self._parent)
        self._deadlines = dict.fromkeys(self._deadlines, 0.0)

    def _answered(self, words: list[str]) -> list[str]:
        if words[0] == "end":  # the parent has seen the end of its commands
            self._deadlines = dict.fromkeys(self._deadlines, 0.0)
            self._revoke()
            if not self._tickets:
                self._free()
            return ["ended"]
        _, folder, *paths = words
        try:
            return ["held", *self._hold(folder, paths)]
        except OSError as error:
            remove_unused(paths)
            return ["failed", str(error.errno), error.strerror or "?", str(error.filename or folder)]
        finally:
            self._until = time.monotonic() + IDLE_SECONDS

    def _hold(self, folder: str, paths: list[str]) -> list[str]:
        """Return a new ticket, and those of the paths where there is nothing but a placeholder."""
        if folder not in self._folders:  # the keeper before this one was killed: its commands may run
            self._folders.add(folder)
            for name in os.listdir(folder):
                if name.startswith(_TICKET):
                    self._watch(f"{folder}/{name}", 0.0)
        absent = [path for path in paths if self._take(path)]
        ticket = f"{folder}/{_TICKET}{os.urandom(8).hex()}"
        os.mkfifo(ticket, 0o600)
        self._watch(ticket, time.monotonic() + START_SECONDS)
        return [ticket, *absent]

    # Placeholders

    def _take(self, path: str) -> bool:
        """Return whether there is nothing at a path but a placeholder, which has our lock."""
        if path in self._held:
            if (changed := _changed(path)) and changed == self._changes[path]:
                return True
            if _is_at(self._held[path], path):
                return is_placeholder(path)
            os.close(self._held.pop(path))
        for _ in range(_TRIES):
            try:
                os.mkdir(path, 0o777 | _STICKY)
            except FileExistsError:
                if not _is_ours(path):
                    return False
            except OSError:
                if not os.access(os.path.dirname(path), os.W_OK):
                    return False  # nor can a command
                raise
            if self._lock(path):
                return True
            time.sleep(0.005)
        raise FileNotFoundError(2, "a protected name cannot be held", path)

    def _lock(self, path: str) -> bool:
        """Lock a placeholder, and mark it. Return False if it is just being removed."""
        import fcntl

        handle = _opened(path)
        if handle is None:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        except OSError:
            pass  # a file system without locks
        if not _is_at(handle, path):
            os.close(handle)
            return False
        self._held[path] = handle
        try:  # noqa: SIM105 - contextlib takes longer to import than all the rest
            os.mkdir(f"{path}/{MARKER}")
        except FileExistsError:
            pass
        self._changes[path] = _changed(path)
        return True

    def _free(self) -> None:
        while self._held:
            _release(*self._held.popitem())

    # Tickets

    def _watch(self, ticket: str, deadline: float) -> None:
        handle = os.open(ticket, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._tickets[handle] = ticket
        self._deadlines[handle] = deadline
        self._events.register(handle, 0)  # that the other end was closed is reported without being asked for

    def _drop(self, handle: int) -> None:
        self._events.unregister(handle)
        os.close(handle)
        self._deadlines.pop(handle, None)
        _succeeds(os.unlink, self._tickets.pop(handle))
        self._until = time.monotonic() + IDLE_SECONDS

    def _revoke(self) -> None:
        """Remove tickets that were not opened in time. A command opens its ticket first, then looks if it is there."""
        now = time.monotonic()
        for handle in [handle for handle, deadline in self._deadlines.items() if deadline <= now]:
            del self._deadlines[handle]
            _succeeds(os.unlink, self._tickets[handle])
            if not _has_writer(handle):
                self._drop(handle)


def _has_writer(handle: int) -> bool:
    try:
        os.read(handle, 1)
    except BlockingIOError:
        return True
    return False


def _send(handle: int, words: list[str]) -> None:
    data = memoryview(b"\0".join(os.fsencode(word) for word in words) + END)
    while data:
        data = data[os.write(handle, data) :]


if __name__ == "__main__":
    Keeper(0).run()
