"""The files that a sandbox needs while it is set up, in a private folder."""

from __future__ import annotations

import os
from collections.abc import Mapping

from outrider.temporary_folder import TemporaryFolder


class RuntimeFiles:
    """A folder for the owner alone with the given files and an empty one.

    It is removed with this object or at the end of the process, and made anew if a cleaner of temporary files removes
    it.
    """

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = {**contents, "empty": b""}
        self.folder = self._make()

    @property
    def empty_file(self) -> str:
        """An empty file."""
        return self.path("empty")

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return f"{self.folder}/{name}"

    def ensure(self) -> None:
        """Make the folder anew if a file of it is missing."""
        if not all(os.path.exists(self.path(name)) for name in self._contents):
            self.folder = self._make()

    def _make(self) -> str:
        self._temporary = TemporaryFolder()
        folder = str(self._temporary.path)
        for name, content in self._contents.items():
            handle = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
            with open(handle, "wb") as file:
                file.write(content)
        return folder
