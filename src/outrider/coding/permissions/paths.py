"""Where a path really leads, before it is judged: `~`, `..` and symbolic links are followed.

A hard link cannot be seen: it is the file, under a second name. What is created between the judgement and the call
cannot be seen either; only a sandbox is proof against that.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

LINKS = 40
"""As many links as a kernel follows before it says that they run in a circle."""

HARMLESS_DEVICES = {"read": frozenset({"/dev/null"}), "write": frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})}
"""What a command may open wherever it works."""


class Place(msgspec.Struct, frozen=True):
    """A path as it was given, and where it leads."""

    given: str
    resolved: str = ""
    """Absolute, without links; empty if it cannot be said."""
    seen: tuple[str, ...] = ()
    """Every absolute path on the way: as given, through each link, as resolved. All of them must be permitted."""
    problem: str = ""
    """Why nobody can say where it leads, in words for the model."""
    shifting: bool = False
    """Whether it leads elsewhere for each process, as /proc/self/cwd does; such a path is never inside."""


def place(name: object, base: str) -> Place:
    """Where a tool looks for the file: relative to the base, `~` is the user's home. Never raises."""
    if not isinstance(name, str):
        return Place(repr(name)[:80], problem="the path must be text")
    if name.startswith("file:"):
        return Place(name, problem="a path is wanted, not a file: address")
    try:
        return _placed(name, str(base / Path(name).expanduser()))
    except RuntimeError:
        return Place(name, problem=f"there is no such user: {name.partition('/')[0]}")
    except (OSError, ValueError):
        return Place(name, problem="the path cannot be used")


def shell_place(name: str, base: str) -> Place:
    """Where a program looks that is given this argument: nobody expands `~` for it. Never raises."""
    try:
        return _placed(name, os.path.join(base, name))
    except (OSError, ValueError):
        return Place(name, problem="the path cannot be used")


def is_inside(resolved: str, folders: tuple[str, ...]) -> bool:
    """Whether a resolved path is one of the folders or lies in it."""
    return any(resolved == folder or resolved.startswith(folder.rstrip("/") + "/") for folder in folders)


def _placed(name: str, path: str) -> Place:
    if "\0" in path:
        return Place(name.replace("\0", "\\0"), problem="the path has a NUL character")
    path.encode()  # a lone surrogate is not what it seems
    resolved, hops = follow(path)
    written = os.path.normpath(path)
    if any(_depends_on_the_process(each) for each in (written, *hops, resolved)):
        return Place(name, resolved, (written, *hops, resolved), shifting=True)
    return Place(name, resolved, tuple(dict.fromkeys((written, *hops, resolved))))


def _depends_on_the_process(path: str) -> bool:
    """Whether the path means something else to each process, such as /proc/self/cwd."""
    if path.startswith("//"):
        path = path[1:]
    return path.startswith(("/proc/", "/dev/"))


def follow(path: str) -> tuple[str, list[str]]:
    """The path without links, `.` and `..`, and what it read as after each link. Raises OSError for a circle."""
    waiting = path.split("/")[::-1]
    reached = ""
    hops: list[str] = []
    while waiting:
        name = waiting.pop()
        if name in ("", "."):
            continue
        if name == "..":
            reached = reached.rpartition("/")[0]
            continue
        try:
            target = os.readlink(f"{reached}/{name}")
        except OSError:  # not a link, or not there
            reached = f"{reached}/{name}"
            continue
        if len(hops) >= LINKS:
            raise OSError("the links run in a circle")
        hops.append(os.path.normpath("/".join((reached, name, *waiting[::-1]))))
        reached = "" if target.startswith("/") else reached
        waiting.extend(target.split("/")[::-1])
    return reached or "/", hops
