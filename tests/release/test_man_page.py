"""The man page is that of the parsers, and `man` can show it."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from outrider.cli.command_tree import parsers, shown_actions, subcommands

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "outrider.1"


def test_it_is_made_from_the_parsers() -> None:
    assert runpy.run_path(str(ROOT / "scripts" / "man-page"))["page"]() == PAGE.read_text(), "run scripts/man-page"
    text = PAGE.read_text()
    for name, parser in parsers():
        below = [child for _, child in subcommands(parser).values()]
        options = {each for one in (parser, *below) for action in shown_actions(one) for each in action.option_strings}
        for option in options - {"-h", "--help"}:
            escaped = option.replace("-", r"\-")
            assert f"\\fB{escaped}\\fR" in text, f"{option} of {name}"
    assert text.isascii()


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_groff_shows_it_without_a_complaint() -> None:
    ended = subprocess.run(["groff", "-man", "-Tutf8", "-ww", PAGE], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    shown = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", ended.stdout)
    for part in ("outrider config", "--permissions MODE", "KEY VALUE", "OUTRIDER_HOME"):
        assert part in shown


@pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not installed")
def test_mandoc_finds_no_mistake() -> None:
    ended = subprocess.run(["mandoc", "-Tlint", "-Wwarning", PAGE], capture_output=True, text=True, timeout=60)
    assert [line for line in ended.stdout.splitlines() if "missing date" not in line] == []
