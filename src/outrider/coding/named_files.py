"""Files that the user names, as in `@notes.md`: which names are files, and the files as attachments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from outrider.conversation.attachments import Attachment

Kind: TypeAlias = Literal["file", "folder", ""]


class NamedFiles(Protocol):
    """The files of a working folder, here or elsewhere. The methods may block."""

    def kinds(self, names: Sequence[str]) -> list[Kind]:
        """Return what each name is: relative to the folder, absolute, or below `~`; empty if there is none."""

    def located(self, name: str) -> str:
        """Return the path of a file, as permissions are asked for it."""

    def attach(self, name: str) -> Attachment:
        """Return a file as an attachment."""


class FilesHere:
    """The files of a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def kinds(self, names: Sequence[str]) -> list[Kind]:
        return [kind_of(self._folder, name) for name in names]

    def located(self, name: str) -> str:
        return os.path.realpath(self._folder / Path(name).expanduser())

    def attach(self, name: str) -> Attachment:
        return Attachment.from_path(self._folder / Path(name).expanduser())


def kind_of(folder: Path, name: str) -> Kind:
    """Return whether a name is a file or a folder; empty if it is neither.

    >>> kind_of(Path("/"), "tmp"), kind_of(Path("/"), "")
    ('folder', '')
    """
    try:
        path = folder / Path(name).expanduser()
        return "" if not name else "file" if path.is_file() else "folder" if path.is_dir() else ""
    except (OSError, RuntimeError, ValueError):
        return ""
