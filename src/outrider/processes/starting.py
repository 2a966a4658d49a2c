"""Start a program: by its absolute path, in a named environment, and Python without the current folder."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import subprocess
    from asyncio.subprocess import Process

SHELL = "/bin/sh"
STARTING = threading.Lock()
"""Held while a thread starts a program, and while Ctrl-Z stops this one. A thread that starts a program waits for it as
nothing can interrupt. If the new process is stopped before it is that program, this one can neither go on nor stop, and
the shell waits for ever."""


class Ended(msgspec.Struct, frozen=True):
    """How a program ended."""

    code: int
    output: bytes
    errors: bytes


def python_module(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with this Python.

    With `-P`, Python does not import from the current folder: a project may have a folder with the module's name.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    seconds: float | None,
    folder: Path | str | None = None,
    input: bytes | None = None,
    shows: bool = False,
) -> Ended:
    """Run a program to its end, without input or with this. Its output is kept.

    With `shows`, it has the terminal instead.

    Raises OSError if it cannot be started, and TimeoutError, which is one, after `seconds`.
    """
    import subprocess

    kept = None if shows else subprocess.PIPE
    given = subprocess.PIPE if input is not None else None if shows else subprocess.DEVNULL
    with popen(argv, cwd=folder, env=environment, stdin=given, stdout=kept, stderr=kept) as process:
        try:
            output, errors = process.communicate(input, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{argv[0]} did not end within {seconds:g} seconds") from None
        finally:
            process.kill()
    return Ended(process.returncode, output or b"", errors or b"")


def popen(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program in any thread, with the options of `Popen`. Raises OSError, or ValueError for a NUL."""
    import subprocess

    with STARTING:
        return subprocess.Popen(checked(argv), **options)


async def start(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None,
    folder: Path | str | None = None,
    input: int,
    output: int,
    errors: int,
    handles: Sequence[int] = (),
) -> Process:
    """Start a program in a session of its own. Raises OSError, or ValueError if an argument has a NUL."""
    import asyncio

    return await asyncio.create_subprocess_exec(
        *checked(argv),
        cwd=folder,
        env=environment,
        stdin=input,
        stdout=output,
        stderr=errors,
        pass_fds=handles,
        start_new_session=True,
    )


def checked(argv: Sequence[str]) -> Sequence[str]:
    """Return the arguments if they begin with an absolute path. Raises ValueError: PATH must not choose a program."""
    if not os.path.isabs(argv[0]):
        raise ValueError(f"a program is started by its absolute path, not by {argv[0]!r}")
    return argv
