"""Finding and opening regular files. Everything else that has a path is refused at once, with a sentence."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from outrider.coding.toolbox.refusals import RefusalError, refusal, shown
from outrider.coding.toolbox.workspace import Workspace

NAMES_LOOKED_AT = 5_000
"""How many names of a folder are compared with one that is missing."""

_KINDS = (
    (stat.S_ISFIFO, "is a FIFO (a named pipe)"),
    (stat.S_ISSOCK, "is a socket"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
)


def located(workspace: Workspace, name: str) -> Path:
    """The file that the model means, at the end of all symbolic links. It need not be there."""
    if not name:
        raise RefusalError("file_path is empty: give the path of a file.")
    if "\0" in name:
        raise RefusalError("file_path has a NUL character, which no path can have.")
    try:
        return Path(os.path.realpath(workspace.path(name)))
    except (RuntimeError, ValueError):  # the home of nobody, a lone surrogate
        raise RefusalError(f"{shown(name)} is not a path that can be used here.") from None


@contextmanager
def opened(path: Path, name: str) -> Iterator[BinaryIO]:
    """The file, open for reading. Raises RefusalError if it is missing, is no regular file or cannot be opened."""
    try:
        check_regular(os.stat(path), name)  # before it is opened: some devices act on that
        # Without blocking, so that what became a FIFO this very moment is not waited for.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    except FileNotFoundError:
        raise _missing(path, name) from None
    except OSError as error:
        raise refusal(error, name) from None
    with os.fdopen(handle, "rb") as file:
        check_regular(os.fstat(handle), name)
        yield file


def check_regular(status: os.stat_result, name: str) -> None:
    """Refuse whatever is no regular file."""
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise RefusalError(f"{shown(name)} is a folder, not a file. Glob lists what is in it.")
    kind = next((words for fits, words in _KINDS if fits(status.st_mode)), "is something special")
    raise RefusalError(f"{shown(name)} {kind}, not a regular file, and was not opened.")


def _missing(path: Path, name: str) -> RefusalError:
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if folder != path.parent:
        return RefusalError(
            f"{shown(name)} does not exist: there is no {path.relative_to(folder).parts[0]!r} in {folder}."
        )
    if names := _close_names(path):
        return RefusalError(f"{shown(name)} does not exist. Names like it in the same folder: {', '.join(names)}.")
    return RefusalError(
        f"{shown(name)} does not exist, and nothing in its folder has a name like it. Glob finds files."
    )


def _close_names(path: Path) -> list[str]:
    from difflib import get_close_matches

    try:
        with os.scandir(path.parent) as entries:
            names = {entry.name.lower(): entry.name for entry in islice(entries, NAMES_LOOKED_AT)}
    except OSError:
        return []
    return [shown(names[close]) for close in get_close_matches(path.name.lower(), names, 5)]
