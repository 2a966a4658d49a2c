"""Commands that show, copy or write what the agent has said and done, and `/tasks`, `/diff`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.cli.chat.commands.command import ChatCommand, CommandContext, Next, Work
from outrider.cli.chat.terminal_codes import copy
from outrider.cli.chat.tool_call_lines import coloured_diff
from outrider.cli.styles import fit
from outrider.cli.user_programs import page
from outrider.coding import sentences, tasks
from outrider.coding.tasks import ended, newest_text
from outrider.subagents.results import state_of
from outrider.text import counted
from outrider.text.terminal import command_output_lines
from outrider.text.visible import safe_line, safe_lines

if TYPE_CHECKING:
    from outrider.cli.chat.session_view import SessionView
    from outrider.coding.toolbox.background_commands import BackgroundCommand
    from outrider.log.entries import BackgroundTask
    from outrider.runtime.background import Background


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
    path = chat.current.folder / Path(name or f"outrider-{session.id[:8]}.md").expanduser()
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


COMMANDS = (
    ChatCommand("tasks", sentences.COMMANDS["tasks"], _tasks),
    ChatCommand("copy", "copy the last answer to the clipboard", _copy_answer),
    ChatCommand("diff", "show what has changed in the folder since the last commit", _show_diff),
    ChatCommand("export", "write the conversation to a file: /export NAME.md or NAME.html", _export),
    ChatCommand("thinking", "show the model's last reasoning", _show_thinking),
)


EVERY_SECONDS = 0.2


async def follow_task(command: BackgroundCommand, view: SessionView) -> None:
    """Show the newest output, and more as it comes."""
    view.dim(f"Following command {command.number}: Esc stops, and it goes on. /tasks end {command.number} ends it.")
    with command.follow() as reader:
        if text := await asyncio.to_thread(newest_text, command):
            view.write(command_output_lines(text))
        try:
            while command.running:
                await asyncio.sleep(EVERY_SECONDS)
                if text := await asyncio.to_thread(reader.lines):
                    view.write(command_output_lines(text))
        except asyncio.CancelledError:  # Esc: only the watching ends
            view.dim(f"Command {command.number} goes on.")
            return
        if text := await asyncio.to_thread(reader.lines, rest=True):
            view.write(command_output_lines(text))
    view.dim(ended(command))
