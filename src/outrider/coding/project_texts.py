"""Texts for models that a project brings: found from its root down to a folder, and read without trusting them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from outrider.text import clean

MAX_BYTES = 64 * 1024
TEXT_SUFFIXES = (".md", ".mdc", ".markdown", ".txt")
"""How the file behind a link must be named: a link to a key or to `.env` is not a text for models."""


class ProjectText(msgspec.Struct, frozen=True):
    """One file."""

    path: Path
    text: str


def project_texts(
    folder: Path, names: Callable[[Path], Iterable[str]], *, home: Path | None = None
) -> list[ProjectText]:
    """The texts for a folder, those of the outermost folder first and the nearest last. `names` says which they are.

    Folders are looked at up to the root of the repository; without one, up to the user's home; outside both, the
    folder alone. What cannot be read is left out, and so are files of strangers, and links that lead out of the
    repository or, without one, out of their folder.
    """
    folder = Path(os.path.realpath(folder))
    folders = _folders(folder, Path(os.path.realpath(home or os.path.expanduser("~"))))
    owners = _owners(folder)
    is_repository = os.path.lexists(folders[0] / ".git")
    return [
        ProjectText(each / name, text)
        for each in folders
        for name in names(each)
        if (text := _read(each / name, folders[0] if is_repository else each, owners))
    ]


def texts_of(folder: Path, names: Iterable[str]) -> list[ProjectText]:
    """Texts in a folder of the user's own; what cannot be read is left out, and so are links that lead out of it."""
    folder = Path(os.path.realpath(folder))
    read = ((folder / name, _read(folder / name, folder, frozenset())) for name in names)
    return [ProjectText(path, text) for path, text in read if text]


def _folders(folder: Path, home: Path) -> list[Path]:
    """The folders to look at, the outermost first."""
    upwards = [folder, *folder.parents]
    top = next((each for each in upwards if os.path.lexists(each / ".git")), None)
    if top is None:
        is_at_home = home in upwards and home != home.parent
        top = home if is_at_home else folder
    return upwards[upwards.index(top) :: -1]


def _owners(folder: Path) -> frozenset[int]:
    """Whose files count: in a folder like /tmp, anybody can put one above the project."""
    try:
        return frozenset({0, os.getuid(), folder.stat().st_uid})
    except (OSError, AttributeError):  # not on this system
        return frozenset()


def _read(path: Path, top: Path, owners: frozenset[int]) -> str:
    """The text of a regular file; empty if it is none, cannot be read, or is a link that leads elsewhere."""
    try:
        target = Path(os.path.realpath(path))
        if not _may_be_sent(target, top) or not stat.S_ISREG(os.lstat(target).st_mode):
            return ""
        # Not through a link that it was replaced by this very moment, nor waiting for a FIFO.
        handle = os.open(target, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            is_ours = not owners or status.st_uid in owners
            return _text(file.read(MAX_BYTES + 1)) if is_ours and stat.S_ISREG(status.st_mode) else ""
    except (OSError, ValueError):
        return ""


def _may_be_sent(target: Path, top: Path) -> bool:
    if not target.is_relative_to(top) or ".git" in target.relative_to(top).parts:
        return False
    return target.suffix.lower() in TEXT_SUFFIXES


def _text(data: bytes) -> str:
    """The text, cut between lines if it is too long."""
    if len(data) <= MAX_BYTES:
        return clean(data.decode("utf-8-sig", errors="replace")).strip()
    whole_lines = data[:MAX_BYTES].rpartition(b"\n")[0] or data[:MAX_BYTES]
    text = clean(whole_lines.decode("utf-8-sig", errors="ignore")).strip()
    return f"{text}\n\n[The file goes on; only its first {MAX_BYTES // 1024} KB are read.]"
