"""Commands that show, copy or write what the agent has said and done."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from outrider.cli.chat.commands.command import Command, CommandContext, Follow, Next, Page
from outrider.cli.chat.signals import copy
from outrider.cli.chat.tool_call_lines import coloured_diff
from outrider.cli.styles import fit
from outrider.coding import sentences
from outrider.text import counted
from outrider.visible_text import safe_line, safe_lines


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


def _show_diff(chat: CommandContext, _: str) -> Next:
    from outrider.cli.chat.git_diff import changes_since_commit

    bench = chat.current.bench
    changes = changes_since_commit(chat.current.folder, bench.workspace.programs, bench.at_read)
    lines = safe_lines(changes).rstrip("\n").split("\n")
    if lines == [""]:
        chat.view.dim("Nothing has changed since the last commit.")
        return None
    shown = list(coloured_diff(lines, chat.view.region.width))
    if len(shown) > chat.view.region.height - 4:
        return Page("\n".join(shown))
    chat.view.write(shown)
    return None


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
    from outrider.coding import tasks

    commands = chat.current.background
    wanted = tasks.parse_tasks(words)
    if wanted is None:
        chat.view.problem(tasks.USAGE)
    elif wanted.number is None:
        lines = [fit(safe_line(line), chat.view.region.width) for line in tasks.task_lines(commands)]
        chat.view.write(lines)
        chat.view.dim("/tasks N follows one, /tasks end N ends it." if lines else tasks.NONE)
    elif (found := commands.find(wanted.number)) is None:
        chat.view.problem(tasks.unknown_task(wanted.number))
    elif not wanted.end:
        return Follow(found)
    else:
        found.end()
        chat.view.dim(f"Command {found.number} was ended.")
    return None


COMMANDS = (
    Command("tasks", sentences.COMMANDS["tasks"], _tasks),
    Command("copy", "copy the last answer to the clipboard", _copy_answer),
    Command("diff", "show what has changed in the folder since the last commit", _show_diff),
    Command("export", "write the conversation to a file: /export NAME.md or NAME.html", _export),
    Command("thinking", "show the model's last reasoning", _show_thinking),
)
