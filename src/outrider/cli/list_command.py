"""A command that lists what was found."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from outrider.errors import ConfigError, OutriderError
from outrider.visible_text import safe_line

Action = Callable[[argparse.Namespace], int]


def run_list_command(name: str, description: str, epilog: str, arguments: Sequence[str], show: Action) -> int:
    """Run the command and return its exit code."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(f"outrider {name}", None, description, epilog, formatter_class=form)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    try:
        return show(parser.parse_args(arguments))
    except (OutriderError, RuntimeError) as error:
        print(safe_line(f"outrider {name}: {error}"), file=sys.stderr)
        return 2 if isinstance(error, ConfigError | RuntimeError) else 1
