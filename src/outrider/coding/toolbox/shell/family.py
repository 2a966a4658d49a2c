"""Which processes belong to a command: its group and its session, their descendants, and whoever carries its mark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

TABLE = "/proc"
MARK = "OUTRIDER_CALL"
"""The variable of the environment by which a process that went its own way is still known."""


class Kin(NamedTuple):
    """A process, which its number alone does not identify for long."""

    pid: int
    started: int


class _Entry(NamedTuple):
    kin: Kin
    parent: int
    group: int
    session: int
    dead: bool


def can_be_listed() -> bool:
    """Whether this system has a table of processes to look into."""
    return os.path.exists(f"{TABLE}/self/stat")


def family(leader: int | None, mark: str, known: Iterable[Kin] = ()) -> set[Kin]:
    """All that live of the command whose shell has the process id `leader`; None if that is over.

    A daemon has left the group and the session and lost its parent; the mark in its environment is what it keeps. Those
    of `known` count as well, if they live: what was seen once as a child may have lost its parents since.
    """
    entries = list(_entries())
    began = next((entry.kin.started for entry in entries if entry.kin.pid == leader), 0)
    known, wanted = set(known), f"{MARK}={mark}\0".encode()
    members = {
        entry.kin.pid
        for entry in entries
        if leader in (entry.kin.pid, entry.group, entry.session)
        or entry.kin in known
        or (entry.kin.started >= began and not entry.dead and wanted in _environment(entry.kin.pid))
    }
    _add_descendants(members, entries)
    return {entry.kin for entry in entries if entry.kin.pid in members and not entry.dead}


def _add_descendants(members: set[int], entries: Iterable[_Entry]) -> None:
    children: dict[int, list[int]] = {}
    for entry in entries:
        children.setdefault(entry.parent, []).append(entry.kin.pid)
    waiting = list(members)
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in members]
        members.update(new)
        waiting += new


def _entries() -> Iterator[_Entry]:
    for name in os.listdir(TABLE):
        if name.isdigit() and (line := _content(f"{TABLE}/{name}/stat")):
            # The name of the program stands in brackets and may contain anything, brackets too.
            fields = line[line.rindex(b")") + 2 :].split()
            parent, group, session, started = (int(fields[place]) for place in (1, 2, 3, 19))
            yield _Entry(Kin(int(name), started), parent, group, session, fields[0] in (b"Z", b"X"))


def _environment(pid: int) -> bytes:
    return b"\0" + _content(f"{TABLE}/{pid}/environ")


def _content(path: str) -> bytes:
    """What the file says; nothing if the process is gone or somebody else's."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:
        return b""
