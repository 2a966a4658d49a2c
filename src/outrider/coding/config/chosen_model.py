"""The model and the effort that the user has chosen in the chat, by repository."""

from __future__ import annotations

from pathlib import Path

import msgspec

from outrider.coding.repository import repository_folders
from outrider.coding.settings_files import locked, project_folder, read_private, write_private
from outrider.struct_types import described


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the next chat begins with. None for what the settings say."""

    repository: str = ""
    model: str | None = None
    effort: str | None = None


class ChosenModel:
    """The choice for one repository. It is stored in the user's data folder, so that a project cannot bring one."""

    def __init__(self, data: Path, folder: Path) -> None:
        root = repository_folders(folder)[0]
        self._repository = str(root).encode(errors="backslashreplace").decode()
        self._folder = project_folder(root, data)
        self._path = self._folder / "model.json"

    def read(self) -> Choice:
        """Return the choice. A file that cannot be read has none."""
        try:
            found = msgspec.json.decode(read_private(self._path), type=described(Choice))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return Choice()
        return found if found.repository == self._repository else Choice()

    def remember(self, **chosen: str | None) -> None:
        """Replace the model or the effort; None forgets it. Raises ConfigError if writing fails."""
        with locked(self._folder):
            choice = msgspec.structs.replace(self.read(), repository=self._repository, **chosen)
            write_private(self._path, msgspec.json.encode(choice) + b"\n")
