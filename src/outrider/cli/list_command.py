"""Commands that list what was found in the files of users and projects: names, where they are from, and notes."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from outrider.cli.command_parser import JSON_HELP, command_parser, reported
from outrider.cli.styles import fit
from outrider.text.visible import safe_line

_LEAST_WIDTH = 20


class ListRow(msgspec.Struct, frozen=True):
    """One thing that was found."""

    name: str
    description: str
    origin: str
    path: str = ""
    remarks: tuple[str, ...] = ()


def print_found(kind: str, rows: Sequence[ListRow], notes: Sequence[str], *, empty: str, as_json: bool) -> int:
    """Print rows and notes, and return the exit code: 2 if something was refused."""
    if as_json:
        data: dict[str, Any] = {kind: msgspec.to_builtins(list(rows)), "notes": list(notes)}
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return 2 if notes else 0
    width = min(max((len(row.name) for row in rows), default=0), 40)
    columns = max(shutil.get_terminal_size((100, 24)).columns, 60) if sys.stdout.isatty() else 200
    for row in rows:
        origin = f"({row.origin})"
        room = max(columns - width - len(origin) - 4, _LEAST_WIDTH)
        name, described = safe_line(row.name), fit(safe_line(row.description), room)
        print(f"{name:{width}}  {described}  {safe_line(origin)}")
        for remark in row.remarks:
            print(f"{'':{width}}  note: {safe_line(remark)}")
    if not rows:
        print(empty)
    for note in notes:
        print(safe_line(f"outrider {kind}: {note}"), file=sys.stderr)
    return 2 if notes else 0


Action = Callable[[argparse.Namespace], int]


def list_parser(name: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """Return the parser of a command whose one option is `--json`."""
    parser = command_parser(name, description, epilog)
    parser.add_argument("--json", action="store_true", help=JSON_HELP)
    return parser


def run_list_command(parser: argparse.ArgumentParser, arguments: Sequence[str], show: Action) -> int:
    """Run a command of `list_parser`, and return its exit code."""
    options = parser.parse_args(arguments)
    return reported(parser.prog.rpartition(" ")[2], lambda: show(options))
