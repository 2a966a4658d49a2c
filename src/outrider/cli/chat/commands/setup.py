"""Commands about the set-up: the key, the settings, the check of the installation, and what was added to the agent."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING

from outrider.cli.chat.commands.command import ChatCommand, CommandContext, Dialogue, Next, Work
from outrider.cli.styles import fit
from outrider.coding import sentences
from outrider.errors import ConfigError, OutriderError
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from outrider.cli.chat.session_view import SessionView

_HAVE_COMMANDS = ("model", "effort", "permissions.mode")


def _login(chat: CommandContext, provider: str) -> Next:
    from outrider.cli.login import key_variables
    from outrider.providers.resolution import PREFIXES

    if not provider:
        prefix, slash, _ = chat.current.model_name.partition("/")
        provider = prefix if slash and prefix in PREFIXES else "anthropic"
    if provider not in PREFIXES:  # not repeated: it may be a key
        raise OutriderError(f"/login takes a provider and asks for the key; known: {', '.join(PREFIXES)}")
    key_variables(provider)  # one that takes no key is reported before anything is typed
    return Dialogue(_ask_key(chat.view, provider))


async def _ask_key(view: SessionView, provider: str) -> Next:
    from outrider.cli.chat.line_editor import read_secret

    key = await read_secret(f"API key for {provider} (not shown; Enter leaves it): ")
    if key:
        return Work(_keep_key(view, provider, key))
    view.dim("Nothing was changed.")
    return None


async def _keep_key(view: SessionView, provider: str, key: str) -> None:
    from outrider.cli.login import keep_key
    from outrider.cli.options import UsageError

    try:
        view.dim(await keep_key(provider, key))
    except UsageError as error:
        raise OutriderError(str(error)) from None


def _config(chat: CommandContext, words: str) -> None:
    from outrider.coding.config.editing import run_config
    from outrider.coding.config.loading import load

    try:
        given = shlex.split(words)
    except ValueError as error:
        raise ConfigError(f"/config: {error}") from None
    loaded = load(chat.current.folder, environment=os.environ)
    chat.view.write([fit(line, chat.view.region.width) for line in run_config(chat.current.folder, loaded, given)])
    if given[:1] in (["set"], ["unset"]):
        _say_when(chat, given[1])


def _say_when(chat: CommandContext, key: str) -> None:
    """Say when a setting that was changed applies."""
    command = f"; this one has /{key.partition('.')[0]}" if key in _HAVE_COMMANDS else ""
    chat.view.dim(f"It applies to chats that are started from now on{command}.")


def _doctor(chat: CommandContext, _: str) -> Next:
    return Work(_examine(chat.view))


async def _examine(view: SessionView) -> None:
    """Show the findings. Looking for them blocks, so it runs in a thread."""
    from outrider.cli.doctor import finding_line, findings, verdict

    found = await Threads().run(lambda: [*findings()])
    _write(view, map(finding_line, found))
    view.dim(verdict(found))


def _write(view: SessionView, lines: Iterable[str]) -> None:
    wide = view.region.width
    view.write([part for line in lines for part in wrap(line, wide, initial_indent="  ", subsequent_indent="    ")])


def _list(name: str, chat: CommandContext, _: str) -> None:
    from outrider.coding.listings import listed  # imports the files of hooks

    *lines, how = listed(name, chat.current.bench)
    _write(chat.view, lines)
    chat.view.dim(how)


COMMANDS = (
    ChatCommand("login", "enter an API key, or replace it: /login PROVIDER", _login),
    ChatCommand("config", sentences.COMMANDS["config"], _config),
    ChatCommand("doctor", "check the installation and say what to fix", _doctor),
    *(ChatCommand(name, sentences.COMMANDS[name], partial(_list, name)) for name in ("hooks", "skills", "agents")),
)
