"""The command line program. Each command is a module in this package, imported when it runs."""

from __future__ import annotations

import gc
import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType
from typing import TYPE_CHECKING

from outrider.cli.log_option import take_log_option, use_log_setting
from outrider.descriptors import discard_output
from outrider.environment import debug_file
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.processes.signals import EndingSignals

COMMANDS = {
    "login": "enter an API key, which is checked and kept",
    "logout": "remove a key that was kept",
    "models": "list the models and show what each can do",
    "sessions": "list, show, export, import, fork, rewind, rename or delete stored sessions",
    "usage": "show what requests have used and cost, and today's cost against the budget",
    "config": "show the settings and where each value comes from, or change one",
    "mcp": "add, list, test and remove MCP servers, log in to them, or be one",
    "trust": "show all that a project wants, and agree to it or not",
    "skills": "list the skills, where they come from and what was refused",
    "commands": 'list the commands of your own that a prompt can call, as in -p "/review src"',
    "hooks": "list the hooks and where they come from",
    "plugins": "list the plugins and what they bring",
    "doctor": "check the installation and say what to fix",
    "demo": "run nine short demos; no API key needed",
    "completion": "print a script that completes outrider's words in bash, zsh or fish",
    "acp": "serve an editor (Zed, JetBrains, Neovim, Emacs) over the Agent Client Protocol",
    "serve": "serve a page and an HTTP API: look at sessions, search them, answer, prompt",
    "batch": "run many tasks from a file, with results in another",
    "worker": "run tasks of batches, on as many machines as you like",
    "replay": "run a recorded session again, or ask another model at each of its steps",
    "hands": "serve files and commands of this machine to a session elsewhere",
    "eval": "let models try tasks, and say how many they solve",
    "wire": "show the exact request for a conversation, for any provider",
}
"""What each command does. It is a function in the module of its name, or in that of `MODULES`."""
USAGE = """\
Outrider: a coding agent for the terminal, and an agent runtime for Python.

usage: outrider [PROMPT] [options]       chat in the current folder
       outrider -p "PROMPT" [options]    print one answer and exit, for scripts
       outrider COMMAND [--help]

commands:
{commands}

options:
  -p, --print         print one answer and exit; all options: outrider -p --help
  -c, --continue      continue the last session of this folder
  -r, --resume [ID]   resume a session by its id, or choose one
  -m, --model MODEL   the model to use
  --permissions MODE  which calls run without asking: ask, edits, all, plan
  --effort LEVEL      how much the model thinks: none, low, medium, high, max
  --in PLACE          let the tools work elsewhere: ssh://host/path, container:NAME
  --log PLACE         keep sessions in this folder or Postgres database (a URL)
  --attach FILE, --tools TOOLS, --cwd DIR, --max-turns N, --max-cost DOLLARS
  -h, --help          show this help
  --version           show the version

In Python: from outrider import think, run, tool
""".replace("{commands}", "\n".join(f"  {name:12} {does}" for name, does in COMMANDS.items()))
FRONT_ENDS = {"acp": "acp.command", "serve": "web.command"}
"""Commands in rooms of their own. Their processes hold keys."""
MODULES = {
    **FRONT_ENDS,
    **dict.fromkeys(("skills", "commands", "hooks", "plugins"), "cli.extensions"),
    "logout": "cli.login",
}
FIRST_COLLECTION = 150_000
"""New objects before the first collection. The imports of `-p` and its request are about 80,000."""
_PR_SET_DUMPABLE = 4
_PRINT = re.compile(r"-[cq]*p")
"""`-p`, alone or after other flags without a value, as in `-cp`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 error, 2 wrong usage, 130 interrupted."""
    is_program = argv is None  # not when another program calls this function, whose process is not ours to hide
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] in (["-h"], ["--help"], ["help"]) or (not arguments and not _can_answer()):
        return _guarded(lambda: _print(USAGE))
    if arguments[:2] == ["completion", "words"]:  # at once: the user has pressed Tab
        return _guarded(lambda: module_of("completion").completion(arguments[1:]))
    arguments = take_log_option(arguments)
    if arguments == ["--version"]:
        return _guarded(lambda: _print(f"outrider {__version__}\n"))
    from outrider.processes.signals import EndingSignals

    signals = EndingSignals()
    if not is_program:
        return _dispatch(arguments, signals, is_program=False)
    delay_first_collection()
    with signals:
        return _dispatch(arguments, signals, is_program=True)


