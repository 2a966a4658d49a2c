"""`outrider commands`: list the commands that a prompt can call, where they come from, and what was refused."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from outrider.cli.list_command import ListRow, list_parser, print_found, run_list_command
from outrider.coding.extensions import find_extensions

DESCRIPTION = """\
Commands are Markdown files whose text is sent when you write /NAME in the chat, in an editor, or as the prompt of -p.
They are found in commands/ of .outrider, .agents and .claude, in the project and in your home folder, and beside your
settings. $ARGUMENTS and $1 stand for what follows the name, @file attaches a file, and !`command` runs a shell command,
with the permissions and in the sandbox that the model has.
"""
EPILOG = """\
examples:
  outrider -p "/init"
  outrider -p "/review src"

exit codes: 0 done, 2 wrong usage, or a command was refused
"""


make_parser = partial(list_parser, "commands", DESCRIPTION, EPILOG)


def commands(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    return run_list_command(make_parser(), arguments, _list)


def _list(options: argparse.Namespace) -> int:
    found = find_extensions(Path.cwd()).commands
    rows = []
    for each in found.commands:
        runs = [f"runs `{line}`" for line in each.shell_commands]
        described = f"{each.description}{f' — {each.hint}' if each.hint else ''}"
        rows.append(ListRow(f"/{each.name}", described, each.origin, str(each.path or ""), (*runs, *each.remarks)))
    return print_found("commands", rows, found.refused, empty="No commands.", as_json=options.json)
