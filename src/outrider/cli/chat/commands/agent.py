"""Commands about the agent: its model, permissions, tools, servers and key, the settings, and the installation."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from functools import partial
from textwrap import wrap

from outrider.cli.chat.commands.command import ChatCommand, CommandContext, Dialogue, Next, Send, Work
from outrider.cli.chat.session_view import SessionView
from outrider.cli.styles import BOLD, fit, styled
from outrider.coding import sentences
from outrider.coding.consent.item import waiting_note
from outrider.coding.mcp.server_offers import state_lines
from outrider.coding.toolbox import EXIT_PLAN
from outrider.errors import ConfigError, OutriderError
from outrider.runtime.goal import goal_message
from outrider.text.visible import safe_line
from outrider.tools.threads import Threads


def _choose_model(chat: CommandContext, name: str) -> Next:
    if not name:
        return Dialogue(_pick_model(chat))
    _use_model(chat, name)
    return None


async def _pick_model(chat: CommandContext) -> None:
    from outrider.cli.chat.picker import model_choices, pick

    choices = model_choices(chat.current.model_name, chat.current.log.folders_and_models()[1])
    if name := await pick("Choose a model (price of a million tokens in / out)", choices):
        _use_model(chat, name)


def _use_model(chat: CommandContext, name: str) -> None:
    chat.current.use_model(name)
    kept = "As the settings say." if name == "default" else "Kept for later chats here; /model default forgets it."
    chat.view.dim(f"{sentences.model_is(chat.current.model_name)} {kept}")


def _choose_effort(chat: CommandContext, name: str) -> None:
    from outrider.providers.base import EFFORT_CHOICES, EFFORTS
    from outrider.providers.catalogue.efforts import levels_for
    from outrider.providers.resolution import resolve

    session = chat.current.session
    levels = levels_for(session.provider if session else resolve(chat.current.model_name))
    names = [*(EFFORTS if levels is None else levels), "default"]
    if name and name not in EFFORT_CHOICES:
        chat.view.problem(f"Unknown effort {name!r}; choose one of {', '.join(names)}.")
        return
    for effort in EFFORT_CHOICES:
        if effort == name:
            chat.current.use_effort(effort)
    if len(names) == 1:
        chat.view.dim(f"{chat.current.model_name} has no effort to set.")
    else:
        chat.view.dim(f"Effort: {chat.current.effort or 'default'}. The model has: {', '.join(names)}.")


def _choose_permissions(chat: CommandContext, name: str) -> None:
    from outrider.coding.permissions.question import modes_within

    allowed = modes_within(chat.current.max_mode)
    if name and name not in allowed:
        chat.view.problem(sentences.unknown_mode(name, allowed))
        return
    for mode in allowed:
        if mode == name:
            chat.current.use_mode(mode)
    chat.view.dim(sentences.mode_is(chat.current.mode))


def _plan(chat: CommandContext, wanted: str) -> None:
    if wanted == "show":
        session = chat.current.session
        calls = [call for message in session.messages for call in message.tool_calls] if session else []
        plans = [call.input.get("plan") for call in calls if call.name == EXIT_PLAN]
        chat.view.write(chat.view.rendered(str(plans[-1])) if plans else ["There is no plan yet."])
    elif wanted:
        chat.view.problem("/plan switches plan mode on or off; /plan show shows the newest plan.")
    else:
        _choose_permissions(chat, "ask" if chat.current.mode == "plan" else "plan")


def _goal(chat: CommandContext, command: str) -> Next:
    if command in ("", "off"):
        if command and chat.current.session:
            chat.current.session.set_goal("")
        chat.view.dim(safe_line(sentences.goal_is(chat.current.session)))
        return None
    chat.current.open().set_goal(command)
    return Send(goal_message(command))


def _list_tools(chat: CommandContext, _: str) -> None:
    width = chat.view.region.width
    servers = chat.current.servers
    for tool in (*chat.current.bench.tools, *(servers.tools() if servers else ())):
        first = tool.description.strip().partition("\n")[0]
        chat.view.write([f"  {styled(f'{tool.name:<10}', BOLD)} {fit(safe_line(first), width - 14)}"])
    for served in chat.current.session.server_tools if chat.current.session else ():
        chat.view.write([f"  {styled(f'{served.name:<10}', BOLD)} {sentences.SERVER_TOOL}"])


def _list_servers(chat: CommandContext, _: str) -> None:
    waiting = chat.current.found_servers.waiting
    servers = chat.current.bench.servers
    chat.view.write([f"  {safe_line(line)}" for line in state_lines(servers.statuses() if servers else ())])
    if waiting:
        chat.view.note(f"{waiting_note(waiting)}, then start the chat again")
    elif not servers:
        chat.view.dim("No MCP servers. To add one: outrider mcp add NAME -- COMMAND ARGS…")


COMMANDS = (
    ChatCommand("model", f"{sentences.COMMANDS['model']}: /model NAME", _choose_model),
    ChatCommand("effort", f"{sentences.COMMANDS['effort']}: /effort LEVEL", _choose_effort),
    ChatCommand(
        "permissions",
        f"{sentences.COMMANDS['permissions']}: /permissions ask|edits|all|plan",
        _choose_permissions,
        aliases=("mode",),
    ),
    ChatCommand("plan", "switch plan mode on or off; /plan show shows the newest plan", _plan),
    ChatCommand("goal", sentences.COMMANDS["goal"], _goal),
    ChatCommand("tools", sentences.COMMANDS["tools"], _list_tools),
    ChatCommand("mcp", sentences.COMMANDS["mcp"], _list_servers),
)


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


SETUP_COMMANDS = (
    ChatCommand("login", "enter an API key, or replace it: /login PROVIDER", _login),
    ChatCommand("config", sentences.COMMANDS["config"], _config),
    ChatCommand("doctor", "check the installation and say what to fix", _doctor),
    *(ChatCommand(name, sentences.COMMANDS[name], partial(_list, name)) for name in ("hooks", "skills", "agents")),
)
