"""Texts for models in a project: found from its root down to a folder, and read without trusting them.

Commands and profiles have front matter: fields between `---` lines at the top of a Markdown file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from outrider.text import clean
from outrider.yaml_mapping import Value, parse_mapping, split_names

MAX_BYTES = 64 * 1024
TEXT_SUFFIXES = (".md", ".mdc", ".markdown", ".txt")
"""Allowed suffixes of a link's target: a link to a key or to `.env` is not a text for models."""


class ProjectText(msgspec.Struct, frozen=True):
    """One file."""

    path: Path
    text: str


def project_texts(
    folder: Path, names: Callable[[Path], Iterable[str]], *, home: Path | None = None
) -> list[ProjectText]:
    """Return the texts for a folder, from the outermost folder to the nearest.

    `names` returns the file names to look for in a folder. The search goes up to the root of the repository; without
    one, up to the user's home; outside both, it covers the folder alone. It leaves out unreadable files, files of other
    users, and links that lead out of the repository or, without one, out of their folder.
    """
    folder = Path(os.path.realpath(folder))
    folders = folders_to_search(folder, home)
    owners = trusted_owners(folder)
    is_repository = os.path.lexists(folders[0] / ".git")
    return [
        ProjectText(each / name, text)
        for each in folders
        for name in names(each)
        if (text := _read(each / name, folders[0] if is_repository else each, owners))
    ]


def texts_below(top: Path, folder: Path, names: Iterable[str], *, itself: bool = False) -> list[ProjectText]:
    """Return the texts of the folders from below a top folder down to one inside, the outermost first.

    With `itself`, those of the top folder, too. Files of other users and links that lead out of it are left out.
    """
    parts = folder.relative_to(top).parts
    folders = [top.joinpath(*parts[:depth]) for depth in range(0 if itself else 1, len(parts) + 1)]
    owners = trusted_owners(top)
    read = ((each / name, _read(each / name, top, owners)) for each in folders for name in names)
    return [ProjectText(path, text) for path, text in read if text]


def texts_of(folder: Path, names: Iterable[str]) -> list[ProjectText]:
    """Return texts from a folder of the user. Unreadable files and links that lead out of the folder are left out."""
    folder = Path(os.path.realpath(folder))
    read = ((folder / name, _read(folder / name, folder, frozenset())) for name in names)
    return [ProjectText(path, text) for path, text in read if text]


def folders_to_search(folder: Path, home: Path | None = None) -> list[Path]:
    """Return the folders of a project, the outermost first: up to the root of its repository, or to the home."""
    home = Path(os.path.realpath(home or os.path.expanduser("~")))
    upwards = [folder, *folder.parents]
    top = next((each for each in upwards if os.path.lexists(each / ".git")), None)
    if top is None:
        is_at_home = home in upwards and home != home.parent
        top = home if is_at_home else folder
    return upwards[upwards.index(top) :: -1]


def trusted_owners(folder: Path) -> frozenset[int]:
    """Return the user ids whose files count: in a folder like /tmp, any user can put a file above the project."""
    try:
        return frozenset({0, os.getuid(), folder.stat().st_uid})
    except (OSError, AttributeError):  # not on this system
        return frozenset()


def _read(path: Path, top: Path, owners: frozenset[int]) -> str:
    """Return the text of a regular file; "" if it is not one, is unreadable, or is a link that leads elsewhere."""
    try:
        target = Path(os.path.realpath(path))
        if not _may_be_sent(target, top) or not stat.S_ISREG(os.lstat(target).st_mode):
            return ""
        # Without following a link or waiting for a FIFO, in case the file was just replaced.
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
    """Return the text, cut between lines if it is too long."""
    if len(data) <= MAX_BYTES:
        return clean(data.decode("utf-8-sig", errors="replace")).strip()
    whole_lines = data[:MAX_BYTES].rpartition(b"\n")[0] or data[:MAX_BYTES]
    text = clean(whole_lines.decode("utf-8-sig", errors="ignore")).strip()
    return f"{text}\n\n[The file goes on; only its first {MAX_BYTES // 1024} KB are read.]"


_FENCE = re.compile(r"---[ \t]*(?:\n(.*?))?^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


def split_fields(text: str) -> tuple[dict[str, Value], str]:
    """Return the fields and the text below them. Raises ValueError that names the line that cannot be parsed.

    >>> split_fields("---\\nname: reader\\ntools: [Read, Grep]\\n---\\nYou read.")
    ({'name': 'reader', 'tools': ['Read', 'Grep']}, 'You read.')
    """
    text = text.replace("\r\n", "\n")
    found = _FENCE.match(text)
    if not found:
        return {}, text
    header, body = found[1] or "", text[found.end() :].strip()
    # The line of the fence is the first: an error names the line of the file.
    fields = parse_mapping(f"\n{header}", lenient=True) if header.strip() else {}
    # A block of text ends with a line break, which no field here needs.
    return {name: value.rstrip("\n") if isinstance(value, str) else value for name, value in fields.items()}, body


def as_list(value: Value) -> list[str]:
    """Return a list, given a list or names separated by commas. Raises ValueError if there is anything but names.

    >>> as_list("Read, Grep")
    ['Read', 'Grep']
    """
    if isinstance(value, str):
        return split_names(value)
    if isinstance(value, dict) or not all(isinstance(each, str) for each in value):
        raise ValueError("a list of names has one name a line, as in `- Read`")
    return [str(each) for each in value]
