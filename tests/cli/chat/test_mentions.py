"""`@path` in a message."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.cli.prompt_input import Mentions
from outrider.coding.named_files import FilesHere


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.txt", "b.md", "my notes.txt", "Makefile", "ä.txt", "x@2x.png", "odd).txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "c.py").write_text("c")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("read @a.txt", ["a.txt"]),
        ("@a.txt", ["a.txt"]),
        ("@a.txt and @b.md", ["a.txt", "b.md"]),
        ("@a.txt @a.txt @./a.txt", ["a.txt"]),
        ("what is in @a.txt?", ["a.txt"]),
        ("see @a.txt, @b.md.", ["a.txt", "b.md"]),
        ("line one\n@src/c.py\nline three", ["src/c.py"]),
        ('look at @"my notes.txt" now', ["my notes.txt"]),
        ("@ä.txt", ["ä.txt"]),
        ("@x@2x.png", ["x@2x.png"]),
        ("@odd).txt", ["odd).txt"]),
        ("mail me@a.txt", []),
        ("@nothing.txt", []),
        ("@", []),
        ("@@a.txt", []),
        ('@""', []),
        ("@src", []),
        ("@src/", []),
        ("@" + "x" * 5000, []),
        ("@~nobody-has-this-name/x", []),
        ("@\0", []),
        ("(@a.txt)", []),
    ],
)
def test_files_that_are_named_are_found(text: str, names: list[str], folder: Path) -> None:
    mentions = Mentions(text, FilesHere(folder))
    assert mentions.files == names
    assert [each.source for each in mentions.attached()] == [folder / name for name in names]


def test_an_absolute_path_and_one_from_home_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    for name in (f"{folder}/a.txt", "~/a.txt"):
        assert [each.source for each in Mentions(f"@{name}", FilesHere(Path("/"))).attached()] == [folder / "a.txt"]


def test_what_is_no_file_is_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    os.symlink("loop", folder / "loop")
    assert Mentions("@pipe @loop @/dev/zero", FilesHere(folder)).files == []


@given(st.text())
def test_any_text_can_be_looked_through(text: str) -> None:
    Mentions(text, FilesHere(Path("/nowhere"))).missing()
