"""`outrider`: the interactive chat in the terminal."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.cli.options import WRONG_INPUT, Parser, UsageError, settings_from
from outrider.errors import MissingKeyError, OutriderError
from outrider.text.visible import safe_lines

if TYPE_CHECKING:
    from outrider.log.entries import SessionSettings
    from outrider.log.log import Log

DESCRIPTION = """\
Chat with a coding agent that works in the current folder: it reads and edits files, runs commands and searches the web,
and asks before it changes anything. The session is stored as it runs: after a crash or an exit, --continue resumes it.
"""
EPILOG = """\
in the chat: /help lists the commands, @path attaches a file, Esc or Ctrl-C cancels the current turn
without a terminal: outrider -p "PROMPT" prints one answer; see outrider -p --help
"""


def make_parser() -> Parser:
    parser = Parser(usage="outrider [PROMPT] [options]", description=DESCRIPTION, epilog=EPILOG, has_picker=True)
    parser.add_common_options(
        prompt="the first message",
        permissions="ask: read-only calls run without asking (the default); edits: also edits of files in the folder; "
        "all: every call that no rule denies; plan: nothing that changes anything",
    )
    return parser


def chat(arguments: list[str]) -> int:
    from outrider.cli.chat.type_ahead import quiet_terminal

    try:
        options = make_parser().parse(arguments)
        with quiet_terminal() as typed:
            return _run(options, typed)
    except (OutriderError, UsageError) as error:
        print(f"outrider: {safe_lines(str(error))}", file=sys.stderr)
        return 2 if isinstance(error, WRONG_INPUT) else 1


def _run(options: argparse.Namespace, typed: str) -> int:
    from outrider.cli.chat.terminal_codes import BackgroundQuestion
    from outrider.cli.login import is_without_key, offer_key
    from outrider.cli.prompt_input import open_attachments
    from outrider.coding.config.chosen_model import ChosenModel
    from outrider.coding.config.loading import load
    from outrider.environment import data_folder, default_model
    from outrider.providers.resolution import resolve
    from outrider.runtime.agent_settings import cwd_of, kept_limits

    if options.model:
        with suppress(MissingKeyError):  # a key is asked for below
            resolve(options.model)  # report an unknown model at once
    resume, recorded = _session(options)
    folder = Path(options.cwd or cwd_of(recorded) or ".").resolve()
    flags = kept_limits(recorded) | settings_from(options)
    loaded = load(folder, environment=os.environ, flags=flags, choice=ChosenModel(data_folder(), folder).read())
    model = options.model or (recorded.model if resume else None) or loaded.settings.model or default_model()
    if is_without_key(model):
        from outrider.cli.chat.type_ahead import usual_terminal

        with usual_terminal():
            options.model = offer_key() or options.model
    files = open_attachments(options.attach, loaded.settings.limits.attachment_bytes) if options.attach else []
    question = BackgroundQuestion(loaded.settings.chat.theme, os.environ)
    from outrider.cli.chat.app import Chat  # while the terminal answers: this is the slowest import

    background, keys = question.answer()
    chat = Chat(loaded, folder, options.model, files, options.effort, light=background == "light")
    asyncio.run(chat.run(options.prompt or "", resume, typed + keys))
    return 0


def _session(options: argparse.Namespace) -> tuple[str | None, SessionSettings]:
    """Return the session to resume, if any, and its stored settings."""
    from outrider.log.entries import SessionSettings

    if options.resume is None and not options.latest:
        return None, SessionSettings()
    from outrider.cli.session_lookup import NoSessionHereError, find_session
    from outrider.sync import default_log

    folder = Path(options.cwd or ".").resolve()
    with default_log() as log:
        try:
            found = find_session(log, options.resume, latest=options.latest, folder=folder)
        except NoSessionHereError:
            print("There is no session of this folder to continue.")
            found = None
        found = found or _picked(log, folder)
        return found, log.settings(found) if found else SessionSettings()


def _picked(log: Log, folder: Path) -> str | None:
    """Let the user choose a session."""
    from outrider.cli.chat.session_picker import pick_session

    return asyncio.run(pick_session("Resume a session, or Esc for a new one", log, folder))
