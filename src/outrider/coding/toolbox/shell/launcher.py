"""A command in a file, for an editor to run.

Editors take a program and its arguments. Some join them into a line for the user's shell, which may be any shell, with
or without quoting. Two plain words survive this.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LONGEST_ARGUMENT = 128 * 1024
"""Bytes at which Linux rejects an argument."""


def arguments_fit(argv: Sequence[str]) -> bool:
    """Return whether a program can be started with these arguments."""
    return all(len(os.fsencode(argument)) < LONGEST_ARGUMENT for argument in argv)


@contextmanager
def launcher(argv: Sequence[str], folder: Path) -> Iterator[list[str]]:
    """Yield a short command that runs `argv` with empty input while the context is open."""
    path = folder / f"command-{os.urandom(8).hex()}.sh"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(os.fsencode(f"exec {shlex.join(argv)} </dev/null\n"))
    try:
        yield ["/bin/sh", str(path)]
    finally:
        path.unlink(missing_ok=True)
