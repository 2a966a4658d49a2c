"""`outrider`: the chat in the terminal."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.cli.options import WRONG_INPUT, Parser, UsageError, flags_of
from outrider.cli.plain import plain_lines
from outrider.errors import OutriderError

if TYPE_CHECKING:
    from outrider.log.entries import SessionSettings

DESCRIPTION = """\
Talk with an agent that works in this folder: it reads and changes files, runs commands and looks things up, and asks
before it changes anything. What is said and done is stored as it happens: after any end, --continue goes on.
"""
EPILOG = """\
in the chat: /help shows the commands, @path attaches a file, Esc or Ctrl-C stops what is going on
without a terminal: outrider -p "PROMPT" answers once; see outrider -p --help
"""


def chat(arguments: list[str]) -> int:
    """Talk until the person leaves."""
    parser = Parser(usage="outrider [PROMPT] [options]", description=DESCRIPTION, epilog=EPILOG)
    parser.add_shared(
        prompt="what to say first",
        permissions="you are asked before anything is changed (ask, the default), but not about edits in the folder "
        "(edits), about nothing (all); nothing is changed at all (plan)",
    )
    try:
        return _talk(parser.parsed(arguments))
    except (OutriderError, UsageError) as error:
        print(f"outrider: {plain_lines(str(error))}", file=sys.stderr)
        return 2 if isinstance(error, WRONG_INPUT) else 1


def _talk(options: argparse.Namespace) -> int:
    from outrider.cli.chat.program import Chat
    from outrider.cli.prompt_input import attached
    from outrider.coding.config.loading import load
    from outrider.providers import resolve
    from outrider.runtime.agent_settings import cwd_of, kept_limits

    if options.model:
        resolve(options.model)  # a name that nobody answers to is better known at once
    resume, recorded = _session(options)
    folder = Path(options.cwd or cwd_of(recorded) or ".").resolve()
    loaded = load(folder, environment=os.environ, flags=kept_limits(recorded) | flags_of(options))
    files = attached(options.attach, loaded.settings.limits.attachment_bytes) if options.attach else []
    asyncio.run(Chat(loaded, folder, options.model, files).run(options.prompt or "", resume))
    return 0


def _session(options: argparse.Namespace) -> tuple[str | None, SessionSettings]:
    """The session to go on with, and what the log knows of it."""
    from outrider.log.entries import SessionSettings

    if not (options.resume or options.latest):
        return None, SessionSettings()
    from outrider.cli.last_session import find_session
    from outrider.sync import default_log

    with default_log() as log:
        found = find_session(log, options.resume, latest=options.latest, folder=Path(options.cwd or "."))
        return found, log.settings(found) if found else SessionSettings()