def _dispatch(arguments: list[str], signals: EndingSignals, *, is_program: bool) -> int:
    if arguments and arguments[0] in COMMANDS:
        return _run(arguments[0], arguments[1:], signals, hidden=is_program and arguments[0] in FRONT_ENDS)
    is_for_print = any(each == "--print" or _PRINT.match(each) for each in arguments)
    if arguments and not is_for_print and not arguments[0].startswith("-") and " " not in arguments[0]:
        print(_unknown(arguments[0]), file=sys.stderr)
        return 2
    return _run("prompt" if is_for_print or not _at_a_terminal() else "chat", arguments, signals, hidden=is_program)


def _can_answer() -> bool:
    """Return whether there is input: a terminal, a pipe or a file on standard input."""
    if _at_a_terminal():
        return True
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # standard input is closed or missing
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISREG(kind)


def _at_a_terminal() -> bool:
    return all(stream is not None and not stream.closed and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _unknown(word: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, COMMANDS, 1)
    hint = f"did you mean outrider {close[0]}?" if close else 'to ask a question: outrider -p "…";'
    return f"outrider: unknown command {word!r}; {hint} see outrider --help"


def _run(name: str, arguments: list[str], signals: EndingSignals, *, hidden: bool) -> int:
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # for terminals whose encoding lacks some characters
    if not _start_debug_log():
        return 2
    try:
        os.getcwd()
    except OSError as error:
        said = "was deleted" if isinstance(error, FileNotFoundError) else f"cannot be used: {error.strerror}"
        print(f"outrider: the current folder {said}; change to another folder and try again", file=sys.stderr)
        return 2
    if hidden:
        hide_process()
    try:
        return _guarded(lambda: _run_command(name, arguments))
    except KeyboardInterrupt:
        from outrider.processes.signals import exit_code, sentence

        with suppress(OSError):  # the terminal is gone
            print(f"\n{sentence(signals.caught)}", file=sys.stderr, flush=True)
        return exit_code(signals.caught)


def _run_command(name: str, arguments: list[str]) -> int:
    use_log_setting()
    code: int = getattr(module_of(name), name)(arguments)
    return code


def _print(text: str) -> int:
    print(text, end="")
    return 0


def _guarded(work: Callable[[], int]) -> int:
    """Return the exit code of work that prints. Output that cannot be written is no reason for a traceback."""
    try:
        code = work()
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        discard_output(sys.stdout)
        return 0
    except OSError as error:  # a full disk behind standard output
        print(f"outrider: {error.filename or 'the output'}: {error.strerror or error}", file=sys.stderr)
        discard_output(sys.stdout)
        return 1
    except SystemExit as stop:  # argparse has printed the error or the help
        return stop.code if isinstance(stop.code, int) else 0


def _start_debug_log() -> bool:
    """Log to the file in OUTRIDER_DEBUG, or else nowhere. Return False if the file cannot be written."""
    import logging

    path, logger = debug_file(), logging.getLogger("outrider")
    if path is None:
        if not logger.handlers:  # Python would print tracebacks of tools between the lines of the program
            logger.addHandler(logging.NullHandler())
        return True
    try:
        stream = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8")
    except OSError as error:
        print(f"outrider: OUTRIDER_DEBUG: {path} cannot be written: {error.strerror}", file=sys.stderr)
        return False
    from outrider.providers.debugging import mask

    handler = logging.StreamHandler(stream)
    handler.addFilter(mask)  # on the handler, so that records of child loggers are masked too
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    return True


def module_of(name: str) -> ModuleType:
    return import_module(f"outrider.{MODULES.get(name, f'cli.{name}')}")


def delay_first_collection() -> None:
    """Collect garbage for the first time when there are many objects, and from then on as usual.

    What a program imports stays until its end. With Python's thresholds the collector looks at it dozens of times
    before the first request leaves, and finds next to nothing.
    """
    usual = gc.get_threshold()

    def restore(_phase: str, _about: dict[str, int]) -> None:
        gc.set_threshold(*usual)
        gc.callbacks.remove(restore)

    gc.callbacks.append(restore)
    gc.set_threshold(FIRST_COLLECTION, *usual[1:])


def hide_process() -> None:
    """Make this process not dumpable. While OUTRIDER_DEBUG is set it stays visible, so that a debugger can attach.

    Its environment holds keys. A command that a model runs is another process of the same user, and could read them
    from /proc/<pid>/environ or with a debugger. On Linux, only root may read those of a process that is not dumpable.
    """
    if sys.platform != "linux" or debug_file() is not None:
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
