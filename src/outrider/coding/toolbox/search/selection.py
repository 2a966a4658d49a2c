"""The files that a search covers, selected by the model's glob."""

from __future__ import annotations

import os
from pathlib import Path

from outrider.coding.toolbox.search.wildcards import matcher


class Selection:
    """Files that match a glob: by name if it has no slash, else by path from the searched place or the project.

    rg's own --glob would include files that git ignores (`src/**` matches ignored folders too). So the glob becomes a
    file type, which does not, and paths are compared here.
    """

    def __init__(self, glob: str, place: Path, folder: Path) -> None:
        self.options: list[str] = []
        """The options for rg."""
        self._matches = None
        self._bases = [os.path.join(each, "") for each in (place, folder)]
        if not glob or place.is_file():
            return
        if glob.startswith("!"):
            self.options = [f"--glob={each}" for each in _negated(glob, place, folder)]
            return
        pattern = f"{glob}**" if glob.endswith("/") else glob
        path, _, name = pattern.rpartition("/")
        if name != "**" and ":" not in name and name.count("{") == name.count("}"):
            self.options = [f"--type-add=wanted:{name}", "--type=wanted"]
        if path or not self.options:
            anchored = pattern.removeprefix("./").lstrip("/")
            self._matches = matcher(anchored if path else f"**/{anchored}")

    def accepts(self, path: str) -> bool:
        """Return whether an absolute path from rg is selected."""
        matches = self._matches
        return not matches or any(matches(path[len(base) :]) for base in self._bases if path.startswith(base))


def _negated(glob: str, place: Path, folder: Path) -> list[str]:
    """Return a negated glob as rg needs it: relative to the searched place, also if it is written from the project."""
    above = f"{place.relative_to(folder)}/" if place != folder and place.is_relative_to(folder) else ""
    inner = glob.removeprefix("!").removeprefix("/")
    return [glob, f"!/{inner.removeprefix(above)}"] if above and inner.startswith(above) else [glob]
