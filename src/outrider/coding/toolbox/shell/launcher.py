"""A command as a file that somebody else runs.

Editors take a program and its arguments, and some make a line of them for the user's shell, which may be any shell, and
with or without quotes. Two plain words survive all of that.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LONGEST_ARGUMENT = 128 * 1024
"""Bytes from which on Linux does not take an argument."""


def fits(argv: Sequence[str]) -> bool:
    """Whether a program can be started with these arguments."""
    return all(len(os.fsencode(argument)) < LONGEST_ARGUMENT for argument in argv)


@contextmanager
def launcher(argv: Sequence[str], folder: Path) -> Iterator[list[str]]:
    """What to run in the place of `argv`, with an empty input, as long as the context is open."""
    path = folder / f"command-{os.urandom(8).hex()}.sh"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(os.fsencode(f"exec {shlex.join(argv)} </dev/null\n"))
    try:
        yield ["/bin/sh", str(path)]
    finally:
        path.unlink(missing_ok=True)
