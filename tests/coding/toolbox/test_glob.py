"""`Glob`: files by a pattern for their paths."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.coding.toolbox.search.glob import MOST_FILES, glob, searched_folder
from outrider.coding.toolbox.search.search_paths import matcher, split
from outrider.coding.toolbox.tool_errors import ToolCallError
from outrider.coding.toolbox.workspace import Workspace
from tests.coding.toolbox.calling import call, put


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("setup.py", "README.md", "src/a.py", "src/web/b.ts", "src/web/c.tsx", "docs/d.md", ".github/e.yml"):
        put(folder / name)
    return folder


async def names(folder: Path, pattern: str, **arguments: str) -> set[str]:
    result = await call(glob(Workspace(folder)), pattern=pattern, **arguments)
    assert not result.is_error
    return set(result.text.split("\n"))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", {"setup.py"}),
        ("**/*.py", {"setup.py", "src/a.py"}),
        ("src/**/*.ts", {"src/web/b.ts"}),
        ("src/**/*.{ts,tsx}", {"src/web/b.ts", "src/web/c.tsx"}),
        ("{src,docs}/*", {"src/a.py", "docs/d.md"}),
        ("./src/a.py", {"src/a.py"}),
        ("src/web/", {"src/web/b.ts", "src/web/c.tsx"}),
        ("**/[bc].*", {"src/web/b.ts", "src/web/c.tsx"}),
        ("**/?.md", {"docs/d.md"}),
        ("**/*.yml", {".github/e.yml"}),
        ("docs/../src/*.py", {"src/a.py"}),
    ],
)
async def test_patterns_mean_what_they_mean_in_a_shell(folder: Path, pattern: str, found: set[str]) -> None:
    assert await names(folder, pattern) == found


async def test_a_pattern_is_relative_to_the_path(folder: Path) -> None:
    assert await names(folder, "*.ts", path="src/web") == {"src/web/b.ts"}
    assert await names(folder, "web/*.ts", path=str(folder / "src")) == {"src/web/b.ts"}


async def test_an_absolute_pattern_may_lead_elsewhere(folder: Path, tmp_path: Path) -> None:
    put(tmp_path / "other/x.py")
    assert await names(folder, f"{tmp_path}/other/**/*.py") == {f"{tmp_path}/other/x.py"}
    assert await names(folder, f"{folder}/*.py", path="docs") == {"setup.py"}


async def test_the_newest_come_first(folder: Path) -> None:
    for age, name in enumerate(("src/a.py", "docs/d.md", "README.md")):
        os.utime(folder / name, (1_000_000 - age, 1_000_000 - age))
    result = await call(glob(Workspace(folder)), pattern="**/*")
    assert result.text.split("\n")[-3:] == ["src/a.py", "docs/d.md", "README.md"]


async def test_no_match_is_a_sentence(folder: Path) -> None:
    result = await call(glob(Workspace(folder)), pattern="**/*.rs")
    assert result.text == "No file matches **/*.rs."
    assert not result.is_error


async def test_a_pattern_that_would_match_further_down_is_named(folder: Path) -> None:
    result = await call(glob(Workspace(folder)), pattern="src/*.ts")
    assert result.text == "No file matches src/*.ts.\nIn the folders below, 1 file would: src/**/*.ts finds them."


async def test_only_the_newest_thousand_are_shown(folder: Path) -> None:
    for number in range(MOST_FILES + 50):
        put(folder / f"many/{number}.txt")
    result = await call(glob(Workspace(folder)), pattern="many/*.txt")
    *shown, note = result.text.split("\n")
    assert len(shown) == MOST_FILES
    assert note.startswith("[50 more files not shown")


async def test_what_git_ignores_is_left_out(folder: Path) -> None:
    put(folder / ".git/config")
    put(folder / ".gitignore", "build/\n*.log\n")
    put(folder / "build/x.py")
    put(folder / "y.log")
    assert await names(folder, "**") == {
        *("setup.py", "README.md", "src/a.py", "src/web/b.ts", "src/web/c.tsx", "docs/d.md", ".github/e.yml"),
        ".gitignore",
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": "*", "path": "nowhere"}, "nowhere does not exist. Paths are relative to"),
        ({"pattern": "*", "path": "setup.py"}, "is a file, not a folder"),
        ({"pattern": "nowhere/*"}, "nowhere does not exist"),
        ({"pattern": ""}, "The pattern is empty"),
        ({"pattern": "a\0b/*"}, "is not a path that can be used"),
        ({"pattern": "*", "path": "~nobody-of-this-name/x"}, "that can be used here"),
        ({"pattern": "\ud800/*"}, "not a path that can be used"),
        ({"pattern": "x" * 5000 + "*"}, "The pattern has 5,001 characters; the limit is 2,000."),
        ({"pattern": "*", "path": "x" * 5000}, "too long for the file system"),
        ({"pattern": "{a,b}" * 12}, "The pattern cannot be used"),
        ({"pattern": "[z-a]*"}, "The pattern cannot be used: bad character range z-a"),
    ],
)
async def test_what_cannot_be_done_is_said(folder: Path, arguments: dict[str, str], said: str) -> None:
    result = await call(glob(Workspace(folder)), **arguments)
    assert result.is_error
    assert said in result.text


async def test_null_for_the_path_is_the_project(folder: Path) -> None:
    result = await call(glob(Workspace(folder)), pattern="*.py", path=None)
    assert result.text == "setup.py"


def test_whoever_judges_a_call_can_ask_where_it_looks() -> None:
    assert searched_folder("**/*.py") == "."
    assert searched_folder("../*.py", "src") == "src/.."
    assert searched_folder("/etc/*", "src") == "/etc"
    assert searched_folder("/*") == "/"
    assert searched_folder("~/.ssh/*", "src") == "~/.ssh"


@given(st.text("ab/*?[]{},.!-\\", max_size=25), st.lists(st.text("ab.", min_size=1, max_size=3), max_size=4))
def test_any_pattern_is_used_or_refused_in_a_sentence(pattern: str, parts: list[str]) -> None:
    try:
        matches = matcher(pattern)
    except ToolCallError:
        return
    assert matches("/".join(parts)) in (True, False)


@given(st.text("ab/*{", max_size=25))
def test_a_split_pattern_is_the_same_pattern(pattern: str) -> None:
    pattern = re.sub("/+", "/", pattern)
    folder, rest = split(pattern)
    joined = f"/{rest}" if folder == "/" else f"{folder}/{rest}" if folder else rest
    assert joined in (pattern, f"{pattern}**")
    assert not set(folder) & set("*?[{\\")
