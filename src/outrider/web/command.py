"""`outrider serve`: serve the page and the API of sessions on this machine, and print the link to the page."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

from outrider.environment import LOG_HELP

PORT = 8321
DESCRIPTION = """\
Serve a page and an HTTP API on this machine. On the page: look at sessions, search them, watch them work, and answer
their questions from here or from a phone. The first line that it prints is the link to the page. The link lets one
browser in, once; the page makes links for other devices, and so does Enter in this terminal. Programs use the API with
a token; /openapi.json describes it.
"""
EXAMPLES = """\
examples:
  outrider serve
  outrider serve --port 0                    any free port
  outrider serve --lan                       also for a phone in the same network; prints a QR code
  outrider serve --token-file tokens.txt     also for programs; each line has a token, or an owner and a token

exit codes: 0 stopped with Ctrl-C, SIGTERM or SIGHUP, 1 the port is taken, 2 wrong usage
"""


def serve(arguments: list[str]) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    from outrider.web.access import read_tokens
    from outrider.web.owners import ServerLimits
    from outrider.web.serving import serve as serve_here  # imports the HTTP server

    try:
        tokens = read_tokens(_private_text(options.token_file)) if options.token_file else []
    except (OSError, ValueError) as error:
        parser.error(f"--token-file {options.token_file}: {getattr(error, 'strerror', None) or error}")
    limits = ServerLimits(options.max_sessions, options.max_prompts)
    try:
        asyncio.run(serve_here(options.port, lan=options.lan, tokens=tokens, limits=limits))
    except OSError as error:
        reason = error.strerror or error
        print(f"outrider serve: port {options.port}: {reason}; choose another with --port", file=sys.stderr)
        return 1
    return 0


def _private_text(path: Path) -> str:
    """Return the text of a file. Raises ValueError if others can read it."""
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise ValueError("others can read the file; run chmod 600 on it")
    return path.read_text()


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="outrider serve",
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
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="tokens of programs, one a line; only you may read the file"
    )
    for name, default, about in (
        ("--max-sessions", 50, "sessions of one owner that work at once"),
        ("--max-prompts", 120, "messages of one owner within a minute"),
    ):
        parser.add_argument(name, type=_count, default=default, metavar="N", help=f"{about} ({default})")
    return parser


def _port(text: str) -> int:
    with suppress(ValueError):
        if 0 <= (port := int(text)) < 65536:
            return port
    raise argparse.ArgumentTypeError(f"must be a number from 0 to 65535, not {text!r}")


def _count(text: str) -> int:
    with suppress(ValueError):
        if (count := int(text)) > 0:
            return count
    raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
