"""A folder to work in."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a few files, beside the home of the person."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("Buy milk.\nFeed the cat.\n")
    return folder
