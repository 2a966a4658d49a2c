"""The reference of the command line: what `--help` prints, of every command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

from outrider.cli import COMMANDS

HEAD = """# The command line

The output of `--help` of every command, as it is printed in 100 columns.

"""


def command_line_page() -> str:
    """Return a page with the help of each command and of each command below it."""
    return HEAD + "\n".join(f"## {' '.join(('outrider', *words))}\n\n```text\n{text}```\n" for words, text in _helps())


def _helps() -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the words of each command with its help."""
    yield (), _help()
    yield ("-p",), _help("-p")
    for command in COMMANDS:
        text = _help(command)
        yield (command,), text
        for below in _commands_below(text):
            yield (command, below), _help(command, below)


def _commands_below(text: str) -> list[str]:
    """Return the commands that a help lists below `COMMAND`, as argparse prints them."""
    listed = re.search(r"^  COMMAND\n((?:    .*\n)+)", text, re.M)
    return re.findall(r"^    (\w[\w-]*)", listed[1], re.M) if listed else []


def _help(*words: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "outrider", *words, "--help"],
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ended.stdout
