"""`outrider`: the interactive chat in the terminal."""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.cli.options import WRONG_INPUT, Parser, UsageError, settings_from
from outrider.errors import MissingKeyError, OutriderError
from outrider.text.visible import safe_lines

if TYPE_CHECKING:
    from outrider.log.entries import SessionSettings


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
    from outrider.coding.config.loading import load
    from outrider.coding.config.remembered import ChosenModel
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
        if not found:
            from outrider.cli.chat.picker import pick_session

            found = asyncio.run(pick_session("Resume a session, or Esc for a new one", log, folder))
        return found, log.settings(found) if found else SessionSettings()


_INPUT, _LOCAL = 0, 3
"""Places of the flags in the attributes of a terminal."""


@contextmanager
def quiet_terminal() -> Iterator[str]:
    """Turn off the terminal's echo and line editing until the end of the block. Yield what was typed before it.

    With line editing on, the terminal would turn Enter into a line break.
    """
    with _terminal_mode(is_quiet=True) as terminal:
        yield "" if terminal is None else _without_echo(_waiting(terminal))


@contextmanager
def usual_terminal() -> Iterator[None]:
    """Turn echo and line editing on again, for a question in the middle of a quiet terminal."""
    with _terminal_mode(is_quiet=False):
        yield


@contextmanager
def _terminal_mode(*, is_quiet: bool) -> Iterator[int | None]:
    """Set echo and line editing until the end of the block. Yield the terminal, or None if there is none."""
    try:
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (OSError, ValueError, termios.error):
        yield None
        return
    changed = list(before)
    for place, flags in ((_INPUT, termios.ICRNL), (_LOCAL, termios.ECHO | termios.ICANON)):
        changed[place] = changed[place] & ~flags if is_quiet else changed[place] | flags
    termios.tcsetattr(terminal, termios.TCSANOW, changed)
    try:
        yield terminal
    finally:
        with suppress(OSError, termios.error):  # the terminal may be gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _waiting(terminal: int) -> str:
    """Return what can be read at once."""
    if not select.select([terminal], [], [], 0)[0]:
        return ""
    with suppress(OSError):
        return os.read(terminal, 65536).decode(errors="replace")
    return ""


def _without_echo(typed: str) -> str:
    """Erase what the terminal has echoed, and return the keys."""
    if typed:
        sys.stdout.write("\r\x1b[K" + "\x1b[A\x1b[K" * typed.count("\n"))
        sys.stdout.flush()
    return typed.replace("\n", "\r")
