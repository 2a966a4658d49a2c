"""The user's consent to files of projects: settings, MCP servers, hooks and plugins.

It is for the content of a file at the time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from outrider.coding.config.private_files import locked, project_folder, read_private, remove_private, write_private
from outrider.coding.config.widening import Widening
from outrider.struct_types import described

MAX_CONTENTS = 20
"""Contents of one file that are remembered, so that switching back to an older branch does not ask again."""


class ConsentRequest(msgspec.Struct, frozen=True):
    """The values that need consent. `Consents.give(request.project_file, request.content)` stores the consent."""

    project_file: Path
    content: bytes
    """What the consent covers: the file, its tool files and its folders, as they are now."""
    widenings: tuple[Widening, ...]

    def __str__(self) -> str:
        """Return a sentence for the user. It contains nothing from the file itself."""
        keys = ", ".join(each.key for each in self.widenings)
        agreeing = "These values are ignored until you agree: outrider config trust"
        return f"The project's settings ask for more than yours allow ({keys}). {agreeing}"


class _Stored(msgspec.Struct, frozen=True):
    file: str
    sha256: tuple[str, ...] = ()


class Consents:
    """The consents of a user, stored in the data folder."""

    def __init__(self, folder: Path) -> None:
        self._data = folder

    def is_given(self, project_file: Path, content: bytes) -> bool:
        """Return whether the user has agreed to this content of this file. An unreadable store is no consent."""
        return sha256(content).hexdigest() in self._digests(project_file)

    def give(self, project_file: Path, content: bytes) -> None:
        """Store a consent. Raises ConfigError if writing fails."""
        path = self._path(project_file)
        with locked(path.parent):
            digest = sha256(content).hexdigest()
            earlier = [each for each in self._digests(project_file) if each != digest]
            stored = _Stored(_name(project_file), (*earlier[-MAX_CONTENTS + 1 :], digest))
            write_private(path, msgspec.json.format(msgspec.json.encode(stored), indent=2) + b"\n")

    def forget(self, project_file: Path) -> bool:
        """Remove every consent to this file. Return whether there was one."""
        path = self._path(project_file)
        if not path.exists():
            return False
        with locked(path.parent):
            remove_private(path)
        return True

    def _digests(self, project_file: Path) -> Sequence[str]:
        try:
            stored = msgspec.json.decode(read_private(self._path(project_file)), type=described(_Stored))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return ()
        return stored.sha256 if stored.file == _name(project_file) else ()

    def _path(self, project_file: Path) -> Path:
        project = _project(project_file)
        inside = "-".join(part.lstrip(".") for part in project_file.relative_to(project).parts)
        name = "consent.json" if inside == "outrider-config.toml" else f"consent-{_file_name(inside)}"
        return project_folder(project, self._data) / name


def _project(project_file: Path) -> Path:
    """Return the folder of the project: the one around `.outrider`, `.agents` or `.claude`, if the file is in one."""
    for folder in project_file.parents:
        if folder.name in (".outrider", ".agents", ".claude"):
            return folder.parent
    return project_file.parent


def _file_name(text: str) -> str:
    """Return a name for the store. It ends with a digest where two files could have the same."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", text)[:80]
    return (
        plain
        if plain == text and text.count("-") < 1
        else f"{plain}-{sha256(text.encode(errors='replace')).hexdigest()[:8]}"
    )


def _name(project_file: Path) -> str:
    """Return the file's path in its project's resolved folder. The file may be a link: only its content matters."""
    project = _project(project_file)
    return str(project.resolve() / project_file.relative_to(project)).encode(errors="backslashreplace").decode()
