"""The terminal program. Each command is a file in this folder and is imported when it is used."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from io import TextIOWrapper

from outrider.version import __version__

USAGE = """\
Outrider: conversations between language models and tools.

usage: outrider [PROMPT] [options]       talk, in this folder
       outrider -p "PROMPT" [options]    answer once, for scripts
       outrider COMMAND [--help]

commands:
  acp          work for an editor (Zed, JetBrains, Neovim, Emacs), by the Agent Client Protocol
  demo         watch five short stories, without a key
  doctor       see what is there, what is missing, and how to set it
  config       see what is set, and where it was set
  sessions     see what is stored; show, export, import, fork, rename, delete
  models       see which models can be used, and what each can do
  wire         see the exact request that a conversation becomes, for any provider

options:
  -p, --print        print the answer and end; outrider -p --help has all options
  -c, --continue     go on with the last session, where it stopped
  -r, --resume ID    go on with this one
  -m, --model MODEL  who answers
  --permissions MODE what is allowed without asking: ask, edits, all, plan
  --attach FILE, --tools TOOLS, --cwd DIR, --max-turns N, --max-cost DOLLARS
  -h, --help         show this help
  --version          show the version

From Python: from outrider import think, run, tool
"""
COMMANDS = ("acp", "config", "demo", "doctor", "models", "sessions", "wire")
"""Each is a module here with a function of the same name."""
_PRINT = re.compile(r"-[cq]*p")
"""`-p`, also behind other letters that take no value."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0 when it is done, 1 on an error, 2 on wrong usage, 130 when interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] in (["-h"], ["--help"], ["help"]) or (not arguments and not _can_answer()):
        print(USAGE, end="")
        return 0
    if arguments == ["--version"]:
        print(f"outrider {__version__}")
        return 0
    if arguments and arguments[0] in COMMANDS:
        return _run(arguments[0], arguments[1:])
    is_for_print = any(each == "--print" or _PRINT.match(each) for each in arguments)
    if arguments and not is_for_print and not arguments[0].startswith("-") and " " not in arguments[0]:
        print(_unknown(arguments[0]), file=sys.stderr)
        return 2
    return _run("prompt" if is_for_print or not _at_a_terminal() else "chat", arguments)


def _can_answer() -> bool:
    """Whether there is somebody to talk to, or something to answer: words in a pipe or a file."""
    if _at_a_terminal():
        return True
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # it is closed, or none
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISREG(kind)


def _at_a_terminal() -> bool:
    return all(stream is not None and not stream.closed and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _unknown(word: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, COMMANDS, 1)
    meant = f"did you mean outrider {close[0]}?" if close else 'to ask something: outrider -p "…";'
    return f"outrider: I do not know {word!r}; {meant} see outrider --help"


def _run(name: str, arguments: list[str]) -> int:
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # for terminals that do not have every character
    if not _debug():
        return 2
    try:
        code = _command(name)(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return _unread()
    except OSError as error:  # a full disk behind standard output
        print(f"outrider: {error.filename or 'the output'}: {error.strerror or error}", file=sys.stderr)
        _unread()
        return 1
    except SystemExit as stop:  # argparse has said what is wrong, or shown the help
        return stop.code if isinstance(stop.code, int) else 0


def _debug() -> bool:
    """Begin to log for debugging, if that is wanted; False if it cannot be done."""
    from outrider.environment import debug_file

    path = debug_file()
    if path is None:
        return True
    import logging
    import os

    try:
        stream = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8")
    except OSError as error:
        print(f"outrider: OUTRIDER_DEBUG names {path}, which cannot be written: {error.strerror}", file=sys.stderr)
        return False
    from outrider.providers.debugging import mask

    handler = logging.StreamHandler(stream)
    handler.addFilter(mask)  # for the records of loggers below ours as well
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    logger = logging.getLogger("outrider")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    return True


def _command(name: str) -> Callable[[list[str]], int]:
    module = "outrider.acp.command" if name == "acp" else f"outrider.cli.{name}"
    command: Callable[[list[str]], int] = getattr(import_module(module), name)
    return command


def _unread() -> int:
    """Nobody reads any more, as after `| head`: end quietly, also when the interpreter flushes at its end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
