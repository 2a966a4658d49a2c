"""Resolve a path before it is checked: expand `~`, and follow `..` and symbolic links.

Hard links are not detected: they are the file under a second name. Links that are created between the check and the
call do not matter to the file tools: they confirm the path that they open, and open it without following links.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from outrider.filesystem import is_within

MAX_LINKS = 40
"""Links to follow before they count as a loop, as in a kernel."""

HARMLESS_DEVICES = {"read": frozenset({"/dev/null"}), "write": frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})}
"""Devices that a command may always open."""


class ResolvedPath(msgspec.Struct, frozen=True):
    """A path as it was given, and the path it resolves to."""

    given: str
    resolved: str = ""
    """The absolute path without links; empty if it is unknown."""
    all_paths: tuple[str, ...] = ()
    """Every absolute path on the way: as given, after each link, and as resolved. All of them must be permitted."""
    problem: str = ""
    """Why it cannot be resolved, for the model."""
    per_process: bool = False
    """Whether it differs for each process, as /proc/self/cwd does. Such a path never counts as inside a folder."""


def resolve_tool_path(name: object, base: str) -> ResolvedPath:
    """Resolve a path as a tool does: relative to the base, with `~` for the home folder. Never raises."""
    if not isinstance(name, str):
        return ResolvedPath(repr(name)[:80], problem="the path must be text")
    if name.startswith("file:"):
        return ResolvedPath(name, problem="a path is wanted, not a file: address")
    try:
        return _resolve(name, str(base / Path(name).expanduser()))
    except RuntimeError:
        return ResolvedPath(name, problem=f"there is no such user: {name.partition('/')[0]}")
    except (OSError, ValueError):
        return ResolvedPath(name, problem="the path cannot be used")


def resolve_shell_path(name: str, base: str) -> ResolvedPath:
    """Resolve a path as a program does with its arguments: `~` is not expanded. Never raises."""
    try:
        return _resolve(name, os.path.join(base, name))
    except (OSError, ValueError):
        return ResolvedPath(name, problem="the path cannot be used")


def as_resolved(path: str) -> ResolvedPath:
    """Return an absolute path that a tool has resolved. Links that appeared since are not followed."""
    return ResolvedPath(path, path, (path,), per_process=_is_per_process(path))


def is_inside(resolved: str, folders: tuple[str, ...]) -> bool:
    """Return whether a resolved path is one of the folders or is inside one."""
    return any(is_within(resolved, folder) for folder in folders)


def _resolve(name: str, path: str) -> ResolvedPath:
    if "\0" in path:
        return ResolvedPath(name.replace("\0", "\\0"), problem="the path has a NUL character")
    path.encode()  # raises ValueError for a lone surrogate
    resolved, hops = follow_links(path)
    written = os.path.normpath(path)
    if any(_is_per_process(each) for each in (written, *hops, resolved)):
        return ResolvedPath(name, resolved, (written, *hops, resolved), per_process=True)
    return ResolvedPath(name, resolved, tuple(dict.fromkeys((written, *hops, resolved))))


def _is_per_process(path: str) -> bool:
    """Return whether the path differs for each process, as /proc/self/cwd does."""
    if path.startswith("//"):
        path = path[1:]
    return path.startswith(("/proc/", "/dev/"))


def follow_links(path: str) -> tuple[str, list[str]]:
    """Return the path without links, `.` and `..`, and the path after each link. Raises OSError for a loop."""
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
        except OSError:  # not a link, or missing
            reached = f"{reached}/{name}"
            continue
        if len(hops) >= MAX_LINKS:
            raise OSError("the links form a loop")
        hops.append(os.path.normpath("/".join((reached, name, *waiting[::-1]))))
        reached = "" if target.startswith("/") else reached
        waiting.extend(target.split("/")[::-1])
    return reached or "/", hops
