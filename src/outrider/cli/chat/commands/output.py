"""Commands that show, copy or write what was said, done, sent and paid, and `/tasks`, `/diff`, `/compact`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.cli.chat.commands.command import ChatCommand, CommandContext, Next, Work
from outrider.cli.chat.terminal_codes import copy
from outrider.cli.chat.tool_call_lines import coloured_diff
from outrider.cli.styles import BOLD, CYAN, DIM, GREEN, RED, YELLOW, fit, styled
from outrider.cli.user_programs import page
from outrider.coding import sentences, tasks
from outrider.coding.tasks import ended, newest_text
from outrider.log.session_id import shown_id
from outrider.subagents.results import state_of
from outrider.text import counted, dollars, thousands
from outrider.text.terminal import command_output_lines
from outrider.text.visible import safe_line, safe_lines
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from outrider.cli.chat.session_view import SessionView
    from outrider.coding.toolbox.background_commands import BackgroundCommand
    from outrider.log.entries import BackgroundTask
    from outrider.providers.base import ToolSpec
    from outrider.runtime.background import Background
    from outrider.runtime.context import ContextUsage


def _copy_answer(chat: CommandContext, _: str) -> None:
    messages = chat.current.session.history.tail if chat.current.session else ()
    said = next((each.text for each in reversed(messages) if each.role == "assistant" and each.text.strip()), "")
    if not said:
        chat.view.dim("There is no answer to copy yet.")
    elif copy(sys.stdout, said, os.environ, chat.current.bench.workspace.programs):
        chat.view.dim(
            f"Copied: {counted(len(said), 'character')}. If it does not arrive, allow OSC 52 in your terminal."
        )
    else:
        chat.view.problem("The answer is too long for the clipboard; /export writes it to a file.")


def _show_diff(chat: CommandContext, _: str) -> None:
    changes = chat.current.bench.project.changes_since_commit()
    lines = safe_lines(changes).rstrip("\n").split("\n")
    shown = list(coloured_diff(lines, chat.view.region.width))
    if lines == [""]:
        chat.view.dim("Nothing has changed since the last commit.")
    elif len(shown) > chat.view.region.height - 4:
        page("\n".join(shown), chat.current.bench.workspace.programs)
    else:
        chat.view.write(shown)


def _export(chat: CommandContext, name: str) -> None:
    from outrider.cli.chat.transcript_file import write_transcript

    session = chat.current.session
    if session is None:
        chat.view.dim("There are no messages yet.")
        return
    path = chat.current.folder / Path(name or f"outrider-{shown_id(session.id)}.md").expanduser()
    heading = chat.current.log.session(session.id).title or "Conversation"
    write_transcript(path, heading, chat.current.log.messages(session.id), session.store)
    chat.view.dim(f"Written: {safe_line(str(path))}")


def _show_thinking(chat: CommandContext, _: str) -> None:
    thoughts = chat.view.thoughts
    chat.view.write(chat.view.rendered(thoughts) or ["There is no reasoning to show."])


def _tasks(chat: CommandContext, words: str) -> Next:
    commands = chat.current.background
    wanted = tasks.parse_tasks(words)
    if wanted is None:
        chat.view.problem(tasks.USAGE)
    elif wanted.agent:
        return _on_agent(chat, wanted)
    elif wanted.number is None:
        session = chat.current.session
        lines = [*tasks.task_lines(commands), *(tasks.agent_lines(session.background) if session else ())]
        chat.view.write(fit(safe_line(line), chat.view.region.width) for line in lines)
        chat.view.dim("/tasks N follows one, /tasks end N ends it." if lines else tasks.NONE)
    elif (found := commands.find(wanted.number)) is None:
        chat.view.problem(tasks.unknown_task(wanted.number))
    elif not wanted.end:
        return Work(follow_task(found, chat.view))
    else:
        found.end()
        chat.view.dim(f"Command {found.number} was ended.")
    return None


def _on_agent(chat: CommandContext, wanted: tasks.Tasks) -> Next:
    background = chat.current.session.background if chat.current.session else None
    task = background.find(wanted.agent) if background else None
    if background is None or task is None:
        chat.view.problem(tasks.unknown_task(wanted.agent))
        return None
    return Work(_stop_agent(background, task, chat.view) if wanted.end else follow_agent(background, task, chat.view))


async def _stop_agent(background: Background, task: BackgroundTask, view: SessionView) -> None:
    was_at_work = await background.stop(task)
    view.dim(safe_line(tasks.stopped(task) if was_at_work else state_of(background, task)))


async def follow_agent(background: Background, task: BackgroundTask, view: SessionView) -> None:
    """Show the steps of a sub-agent until it ends, or Esc. It goes on."""
    if task.status or not view.watch_one(task.session):
        view.write(safe_lines(state_of(background, task)).split("\n"))
        return
    ended = asyncio.ensure_future(background.wait([task.session]))
    try:
        while view.is_watching and not ended.done():  # Esc leaves
            await asyncio.wait([ended], timeout=EVERY_SECONDS)
    finally:
        ended.cancel()
        view.leave()


EVERY_SECONDS = 0.2


async def follow_task(command: BackgroundCommand, view: SessionView) -> None:
    """Show the newest output, and more as it comes."""
    view.dim(f"Following command {command.number}: Esc stops, and it goes on.")
    with command.follow() as reader:
        if text := await asyncio.to_thread(newest_text, command):
            view.write(command_output_lines(text))
        try:
            while command.running:
                await asyncio.sleep(EVERY_SECONDS)
                if text := await asyncio.to_thread(reader.lines):
                    view.write(command_output_lines(text))
        except asyncio.CancelledError:  # Esc: only the watching ends
            view.dim(f"Command {command.number} goes on. /tasks end {command.number} ends it.")
            return
        if text := await asyncio.to_thread(reader.lines, rest=True):
            view.write(command_output_lines(text))
    view.dim(ended(command))


WIRE_LINES = 300


def _show_request(chat: CommandContext, model: str) -> None:
    from outrider.coding.stored_request import pretty, sending_provider
    from outrider.providers.base import Request

    session = chat.current.session
    messages = session.history.sendable() if session else []
    if session is None or not messages:
        chat.view.dim("There are no messages yet, so there is no request.")
        return
    provider = sending_provider(model or chat.current.model_name)
    served = session.server_tools if not model else ()
    agent = session.agent
    request = Request(
        *(messages, session.store, agent.system_prompt, session.specs),
        settings=agent.settings,
        server_tools=served,
        situation=agent.situation,
    )
    body = provider.render(request)
    lines = safe_lines(pretty(_without_tools(body, session.specs)).decode()).split("\n")
    if len(lines) > WIRE_LINES:
        chat.view.dim(f"… {len(lines) - WIRE_LINES} earlier lines")
    chat.view.write([fit(line, chat.view.region.width) for line in lines[-WIRE_LINES:]])


def _show_context(chat: CommandContext, wanted: str) -> None:
    session = chat.current.session
    lost = sentences.cache_lines(chat.current.log, session.id, wanted) if session else []
    lines = [] if wanted == "turns" else [*context_lines(chat.current.context, chat.view.region.width)]
    lines += ["", *(styled(line, YELLOW) for line in lost)] if lines and lost else lost
    chat.view.write([*(f"  {line}".rstrip() for line in lines), ""])
    if cached := sentences.cached_is(chat.current.usage):
        chat.view.dim(cached)


def _compact(chat: CommandContext, focus: str) -> Next:
    if chat.current.session:
        return Work(_summarise(chat, focus))
    chat.view.dim("There are no messages yet.")
    return None


async def _summarise(chat: CommandContext, focus: str) -> None:
    await chat.current.open().compact(focus)  # the view shows the event


def _show_cost(chat: CommandContext, _: str) -> Next:
    usage = chat.current.usage
    if usage is None:
        chat.view.dim("No tokens used yet.")
    else:
        chat.view.write(
            [
                f"  cost    {dollars(usage.cost) or 'unknown'}",
                f"  input   {usage.input_tokens:,} tokens, {usage.cached_tokens:,} of them cached",
                f"  output  {usage.output_tokens:,} tokens, {usage.reasoning_tokens:,} of them reasoning",
            ]
        )
    return Work(_show_budget(chat)) if chat.current.bench.settings.budget.parts else None


async def _show_budget(chat: CommandContext) -> None:
    """Show what today has cost against its budgets. Summing it blocks, so it runs in a thread."""
    spent = await Threads().run(lambda: list(chat.current.bench.spent_today(chat.current.log)))
    chat.view.write([f"  budget  {each.text}" for each in spent])


def _without_tools(body: bytes, specs: Sequence[ToolSpec]) -> bytes:
    """Return the request with tool names only; the schemas would fill the screen."""
    import msgspec

    request = msgspec.json.decode(body)
    if isinstance(request, dict) and "tools" in request:
        request["tools"] = f"… {', '.join(spec.name for spec in specs)} with their schemas"
    return msgspec.json.encode(request)


WIDEST_BAR = 50
_STYLES = {"system prompt": CYAN, "tools": YELLOW, "files": RED, "conversation": GREEN, "free": DIM}
_FULL, _FREE = "█", "░"


def context_lines(usage: ContextUsage, width: int) -> Iterator[str]:
    """Yield how full the window is, a bar with the share of each part, and a table of the parts."""
    parts = sentences.context_parts(usage)
    total = usage.window or usage.used
    yield styled(sentences.context_is(usage), BOLD)
    if usage.window:
        yield _bar(parts, total, max(10, min(WIDEST_BAR, width - 2)))
    yield ""
    for name, tokens in parts.items():
        mark = styled(_FREE if name == "free" else _FULL, _STYLES[name])
        yield f"{mark} {name:<14} {thousands(tokens):>8} {tokens / max(1, total):>6.1%}"


def _bar(parts: dict[str, int], total: int, width: int) -> str:
    """Return the bar. Each part ends where its running total does, so that all parts together are exactly as long."""
    bar, before, end = "", 0, 0
    for name, tokens in parts.items():
        before += tokens
        start, end = end, width if name == "free" else min(width, round(before / total * width))
        bar += styled((_FREE if name == "free" else _FULL) * max(0, end - start), _STYLES[name])
    return bar


COMMANDS = (
    ChatCommand("wire", "show the next request; /wire MODEL shows it for another model", _show_request),
    ChatCommand("context", sentences.COMMANDS["context"], _show_context),
    ChatCommand("compact", f"{sentences.COMMANDS['compact']}; /compact WORDS says what to keep", _compact),
    ChatCommand("cost", sentences.COMMANDS["cost"], _show_cost),
    ChatCommand("tasks", sentences.COMMANDS["tasks"], _tasks),
    ChatCommand("copy", "copy the last answer to the clipboard", _copy_answer),
    ChatCommand("diff", "show what has changed in the folder since the last commit", _show_diff),
    ChatCommand("export", "write the conversation to a file: /export NAME.md or NAME.html", _export),
    ChatCommand("thinking", "show the model's last reasoning", _show_thinking),
)
