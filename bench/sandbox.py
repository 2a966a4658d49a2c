"""What a sandbox adds to a command: beside the bare command, and beside bubblewrap called by hand."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

from bench.figure import Figure
from outrider.coding.access import Access
from outrider.coding.sandbox.available import try_sandbox
from outrider.coding.sandbox.bubblewrap import Bubblewrap
from outrider.coding.sandbox.landlock import Landlock, landlock_version
from outrider.coding.sandbox.sandbox import Confinement, Host, Sandbox

ROUNDS = 40
_MEMORY = "/dev/shm"
COMMAND = ["/bin/sh", "-c", ":"]
FOLDERS, FILES = 200, 10
LEVELS: tuple[Access, ...] = ("read", "write")


def measure() -> Iterator[Figure]:
    """Commands in a project of 2,000 files with a secret, the ways in turn. Setting up the arguments counts.

    The project is in memory: how long a disk takes to make a folder depends on what was deleted on it before.
    """
    found, state = try_sandbox()
    if not isinstance(found, Bubblewrap):
        yield Figure(f"no bubblewrap to measure: {state}", 0, "")
        return
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.path.isdir(_MEMORY) else None) as name:
        places = _project(Path(name))
        for access in LEVELS:
            plain, same = _plain(found.program, access, places), _same(found, access, places)
            fixed: list[Callable[[], Sequence[str]]] = [partial(list, argv) for argv in (COMMAND, plain, same)]
            bare, plainly, by_hand, ours = _medians(*fixed, partial(_wrapped, found, access, places))
            detail = f"bare {bare:.1f} ms, ours {ours:.1f}"
            yield Figure(f"a command with access {access}, over the bare one", ours - bare, "ms", 25, detail)
            same_mounts = f"by hand {by_hand:.1f} ms"
            yield Figure("  against bubblewrap by hand with the same mounts", ours / by_hand, "x", 1.5, same_mounts)
            few_mounts = f"by hand {plainly:.1f} ms"
            yield Figure("  against bubblewrap by hand, nothing masked", ours / plainly, "x", None, few_mounts)
        if landlock_version():
            yield _landlock(Landlock(Host.of(os.environ)), places)


def _landlock(sandbox: Sandbox, places: Confinement) -> Figure:
    bare, ours = _medians(partial(list, COMMAND), partial(_wrapped, sandbox, "write", places))
    return Figure("a command with Landlock, over the bare one", ours - bare, "ms", None, f"bare {bare:.1f} ms")


def _wrapped(sandbox: Sandbox, access: Access, places: Confinement) -> Sequence[str]:
    return sandbox.wrap(COMMAND, access, msgspec.structs.replace(places))  # each command has its own


def _project(base: Path) -> Confinement:
    for number in range(FOLDERS):
        folder = base / "work" / f"package{number % 20}" / f"part{number}"
        folder.mkdir(parents=True)
        for file in range(FILES):
            (folder / f"module{file}.py").touch()
    (base / "work" / ".git").mkdir()
    (base / "work" / ".env").touch()
    (base / "tmp").mkdir()
    return Confinement(folder=base / "work", cwd=base / "work", temporary=base / "tmp")


def _plain(program: str, access: Access, places: Confinement) -> Sequence[str]:
    """Return the shortest call of bwrap that confines a command."""
    folder = str(places.folder)
    bind = "--ro-bind" if access == "read" else "--bind"
    mounts = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", bind, folder, folder]
    return [program, *mounts, "--unshare-all", "--new-session", "--die-with-parent", "--chdir", folder, "--", *COMMAND]


def _same(sandbox: Bubblewrap, access: Access, places: Confinement) -> Sequence[str]:
    """Return a call of bwrap with the same mounts on folders that are there: no search, no filter, no ticket."""
    argv = sandbox.wrap(COMMAND, access, places)
    argv = argv[argv.index(sandbox.program) :]
    for option in ("--seccomp", "--sync-fd"):
        if option in argv:
            at = argv.index(option)
            del argv[at : at + 2]
    return argv


def _medians(*ways: Callable[[], Sequence[str]]) -> list[float]:
    """Return the median of each way in milliseconds."""
    spent: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for way, times in zip(ways, spent, strict=True):
            started = time.perf_counter()
            subprocess.run(way(), stdin=subprocess.DEVNULL, check=True)
            times.append((time.perf_counter() - started) * 1e3)
    return [median(times) for times in spent]
