"""What is ignored is what git ignores."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from outrider.coding.snapshots.ignoring import Ignoring

PATTERNS = """\
# a comment
*.log
!keep.log
/anchored
build/
docs/**/draft
**/cache
deep/**
a/**/z
[ab]?.txt
[!x]9
\\#hash
\\!bang
trailing\\ \x20
sub/*.tmp
*~
we[]ird
m/**/**/n
[[:digit:]]q
"""
PATHS = (
    *("x.log", "keep.log", "sub/x.log", "sub/keep.log", "anchored", "sub/anchored", "build/out", "sub/build/out"),
    *("docs/draft", "docs/a/b/draft", "docs/other", "cache/a", "a/cache/b", "deep/x/y", "a/z", "a/b/c/z", "a/b"),
    *("ab.txt", "b1.txt", "c1.txt", "x9", "y9", "#hash", "!bang", "trailing ", "sub/a.tmp", "sub/b/a.tmp", "old~"),
    *("build.txt", "nested/own.me", "nested/x.log", "nested/deeper/own.me", "excluded.me", "ü.log", "sub/we[]ird"),
    *("m/n", "m/o/n", "m/o/p/n", "3q", "sub/7q", "dq"),
)


@pytest.mark.skipif(not shutil.which("git"), reason="there is no git")
@pytest.mark.parametrize("where", ["", "sub", "nested"])
def test_the_same_files_are_ignored_as_by_git(tmp_path: Path, where: str) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(PATTERNS)
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "nested/.gitignore").write_text("!x.log\nown.me\n")
    (tmp_path / ".git/info/exclude").write_text("excluded.me\n")
    told = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--stdin", "-z"],
        input="\0".join(PATHS),
        capture_output=True,
        text=True,
    )
    expected = {path for path in told.stdout.split("\0") if path.startswith(where and f"{where}/")} - {""}
    rules = Ignoring(tmp_path / where)
    for place in sorted({path.parent for path in (tmp_path / where).rglob("*")} | {tmp_path / where}):
        if ".git" not in place.parts:
            name = place.relative_to(tmp_path / where).as_posix()
            rules.read("" if name == "." else name)
    prefix = where and f"{where}/"
    inside = [path.removeprefix(prefix) for path in PATHS if path.startswith(prefix)]
    assert {f"{prefix}{path}" for path in inside if _is_inside_ignored(rules, path)} == expected


def _is_inside_ignored(rules: Ignoring, path: str) -> bool:
    parts = path.split("/")
    above = ("/".join(parts[:count]) for count in range(1, len(parts)))
    return any(rules.ignores(each, True) for each in above) or rules.ignores(path, False)
