"""The model and the effort that a user has chosen in the chat, for the next one there."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.coding.config.loading import load
from outrider.coding.config.remembered import Choice, ChosenModel
from outrider.coding.settings_files import project_folder


def test_a_choice_counts_for_the_repository_until_it_is_forgotten(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    (shop / "src").mkdir(parents=True)
    (shop / ".git").mkdir()
    chosen = ChosenModel(tmp_path / "data", shop / "src")
    assert chosen.read() == Choice()
    chosen.remember(model="demo")
    chosen.remember(effort="high")
    found = ChosenModel(tmp_path / "data", shop).read()
    assert (found.model, found.effort) == ("demo", "high")
    assert ChosenModel(tmp_path / "data", tmp_path).read() == Choice()
    chosen.remember(model=None)
    assert (chosen.read().model, chosen.read().effort) == (None, "high")
    file = project_folder(shop, tmp_path / "data") / "model.json"
    assert file.stat().st_mode & 0o077 == 0
    for broken in (b"{", b"\xff", b'{"repository": "/elsewhere", "model": "demo"}'):
        file.write_bytes(broken)
        assert chosen.read() == Choice()


def test_a_choice_counts_more_than_files_and_less_than_the_environment_and_flags(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('model = "of-the-file"\neffort = "low"\n')
    environment = {"OUTRIDER_CONFIG": str(file), "OUTRIDER_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)}
    choice = Choice(model="demo", effort="high")
    found = load(tmp_path, environment=environment, choice=choice)
    assert (found.settings.model, found.origins["model"]) == ("demo", "/model in the chat")
    assert (found.settings.effort, found.origins["effort"]) == ("high", "/effort in the chat")
    found = load(tmp_path, environment=environment | {"OUTRIDER_MODEL": "of-the-variable"}, choice=choice)
    assert (found.settings.model, found.settings.effort) == ("of-the-variable", "high")
    found = load(tmp_path, environment=environment, flags={"model": "of-the-flag"}, choice=choice)
    assert (found.settings.model, found.origins["model"]) == ("of-the-flag", "--model")
    assert load(tmp_path, environment=environment).settings.model == "of-the-file"


@pytest.mark.parametrize("effort", ["enormous", ""])
def test_an_effort_that_is_not_known_any_more_is_left_out(tmp_path: Path, effort: str) -> None:
    environment = {"OUTRIDER_HOME": str(tmp_path / "data"), "HOME": str(tmp_path)}
    assert load(tmp_path, environment=environment, choice=Choice(effort=effort)).settings.effort is None
