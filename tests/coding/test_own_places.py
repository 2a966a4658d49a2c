"""Outrider's own data and settings: which places are hidden, and what of them is shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider.coding.own_places import OwnPlaces, own_places


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = Path(os.path.realpath(tmp_path)) / "home"
    for name in ("data/sessions", "data/skills", "config/outrider/skills/paint", "config/outrider/plugins/one"):
        (home / name).mkdir(parents=True)
    for name in ("mcp.json", "config.toml", "guard.sh", "plugins/one/mcp.json", "skills/paint/run.sh"):
        (home / "config/outrider" / name).touch()
    (home / "config/outrider/guard.sh").chmod(0o755)
    monkeypatch.setenv("OUTRIDER_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    return home


def hidden(home: Path, places: OwnPlaces, *names: str) -> list[bool]:
    return [places.hides(str(home / name)) for name in names]


def test_data_and_settings_are_hidden_and_what_commands_run_is_shown(home: Path) -> None:
    places = own_places([home / "work"])
    assert all(hidden(home, places, "data", "data/keys.json", "data/sessions/log.db", "data/new/file"))
    settings = (
        "config/outrider",
        "config/outrider/mcp.json",
        "CONFIG/Outrider/mcp.json",
        "config/outrider/config.toml",
    )
    assert all(hidden(home, places, *settings, "config/outrider/plugins/one/mcp.json"))
    shown = ("data/skills/index.txt", "config/outrider/skills/paint/run.sh", "config/outrider/guard.sh", "config", "x")
    assert not any(hidden(home, places, *shown, "data-workspaces/one", "config/outrider/plugins/one/plugin.json"))


def test_a_working_folder_inside_is_shown_but_not_inside_the_log(home: Path) -> None:
    places = own_places([home / "data/checkouts/one", home / "data/sessions/two"])
    assert hidden(home, places, "data/checkouts/one/x", "data/checkouts", "data/sessions/two") == [False, True, True]
    assert hidden(home, places.hiding(home / "data/checkouts/one"), "data/checkouts/one/x") == [True]


def test_a_named_settings_file_and_log_are_hidden_without_their_neighbours(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_CONFIG", str(home / "dotfiles/mine.toml"))
    monkeypatch.setenv("OUTRIDER_LOG", str(home / "log"))
    places = own_places([])
    names = ("dotfiles/mine.toml", "dotfiles/mcp.json", "log/log.db", "config/outrider/mcp.json", "dotfiles/vimrc")
    assert hidden(home, places, *names) == [True, True, True, True, False]
    monkeypatch.setenv("OUTRIDER_LOG", "postgresql://host/db")
    assert hidden(home, own_places([]), "log/log.db") == [False]


def test_the_target_of_a_linked_settings_file_is_hidden(home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "config/outrider/mcp.json").rename(home / "dotfiles/servers.json")
    (home / "config/outrider/mcp.json").symlink_to(home / "dotfiles/servers.json")
    assert hidden(home, own_places([]), "dotfiles/servers.json", "dotfiles") == [True, False]
