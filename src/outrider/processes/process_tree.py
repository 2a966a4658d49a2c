"""Find the processes of a command: its group, its session, their descendants, and processes that carry its mark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

TABLE = "/proc"
MARK = "OUTRIDER_CALL"
"""The environment variable that identifies a process after it has left the group and the session."""


class ProcessKey(NamedTuple):
    """A process id with its start time, because process ids are reused."""

    pid: int
    started: int


class _Entry(NamedTuple):
    key: ProcessKey
    parent: int
    group: int
    session: int
    dead: bool


def can_list_processes() -> bool:
    """Return whether this system has a process table to read."""
    return os.path.exists(f"{TABLE}/self/stat")


def find_processes(leader: int | None, mark: str, known: Iterable[ProcessKey] = ()) -> set[ProcessKey]:
    """Return the live processes of the command whose shell has the process id `leader` (None if that was reaped).

    A daemon has left the group and the session and lost its parent, but keeps the mark in its environment. Live
    processes in `known` count as well: they may have lost their parents since they were seen.
    """
    entries = list(_entries())
    began = next((entry.key.started for entry in entries if entry.key.pid == leader), 0)
    known, wanted = set(known), f"{MARK}={mark}\0".encode()
    members = {
        entry.key.pid
        for entry in entries
        if leader in (entry.key.pid, entry.group, entry.session)
        or entry.key in known
        or (entry.key.started >= began and not entry.dead and wanted in _environment(entry.key.pid))
    }
    _add_descendants(members, entries)
    return {entry.key for entry in entries if entry.key.pid in members and not entry.dead}


def _add_descendants(members: set[int], entries: Iterable[_Entry]) -> None:
    children: dict[int, list[int]] = {}
    for entry in entries:
        children.setdefault(entry.parent, []).append(entry.key.pid)
    waiting = list(members)
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in members]
        members.update(new)
        waiting += new


def _entries() -> Iterator[_Entry]:
    for name in os.listdir(TABLE):
        if name.isdigit() and (line := _read(f"{TABLE}/{name}/stat")):
            # The name of the program is in brackets and may contain anything, brackets too.
            fields = line[line.rindex(b")") + 2 :].split()
            parent, group, session, started = (int(fields[place]) for place in (1, 2, 3, 19))
            yield _Entry(ProcessKey(int(name), started), parent, group, session, fields[0] in (b"Z", b"X"))


def _environment(pid: int) -> bytes:
    return b"\0" + _read(f"{TABLE}/{pid}/environ")


def _read(path: str) -> bytes:
    """Return the content of a file; empty if the process is gone or belongs to another user."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:
        return b""
