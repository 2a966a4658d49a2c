"""What the commands have in common: how they parse their options, ask, and report an error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

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


def confirm(question: str, otherwise: str) -> bool:
    """Return whether the user answers yes. Without a terminal, raise OutriderError with the advice in `otherwise`.

    What was typed before the question, and several lines at once, are no answer.
    """
    import termios

    from outrider.errors import OutriderError

    if sys.stdin is None or not sys.stdin.isatty():
        raise OutriderError(f"cannot ask for confirmation without a terminal; {otherwise}")
    with suppress(OSError, ValueError, termios.error):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    print(question, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if _has_more():
        print("Several lines were pasted; that is no answer.", file=sys.stderr)
        return False
    return line.strip().lower() in ("y", "yes")


def _has_more() -> bool:
    import select

    with suppress(OSError, ValueError):
        return bool(select.select([sys.stdin], [], [], 0)[0])
    return False


def stdin_bytes() -> BinaryIO:
    """Return standard input as a binary stream. Raises OutriderError if it is closed."""
    if sys.stdin is None:
        from outrider.errors import OutriderError

        raise OutriderError("standard input is closed; pipe in the data, or give a file")
    return sys.stdin.buffer
