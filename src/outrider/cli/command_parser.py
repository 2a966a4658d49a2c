"""What the commands have in common: how they parse their options, and how they report an error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

JSON_HELP = "print one JSON object"
YES_HELP = "do not ask for confirmation"


class UsageError(Exception):
    """The command line is wrong; the message says why."""


def command_parser(name: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    """Return the parser of `outrider NAME`. Its texts are printed as they are."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(f"outrider {name}", None, description, epilog, formatter_class=form)


def add_tools_option(parser: argparse.ArgumentParser, metavar: str, help: str) -> None:
    """Add `--tools`, which may be repeated."""
    parser.add_argument("--tools", action="append", default=[], metavar=metavar, help=help)


def reported(name: str, work: Callable[[], int], wrong: tuple[type[Exception], ...] = ()) -> int:
    """Return the exit code of a command; 2 for a wrong setting or file, and 1 for another error, which is printed.

    `wrong` are the errors of wrong input, if they are others; their texts may have several lines.
    """
    from outrider.errors import ConfigError, OutriderError
    from outrider.text.visible import safe_line, safe_lines

    expected = (OutriderError, UsageError) if wrong else (OutriderError, UsageError, RuntimeError)
    try:
        return work()
    except expected as error:
        shown = safe_lines if wrong else safe_line
        print(shown(f"outrider {name}: {error}"), file=sys.stderr, flush=True)
        return 2 if isinstance(error, wrong or (ConfigError, RuntimeError)) else 1
