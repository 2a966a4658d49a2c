"""Small private files: replaced atomically, readable by the owner only, written by one process at a time."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from outrider.coding.config.files import read_regular_file
from outrider.errors import ConfigError
from outrider.filesystem import open_lock, replace_private, try_lock

MAX_BYTES = 10 * 1024 * 1024
LOCK_SECONDS = 10.0


def project_folder(project: Path, data: Path) -> Path:
    """Return the folder of a project's data: a readable name and a hash of the resolved path.

    >>> project_folder(Path("/a/my project"), Path("/data")).name[:11]
    'my-project-'
    """
    resolved = project.resolve()
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", resolved.name)[:40].strip("-.") or "project"
    return data / "projects" / f"{readable}-{sha256(os.fsencode(resolved)).hexdigest()[:32]}"


def read_private(path: Path) -> bytes:
    """Return the content; empty if it cannot be read."""
    try:
        return b"" if _is_unexpanded(path) else read_regular_file(path, MAX_BYTES)
    except (OSError, ValueError):
        return b""


def write_private(path: Path, content: bytes) -> None:
    """Replace the content atomically. Raises ConfigError if writing fails."""
    with _report_errors(path):
        replace_private(path, content)


def remove_private(path: Path) -> None:
    """Delete the file if it exists. Raises ConfigError if that fails."""
    with _report_errors(path):
        path.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. Raises ConfigError if another process keeps it."""
    with _report_errors(folder):
        handle = open_lock(folder / "lock")
    try:
        _acquire(handle, folder)
        yield
    finally:
        os.close(handle)  # releases the lock


def _acquire(handle: int, folder: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while not try_lock(handle):
        if time.monotonic() > deadline:
            raise ConfigError(
                f"{folder} is in use by another process (waited {LOCK_SECONDS:.0f} s); end it and try again"
            )
        time.sleep(0.01)


def _is_unexpanded(path: Path) -> bool:
    """Return whether `~` was not expanded. It would then be a folder that the project could bring along."""
    return path.parts[:1] == ("~",)


@contextmanager
def _report_errors(path: Path) -> Iterator[None]:
    if _is_unexpanded(path):
        raise ConfigError(f"{path} cannot be written: your home folder is unknown; set HOME or OUTRIDER_HOME")
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
