"""Commands about the agent: its model, permissions, tools and MCP servers."""

from __future__ import annotations

from outrider.cli.chat.commands.command import ChatCommand, CommandContext, Dialogue, Next, Send
from outrider.cli.styles import BOLD, fit, styled
from outrider.coding import sentences
from outrider.coding.consent.item import waiting_note
from outrider.coding.mcp.server_offers import state_lines
from outrider.coding.toolbox import EXIT_PLAN
from outrider.runtime.goal import goal_message
from outrider.text.visible import safe_line


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
