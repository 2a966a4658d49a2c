"""The search of secrets: what is found, what is found again, and its bounds."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from outrider.coding.protected_paths import SECRETS
from outrider.coding.sandbox import secret_search
from outrider.coding.sandbox.bubblewrap import Placeholders
from outrider.coding.sandbox.secret_search import SecretSearch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("work/src", "home/.ssh", "home/.config/gh"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "work"


def found(search: SecretSearch, folder: Path, home: str = "") -> set[str]:
    paths = search.find([str(folder)], (*SECRETS, "!/etc/*"), home).paths
    return {os.path.relpath(path, folder) for path in paths if path.startswith(str(folder.parent))}


def make(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")


def test_secrets_are_found_at_any_depth_and_examples_are_none(folder: Path) -> None:
    make(folder / ".env", folder / "src" / "key.pem", folder / "src" / "Main.PEM", folder / "a" / "b" / ".env.local")
    make(folder / ".env.example", folder / "src" / "main.py", folder / "node_modules" / ".env")
    assert found(SecretSearch(), folder) == {".env", "src/key.pem", "src/Main.PEM", "a/b/.env.local"}


def test_a_folder_of_secrets_is_one(folder: Path) -> None:
    make(folder / ".ssh" / "id_rsa", folder / ".ssh" / "config")
    assert found(SecretSearch(), folder) == {".ssh"}


def test_git_is_no_secret_of_a_command(folder: Path) -> None:
    make(folder / ".git" / "config")
    assert found(SecretSearch(), folder, str(folder)) == set()


def test_in_the_home_folder_each_pattern_is_looked_for_in_its_place(folder: Path) -> None:
    home = folder.parent / "home"
    make(home / ".ssh" / "id_rsa", home / ".netrc", home / ".config" / "gh" / "hosts.yml", home / "server.pem")
    names = {"../home/.ssh", "../home/.netrc", "../home/.config/gh/hosts.yml", "../home/server.pem"}
    assert found(SecretSearch(), folder, str(home)) == names


def test_a_placeholder_is_no_secret(folder: Path) -> None:
    placeholders = Placeholders()
    placeholders.hold([str(folder / ".envrc")], str(folder.parent))
    assert (folder / ".envrc").is_dir()
    assert found(SecretSearch(), folder) == set()


def test_a_link_is_followed_to_the_secret(folder: Path) -> None:
    make(folder.parent / "elsewhere")
    (folder / ".env").symlink_to(folder.parent / "elsewhere")
    (folder / ".env.local").symlink_to("missing")
    assert found(SecretSearch(), folder) == {"../elsewhere"}


def test_what_comes_and_goes_is_noticed(folder: Path) -> None:
    search = SecretSearch()
    assert found(search, folder) == set()
    make(folder / "src" / ".env")
    assert found(search, folder) == {"src/.env"}
    (folder / "src" / ".env").unlink()
    assert found(search, folder) == set()


def test_an_unchanged_folder_is_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(folder / "src" / ".env")
    search = SecretSearch()
    later = time.time_ns() + 10_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later)
    assert found(search, folder) == {"src/.env"}
    with monkeypatch.context() as patch:  # the end of the test deletes folders, with the same function
        patch.setattr(os, "scandir", lambda path: pytest.fail(f"{path} is read again"))
        assert found(search, folder) == {"src/.env"}


def test_a_command_cannot_hide_a_change_of_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search, before = SecretSearch(), folder.stat()
    later = time.time_ns() + 10_000_000_000
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: later)
        assert found(search, folder) == set()
    clock = folder.parent / "clock"
    while clock.touch() or clock.stat().st_ctime_ns <= before.st_ctime_ns:
        pass  # the clock of files goes on with the ticks of the kernel
    make(folder / ".env")
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found(search, folder) == {".env"}


def test_a_secret_that_appears_in_the_home_folder_is_noticed(folder: Path) -> None:
    search, home = SecretSearch(), folder.parent / "home"
    make(home / ".config" / "gh" / "config.yml")
    before = found(search, folder, str(home))
    make(home / ".config" / "gh" / "hosts.yml", home / ".netrc")
    assert found(search, folder, str(home)) == before | {"../home/.netrc", "../home/.config/gh/hosts.yml"}


def test_a_secret_that_was_found_is_followed_out_of_the_search(folder: Path) -> None:
    search = SecretSearch()
    make(folder / "src" / ".aws" / "credentials")
    assert found(search, folder) == {"src/.aws/credentials"}
    (folder / "node_modules").mkdir()
    (folder / "src" / ".aws").rename(folder / "node_modules" / "aws")
    assert found(search, folder) == {"node_modules/aws/credentials"}
    assert found(search, folder) == {"node_modules/aws/credentials"}


def test_the_search_is_bounded_and_keeps_what_it_knows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = SecretSearch()
    make(folder / "z" / "deep" / ".env")
    assert found(search, folder) == {"z/deep/.env"}
    monkeypatch.setattr(secret_search, "FOLDERS", 3)
    make(folder / "a" / "x", folder / "b" / "x", folder / "c" / "x", folder / "c" / "d" / ".env")
    assert found(search, folder) == {"z/deep/.env"}
    assert found(SecretSearch(), folder) == set()


def test_a_link_that_changes_during_the_search_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(folder / ".env")

    def changing(path: str) -> str:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os.path, "realpath", changing)
    assert found(SecretSearch(), folder) == {".env"}
