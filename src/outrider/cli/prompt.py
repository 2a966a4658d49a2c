"""`outrider -p PROMPT`: one answer from the command line, in a session that is stored and can be continued."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import redirect_stdout

from outrider.agent import Agent
from outrider.cli.plain import plain, plain_lines
from outrider.cli.screen import Screen
from outrider.cli.tool_files import load_tools
from outrider.config import default_model
from outrider.errors import OutriderError, ToolDefinitionError, UnknownModelError, UnknownSessionError
from outrider.events import Event, MessageAdded, TextDelta
from outrider.log.log import Log
from outrider.recorded import limits_of
from outrider.runs import RunResult
from outrider.scripting import default_log
from outrider.session import Session
from outrider.text import counted

DESCRIPTION = """\
Ask a model, from the command line. The answer goes to standard output, what happens on the way to standard error. What
is said and done is stored as it happens: after any end, --continue goes on where it stopped.
"""
EXAMPLES = """\
examples:
  outrider -p "What is a monad?"
  git diff | outrider -p "Review this."  --model anthropic/balanced
  outrider -p "Tidy up the data folder." --tools my_tools.py
  outrider --continue                      finish what the last session was doing
  outrider --resume 3f2a -p "And now?"

exit codes: 0 done, 1 an error, 2 wrong usage, 3 turns or budget used up, 130 interrupted
"""
WRONG_INPUT = (ToolDefinitionError, UnknownModelError, UnknownSessionError)


def prompt(arguments: list[str]) -> int:
    """Ask, or go on."""
    parser = _parser()
    options = parser.parse_args(arguments)
    said = _said(options)
    if options.resume == "":
        parser.error("--resume needs the id of a session; `outrider sessions` lists them")
    if not said and not (options.latest or options.resume):
        parser.error('there is nothing to ask: give a prompt, as in outrider -p "What is 2+2?"')
    log = default_log()
    if log.warning:
        print(f"outrider: {log.warning}", file=sys.stderr)
    try:
        with _open(log, options) as session:
            if session.provider.name == "demo" and session.agent.model != "demo":
                print("No key is set: the built-in demo model answers. See outrider doctor.", file=sys.stderr)
            return _run(session, said)
    except OutriderError as error:
        print(f"outrider: {plain_lines(str(error))}", file=sys.stderr)
        return 2 if isinstance(error, WRONG_INPUT) else 1
    finally:
        log.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="outrider",
        usage='outrider -p "PROMPT" [options]',
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="what to ask; standard input comes after it")
    parser.add_argument("-p", "--print", action="store_true", help="answer once, and end")
    parser.add_argument("-c", "--continue", dest="latest", action="store_true", help="go on with the last session")
    parser.add_argument("-r", "--resume", metavar="ID", help="go on with this session; `outrider sessions` lists them")
    parser.add_argument("-m", "--model", metavar="MODEL", help="who answers, as in think(model=…)")
    parser.add_argument(
        "--tools", action="append", default=[], metavar="FILE", help="a Python file whose @tool functions may be called"
    )
    return parser


def _said(options: argparse.Namespace) -> str:
    piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read().decode(errors="replace")
    return "\n\n".join(part for part in (options.prompt or "", piped.strip()) if part.strip())


def _open(log: Log, options: argparse.Namespace) -> Session:
    tools = load_tools(options.tools)
    if not (options.latest or options.resume):
        return Session.open(log, agent=Agent(model=options.model or default_model(), tools=tools))
    name = options.resume or _latest(log)
    recorded = log.settings(name)
    if recorded.tools and not tools:
        names = plain(", ".join(recorded.tools))
        print(f"This session had tools ({names}); to go on with them, give --tools again.", file=sys.stderr)
    model = options.model or recorded.model or default_model()
    agent = Agent(model=model, system=recorded.system or "", tools=tools, limits=limits_of(recorded))
    return Session.open(log, name, agent)


def _latest(log: Log) -> str:
    found = log.sessions(limit=1)
    if not found:
        raise UnknownSessionError("there is no session to continue yet")
    return found[0].id


def _run(session: Session, said: str) -> int:
    if not said and not session.is_unfinished:
        print(
            f"Nothing is left unfinished in session {session.id[:8]}. To go on: "
            f'outrider --resume {session.id[:8]} -p "PROMPT"',
            file=sys.stderr,
        )
        return 0
    session.observe(_Progress())
    try:
        with redirect_stdout(sys.stderr):  # what tools print is not the answer
            result = asyncio.run(session.run(said))
    except KeyboardInterrupt:
        print(f"\n[outrider --resume {session.id[:8]} goes on]", file=sys.stderr)
        raise
    return _ended(result, session)


class _Progress:
    """Shows on standard error what happens on the way to the answer."""

    def __init__(self) -> None:
        self._screen = Screen(sys.stderr)

    def __call__(self, event: Event) -> None:
        if not isinstance(event, TextDelta | MessageAdded):
            self._screen.show(event)


def _ended(result: RunResult, session: Session) -> int:
    if result.text:
        print(plain_lines(result.text) if sys.stdout.isatty() else result.text, flush=True)
    cost = "" if result.usage.cost is None else f" · ${result.usage.cost:.4f}"
    about = f"{session.provider.name} · {counted(result.turns, 'turn')}{cost}"
    print(f"[{about} · outrider --resume {session.id[:8]} goes on]", file=sys.stderr)
    if result.status == "done":
        return 0
    if result.status == "error":
        print(f"outrider: {plain_lines(result.error)}", file=sys.stderr)
        return 1
    print(f"outrider: stopped by the limit {result.status}", file=sys.stderr)
    return 3
