"""docs/tutorial.md, followed to the letter: each file is saved, each command is run, and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.cli.program import clean_environment

PAGE = (Path(__file__).parent.parent / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
NEEDS_MORE = ("PATH", "ANTHROPIC_API_KEY")
"""Commands that need a package to install, or a real model."""


def run_lines(lines: str, folder: Path) -> str:
    """Run the lines in a shell whose `python` and `outrider` are those of the tests."""
    environment = clean_environment() | {"OUTRIDER_HOME": str(folder / ".data"), "LANG": "C.UTF-8"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-e"], input=lines, cwd=folder, env=environment, capture_output=True, text=True, timeout=100
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    printed, seen = "", 0
    for block in BLOCK.finditer(PAGE):
        kind, text = block.groups()
        match kind:
            case "python":
                saved = re.search(r"Save this as `([\w.]+)`:\s+$", PAGE[: block.start()])
                assert saved
                (tmp_path / saved[1]).write_text(text)
            case "sh" if not any(word in text for word in NEEDS_MORE):
                printed = run_lines(text, tmp_path)
            case "text":
                seen += 1
                assert printed == text
    assert seen == 6
