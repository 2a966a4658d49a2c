"""A folder to work in, and keys for questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.input import PipeInput, create_pipe_input


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a few files, beside the home of the person."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("Buy milk.\nFeed the cat.\n")
    return folder


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[PipeInput]:
    """The keys of a person who reads fast."""
    with create_pipe_input() as pipe:
        monkeypatch.setattr("outrider.cli.chat.keyboard.create_input", lambda: pipe)
        monkeypatch.setattr("outrider.cli.chat.keyboard.REACTION_SECONDS", 0.02)
        yield pipe
