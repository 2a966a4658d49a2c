"""Profiles are looked for in the user's home: here that is an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OUTRIDER_CONFIG", str(home / "settings" / "config.toml"))
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "notes.txt").write_text("one\ntwo\n")
    return folder
