"""What the user has agreed to: the settings files of projects that may widen permissions, each as it was then."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from outrider.coding.config.private_files import folder_of, locked, read_private, remove_private, write_private
from outrider.coding.config.widening import Widening

KEPT = 20
"""How many contents of one file are remembered, so that going back to an older branch asks nobody again."""


class Consent(msgspec.Struct, frozen=True):
    """What waits for the user to agree: `Consents.give(waiting.project_file, waiting.content)` remembers it."""

    project_file: Path
    content: bytes
    """What is agreed to: the file, and the files of tools and the folders that it names, as they are."""
    widenings: tuple[Widening, ...]

    def __str__(self) -> str:
        """A sentence for a person; nothing of what the file says stands in it."""
        keys = ", ".join(each.key for each in self.widenings)
        agreeing = "That part is not used until you agree: outrider config trust"
        return f"The project's settings ask for more than yours allow ({keys}). {agreeing}"


class _Given(msgspec.Struct, frozen=True):
    file: str
    sha256: tuple[str, ...] = ()


class Consents:
    """The consents of a user, in their data folder: `places.data_folder()`."""

    def __init__(self, folder: Path) -> None:
        self._data = folder

    def is_given(self, project_file: Path, content: bytes) -> bool:
        """Whether the user has agreed to this content of this file. What cannot be read is no consent."""
        return sha256(content).hexdigest() in self._known(project_file)

    def give(self, project_file: Path, content: bytes) -> None:
        """Remember that the user agrees. Raises ConfigError if that cannot be written."""
        path = self._path(project_file)
        with locked(path.parent):
            digest = sha256(content).hexdigest()
            earlier = [each for each in self._known(project_file) if each != digest]
            given = _Given(_name(project_file), (*earlier[-KEPT + 1 :], digest))
            write_private(path, msgspec.json.format(msgspec.json.encode(given), indent=2) + b"\n")

    def forget(self, project_file: Path) -> bool:
        """Take back every consent to this file; whether there was one."""
        path = self._path(project_file)
        if not path.exists():
            return False
        with locked(path.parent):
            remove_private(path)
        return True

    def _known(self, project_file: Path) -> Sequence[str]:
        try:
            given = msgspec.json.decode(read_private(self._path(project_file)), type=_Given)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return ()
        return given.sha256 if given.file == _name(project_file) else ()

    def _path(self, project_file: Path) -> Path:
        return folder_of(_project(project_file), self._data) / "consent.json"


def _project(project_file: Path) -> Path:
    return project_file.parent.parent


def _name(project_file: Path) -> str:
    """The file in its project's resolved folder. Where a link in its place leads does not matter: the content does."""
    return (
        str(_project(project_file).resolve() / project_file.parent.name / project_file.name)
        .encode(errors="backslashreplace")
        .decode()
    )
