"""`outrider web`: serve the page on this machine and print the link to it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import suppress

from outrider.environment import LOG_HELP

PORT = 8321
DESCRIPTION = """\
Serve a page on this machine: look at sessions, search them, watch them work, and answer their questions from here or
from a phone. The first line that it prints is the link to the page. The link lets one browser in, once; the page makes
links for other devices, and so does Enter in this terminal.
"""
EXAMPLES = """\
examples:
  outrider web
  outrider web --port 0           any free port
  outrider web --lan              also for a phone in the same network; prints a QR code

exit codes: 0 stopped with Ctrl-C, 1 the port is taken, 2 wrong usage
"""


def web(arguments: list[str]) -> int:
    """Serve the page until Ctrl-C."""
    options = make_parser().parse_args(arguments)
    from outrider.web.serving import serve  # imports the HTTP server

    try:
        asyncio.run(serve(options.port, lan=options.lan))
    except OSError as error:
        print(
            f"outrider web: port {options.port}: {error.strerror or error}; choose another with --port", file=sys.stderr
        )
        return 1
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="outrider web",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=_port, default=PORT, metavar="N", help=f"the port ({PORT}); 0 for any free one")
    parser.add_argument("--log", metavar="PLACE", help=LOG_HELP)
    parser.add_argument(
        "--lan",
        action="store_true",
        help="serve the local network as well; the connection is not encrypted, so only where you trust the network",
    )
    return parser


def _port(text: str) -> int:
    with suppress(ValueError):
        if 0 <= (port := int(text)) < 65536:
            return port
    raise argparse.ArgumentTypeError(f"must be a number from 0 to 65535, not {text!r}")
