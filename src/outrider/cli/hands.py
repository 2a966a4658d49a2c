"""`outrider hands`: the tools of a session that runs elsewhere, over the standard streams."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from outrider.cli.command_parser import command_parser

DESCRIPTION = """\
Serve the files and commands of a folder to a session elsewhere, over standard input and output, until they end. The
session starts this itself: outrider --in ssh://HOST/FOLDER, --in container:NAME/FOLDER, or --in 'COMMAND'. Keys, the
conversation and the log stay with the session.
"""
EXAMPLES = """\
examples:
  ssh HOST outrider hands --folder /srv/app
  docker exec -i NAME outrider hands --folder /app
  outrider hands --bundle hands.pyz --for 3.12-linux-x86_64

exit codes: 0 the session has ended, 1 error, 2 wrong usage
"""


def hands(arguments: list[str]) -> int:
    options = make_parser().parse_args(arguments)
    if options.bundle:
        return _write_bundle(options.bundle, options.target)
    folder = os.path.expanduser(options.folder)
    if not os.path.isdir(folder):
        print(f"outrider hands: --folder: no such folder: {folder!r}", file=sys.stderr)
        return 2
    from outrider.coding.hands.serving import serve_streams  # imported late, so that --help stays fast

    return serve_streams(Path(folder))


def _write_bundle(name: str, target: str | None) -> int:
    from outrider.coding.hands.bundle import Target, make_bundle
    from outrider.errors import HandsError
    from outrider.text import human_size
    from outrider.text.visible import safe_line

    try:
        wanted = Target.parse(target) if target else Target.here()
        content = make_bundle(wanted)
        Path(name).write_bytes(content)
    except (HandsError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        print(safe_line(f"outrider hands: {reason}"), file=sys.stderr)
        return 1
    print(safe_line(f"{name}: {human_size(len(content))}, for Python {wanted}"))
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = command_parser("hands", DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--folder", default=".", metavar="PATH", help="the folder to work in; by default the current one"
    )
    parser.add_argument(
        "--bundle",
        metavar="FILE",
        help="write all that hands need, but Python, to a file, and exit; there: python3 FILE --folder PATH",
    )
    parser.add_argument(
        "--for",
        dest="target",
        metavar="TARGET",
        help="the Python and the platform of a bundle, as in 3.12-linux-x86_64 or 3.11-linux-aarch64-musl "
        "(default: those of this installation)",
    )
    return parser
