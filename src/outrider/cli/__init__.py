"""The terminal program. Each command is a file in this folder and is imported when it is used."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from outrider.version import __version__

USAGE = """\
Outrider: conversations between language models and tools.

usage: outrider COMMAND

commands:
  demo         watch the main job on a small sample folder, without a key

options:
  -h, --help   show this help
  --version    show the version

From Python: from outrider import think, run, tool
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0 when it is done, 1 on an error, 2 on wrong usage, 130 when interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    if arguments == ["--version"]:
        print(f"outrider {__version__}")
        return 0
    if arguments == ["demo"]:
        from outrider.cli.demo import demo  # brings the event loop, which --version should not wait for

        try:
            return demo()
        except KeyboardInterrupt:
            print("\nInterrupted.", file=sys.stderr)
            return 130
    print(f"outrider: I do not know {' '.join(arguments)!r}; see outrider --help", file=sys.stderr)
    return 2
