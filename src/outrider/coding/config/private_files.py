"""Small files of the user's own: replaced whole, for the owner alone, and by one process at a time."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from outrider.coding.config.files import regular_content
from outrider.errors import ConfigError
from outrider.filesystem import make_private, sync_folder

MAX_BYTES = 10 * 1024 * 1024
LOCK_SECONDS = 10.0


def folder_of(project: Path, data: Path) -> Path:
    """Where in the data folder it is kept what belongs to a project: a readable name, and a hash of the resolved path.

    >>> folder_of(Path("/a/my project"), Path("/data")).name[:11]
    'my-project-'
    """
    resolved = project.resolve()
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", resolved.name)[:40].strip("-.") or "project"
    return data / "projects" / f"{readable}-{sha256(os.fsencode(resolved)).hexdigest()[:32]}"


def read_private(path: Path) -> bytes:
    """The content; empty if there is none that can be read."""
    try:
        return b"" if _lacks_home(path) else regular_content(path, MAX_BYTES)
    except (OSError, ValueError):
        return b""


def write_private(path: Path, content: bytes) -> None:
    """Put the content in the place of what was there, as a whole. Raises ConfigError if the disk refuses."""
    temporary = path.parent / f"incoming-{os.urandom(8).hex()}"
    with _said(path):
        make_private(path.parent)
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def remove_private(path: Path) -> None:
    """Have no file there. Raises ConfigError if the disk refuses."""
    with _said(path):
        path.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else who asks for this lock has it meanwhile. Raises ConfigError if it stays taken."""
    with _said(folder):
        make_private(folder)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        _wait_for(handle, folder)
        yield
    finally:
        os.close(handle)  # and with it goes the lock


def _wait_for(handle: int, folder: Path) -> None:
    until = time.monotonic() + LOCK_SECONDS
    while not _taken(handle):
        if time.monotonic() > until:
            raise ConfigError(f"{folder} is in use by another process for {LOCK_SECONDS:.0f} s; end it and try again")
        time.sleep(0.01)


def _taken(handle: int) -> bool:
    with suppress(BlockingIOError, PermissionError):
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _lacks_home(path: Path) -> bool:
    """Whether nobody's home is known here. `~` would then be a folder of the project, which could bring it along."""
    return path.parts[:1] == ("~",)


@contextmanager
def _said(path: Path) -> Iterator[None]:
    if _lacks_home(path):
        raise ConfigError(f"{path} cannot be written: your home folder is not known; set HOME or OUTRIDER_HOME")
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
