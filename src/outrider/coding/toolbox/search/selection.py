"""Which files a search is about, by the glob that the model gives."""

from __future__ import annotations

import os
from pathlib import Path

from outrider.coding.toolbox.search.wildcards import matcher


class Selection:
    """The files that match a glob: by name if it has no slash, else by path from the searched place or the project.

    rg's own --glob would bring back what git ignores (`src/**` matches the folders in it too), so that a glob becomes
    a file type, which does not, and paths are compared here.
    """

    def __init__(self, glob: str, place: Path, folder: Path) -> None:
        self.options: list[str] = []
        """What tells rg of it."""
        self._matches = None
        self._bases = [os.path.join(each, "") for each in (place, folder)]
        if not glob or place.is_file():
            return
        if glob.startswith("!"):
            self.options = [f"--glob={glob}"]
            return
        pattern = f"{glob}**" if glob.endswith("/") else glob
        path, _, name = pattern.rpartition("/")
        if name != "**" and ":" not in name and name.count("{") == name.count("}"):
            self.options = [f"--type-add=wanted:{name}", "--type=wanted"]
        if path or not self.options:
            anchored = pattern.removeprefix("./").lstrip("/")
            self._matches = matcher(anchored if path else f"**/{anchored}")

    def accepts(self, path: str) -> bool:
        """Whether an absolute path that rg has found is meant."""
        matches = self._matches
        return not matches or any(matches(path[len(base) :]) for base in self._bases if path.startswith(base))
