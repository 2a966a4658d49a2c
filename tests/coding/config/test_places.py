"""What the user has set in the environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from outrider.environment import data_folder, default_model
from outrider.errors import MissingKeyError
from outrider.providers.resolution import resolve


def test_the_data_folder_is_the_one_that_the_user_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "my data"))
    assert data_folder() == tmp_path / "my data"


@pytest.mark.parametrize("unset", [None, ""])
def test_without_a_name_the_data_folder_is_the_platforms(monkeypatch: pytest.MonkeyPatch, unset: str | None) -> None:
    monkeypatch.delenv("OUTRIDER_HOME", raising=False)
    if unset is not None:
        monkeypatch.setenv("OUTRIDER_HOME", unset)
    assert data_folder() == platformdirs.user_data_path("outrider")
    assert data_folder().is_absolute()


@pytest.mark.skipif(sys.platform != "linux", reason="XDG_DATA_HOME is Linux's")
def test_on_linux_the_data_folder_follows_xdg_data_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OUTRIDER_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "outrider"


def test_asking_for_the_data_folder_does_not_make_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "data"))
    data_folder()
    assert list(tmp_path.iterdir()) == []


def test_the_environment_counts_at_the_time_of_asking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("one", "two"):
        monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / name))
        monkeypatch.setenv("OUTRIDER_MODEL", f"demo/{name}")
        assert data_folder() == tmp_path / name
        assert default_model() == f"demo/{name}"


def test_a_tilde_stands_for_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", "~/outrider")
    assert data_folder() == Path.home() / "outrider"


@pytest.mark.parametrize("unset", [None, ""])
def test_the_default_model_needs_a_key(monkeypatch: pytest.MonkeyPatch, unset: str | None) -> None:
    monkeypatch.delenv("OUTRIDER_MODEL", raising=False)
    if unset is not None:
        monkeypatch.setenv("OUTRIDER_MODEL", unset)
    assert default_model() == "balanced"
    with pytest.raises(MissingKeyError):
        resolve(default_model())


def test_a_named_data_folder_costs_no_import_of_platformdirs() -> None:
    code = (
        "import os, sys; os.environ['OUTRIDER_HOME'] = 'x'\n"
        "from outrider.environment import data_folder; data_folder()\n"
        "print('platformdirs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "False"
