"""A command that lists what was found, and whose `trust` approves what waits for the user's consent."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from outrider.errors import ConfigError, OutriderError
from outrider.visible_text import safe_line

Action = Callable[[argparse.Namespace], int]


def run_trust_command(
    name: str, description: str, epilog: str, arguments: Sequence[str], *, show: Action, trust: Action, trust_help: str
) -> int:
    """Run the command and return its exit code."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(f"outrider {name}", None, description, epilog, formatter_class=form)
    parser.set_defaults(action=show)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    approving = commands.add_parser("trust", help=trust_help)
    approving.add_argument(
        "--yes", action="store_true", help="approve without a prompt, for example without a terminal"
    )
    approving.set_defaults(action=trust)
    options = parser.parse_args(arguments)
    action: Action = options.action
    try:
        return action(options)
    except (OutriderError, RuntimeError) as error:
        print(safe_line(f"outrider {name}: {error}"), file=sys.stderr)
        return 2 if isinstance(error, ConfigError | RuntimeError) else 1
