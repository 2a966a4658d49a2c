"""Project instructions: which files are found, and which are never sent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider.coding.project_texts import MAX_BYTES, ProjectText
from outrider.coding.system_prompt import as_prompt, project_instructions

posix = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")


def put(path: Path, content: str | bytes = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    put(home / "AGENTS.md", "home")
    put(tmp_path / "AGENTS.md", "outside")
    return home


@pytest.fixture
def repository(home: Path) -> Path:
    (home / "repo/.git").mkdir(parents=True)
    return home / "repo"


def found(folder: Path, home: Path) -> list[str]:
    return [each.text for each in project_instructions(folder, home=home)]


def test_in_a_repository_they_are_read_from_its_root_to_the_folder(repository: Path, home: Path) -> None:
    put(repository / "AGENTS.md", "root")
    put(repository / "a/CLAUDE.md", "a")
    put(repository / "a/b/c/AGENTS.md", "c")
    put(repository / "a/b/c/d/AGENTS.md", "too deep")
    assert project_instructions(repository / "a/b/c", home=home) == [
        ProjectText(repository / "AGENTS.md", "root"),
        ProjectText(repository / "a/CLAUDE.md", "a"),
        ProjectText(repository / "a/b/c/AGENTS.md", "c"),
    ]


def test_a_worktree_has_a_root_too(home: Path) -> None:
    put(home / "tree/.git", "gitdir: elsewhere")
    put(home / "tree/AGENTS.md", "tree")
    put(home / "tree/sub/x")
    assert found(home / "tree/sub", home) == ["tree"]


def test_without_a_repository_they_are_read_from_the_home_on(home: Path) -> None:
    put(home / "work/AGENTS.md", "work")
    put(home / "work/deep/x")
    assert found(home / "work/deep", home) == ["home", "work"]
    assert found(home, home) == ["home"]


def test_outside_of_both_the_folder_counts_alone(tmp_path: Path, home: Path) -> None:
    put(tmp_path / "other/AGENTS.md", "other")
    put(tmp_path / "other/sub/AGENTS.md", "sub")
    assert found(tmp_path / "other/sub", home) == ["sub"]
    assert found(tmp_path / "other/sub", Path("/")) == ["sub"]


def test_agents_comes_before_claude_and_the_same_text_counts_once(repository: Path, home: Path) -> None:
    put(repository / "CLAUDE.md", "for claude")
    put(repository / "AGENTS.md", "for all")
    put(repository / "same/AGENTS.md", "same")
    put(repository / "same/CLAUDE.md", "same\n")
    put(repository / "link/AGENTS.md", "linked")
    (repository / "link/CLAUDE.md").symlink_to("AGENTS.md")
    assert found(repository, home) == ["for all", "for claude"]
    assert found(repository / "same", home) == ["for all", "for claude", "same"]
    assert found(repository / "link", home) == ["for all", "for claude", "linked"]


@posix
@pytest.mark.parametrize(
    "target", ["../.ssh/id_rsa", "../.ssh/key.md", ".env", ".git/notes.md", "/etc/hostname", "gone.md"]
)
def test_a_link_to_something_else_is_not_sent(repository: Path, home: Path, target: str) -> None:
    for name in ("../.ssh/id_rsa", "../.ssh/key.md", ".env", ".git/notes.md"):
        put(repository / name, "secret")
    (repository / "AGENTS.md").symlink_to(target)
    assert found(repository, home) == []


@posix
def test_a_link_within_the_repository_is_read(repository: Path, home: Path) -> None:
    put(repository / "docs/agents.md", "in docs")
    (repository / "AGENTS.md").symlink_to("docs/agents.md")
    (repository / "sub").mkdir()
    (repository / "sub/CLAUDE.md").symlink_to("../docs/agents.md")
    assert found(repository / "sub", home) == ["in docs", "in docs"]


@posix
def test_a_folder_reached_through_a_link_is_where_it_really_is(repository: Path, home: Path, tmp_path: Path) -> None:
    put(repository / "AGENTS.md", "root")
    (tmp_path / "shortcut").symlink_to(repository)
    assert found(tmp_path / "shortcut", home) == ["root"]


@posix
@pytest.mark.timeout(60)
def test_what_is_no_regular_file_is_passed_over(repository: Path, home: Path) -> None:
    os.mkfifo(repository / "AGENTS.md")
    (repository / "CLAUDE.md").mkdir()
    assert found(repository, home) == []
    os.unlink(repository / "AGENTS.md")
    (repository / "AGENTS.md").symlink_to("AGENTS.md")
    assert found(repository, home) == []


@posix
@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can give files away")
def test_the_file_of_a_stranger_is_not_read(repository: Path, home: Path) -> None:
    os.chown(put(repository / "AGENTS.md", "do as I say"), 12345, 12345)
    put(repository / "sub/AGENTS.md", "ours")
    assert found(repository / "sub", home) == ["ours"]
    os.chown(repository / "sub", 12345, 12345)
    assert found(repository / "sub", home) == ["do as I say", "ours"]


@posix
@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_passed_over(repository: Path, home: Path) -> None:
    put(repository / "AGENTS.md", "x").chmod(0)
    assert found(repository, home) == []


def test_a_long_file_is_cut_between_lines(repository: Path, home: Path) -> None:
    put(repository / "AGENTS.md", "äöü line\n" * 20_000)
    [text] = found(repository, home)
    body, _, note = text.rpartition("\n\n")
    assert note == "[The file goes on; only its first 64 KB are read.]"
    assert set(body.split("\n")) == {"äöü line"}
    assert len(body.encode()) <= MAX_BYTES


def test_one_endless_line_is_cut_between_characters(repository: Path, home: Path) -> None:
    put(repository / "AGENTS.md", "a" + "ä" * MAX_BYTES)
    [text] = found(repository, home)
    assert set(text.partition("\n")[0]) == {"a", "ä"}


def test_odd_bytes_become_text_that_can_be_sent(repository: Path, home: Path) -> None:
    put(repository / "AGENTS.md", b"\xef\xbb\xbfcaf\xe9 \xed\xa0\x80")
    [text] = found(repository, home)
    assert text.startswith("caf\N{REPLACEMENT CHARACTER}")
    assert text.encode()


def test_blank_files_and_missing_folders_say_nothing(repository: Path, home: Path) -> None:
    put(repository / "AGENTS.md", " \n\n")
    assert found(repository, home) == []
    assert found(repository / "not/there", home) == []


def test_the_prompt_names_each_file(repository: Path, home: Path) -> None:
    put(repository / "AGENTS.md", "Be brief.")
    put(repository / "sub/CLAUDE.md", "Be kind.")
    text = as_prompt(project_instructions(repository / "sub", home=home))
    first = text.index(f"Instructions from {repository / 'AGENTS.md'}:\n\nBe brief.")
    second = text.index(f"Instructions from {repository / 'sub/CLAUDE.md'}:\n\nBe kind.")
    assert first < second
    assert as_prompt([]) == ""


def test_without_a_home_the_users_is_taken(repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    put(home / "work/AGENTS.md", "work")
    assert [each.text for each in project_instructions(home / "work")] == ["home", "work"]
