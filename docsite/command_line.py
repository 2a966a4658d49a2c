"""The reference of the command line: what `--help` prints, of every command."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO

from outrider.cli import COMMANDS, main

HEAD = """# The command line

The output of `--help` of every command, as it is printed in 100 columns.

"""


def command_line_page() -> str:
    """Return a page with the help of each command and of each command below it."""
    with _columns(100):
        helps = list(_helps())
    return HEAD + "\n".join(f"## {' '.join(('outrider', *words))}\n\n```text\n{text}```\n" for words, text in helps)


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
    """Return what a command prints with `--help`."""
    printed = StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        main([*words, "--help"])
    return printed.getvalue()


@contextmanager
def _columns(count: int) -> Iterator[None]:
    """Let argparse print lines of this length."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(count)
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        os.environ |= {} if before is None else {"COLUMNS": before}
