"""A user with a home and a project, as files on the disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from outrider.coding.config.loading import Loaded, load
from outrider.coding.consent.item import Consents


class Home:
    """Where a test's user keeps their settings, beside a project."""

    def __init__(self, folder: Path) -> None:
        self.user_file = folder / "home" / "config.toml"
        self.project = folder / "project"
        self.project_file = self.project / ".outrider" / "config.toml"
        self.data = folder / "data"
        self.project_file.parent.mkdir(parents=True)
        self.user_file.parent.mkdir()
        self.environment = {"OUTRIDER_CONFIG": str(self.user_file), "OUTRIDER_HOME": str(self.data)}

    def user_says(self, text: str) -> None:
        """Write the user's own file."""
        self.user_file.write_text(text)

    def project_says(self, text: str) -> None:
        """Write the project's file."""
        self.project_file.write_text(text)

    def load(self, *, flags: dict[str, Any] | None = None, folder: Path | None = None, **variables: str) -> Loaded:
        """What holds in the project."""
        return load(folder or self.project, environment=self.environment | variables, flags=flags or {})

    def agree(self) -> None:
        """The user agrees to what waits."""
        waiting = self.load().waiting
        assert waiting
        Consents(self.data).give(waiting, [name for item in waiting for name in item.secrets])


def mode_of(path: Path) -> int:
    """The permissions of a file or folder."""
    return os.stat(path).st_mode & 0o777
