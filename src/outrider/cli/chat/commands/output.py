"""Commands that show, copy or write what the agent has said and done, and `/tasks`, `/diff`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.cli.chat.commands.command import ChatCommand, CommandContext, Next, ShowInPager, Work
from outrider.cli.chat.terminal_codes import copy
from outrider.cli.chat.tool_call_lines import coloured_diff
from outrider.cli.styles import fit
from outrider.coding import sentences
from outrider.coding.command_environment import command_environment
from outrider.coding.tasks import ended, newest_text
from outrider.coding.toolbox.background_commands import OutputReader
from outrider.errors import OutriderError
from outrider.processes.git import FILTERS, PLAIN_DIFF, PREFIX, filter_settings, git_environment
from outrider.processes.programs import ProgramNotFoundError, Programs
from outrider.processes.starting import run
from outrider.text import counted
from outrider.text.terminal import command_output_lines
from outrider.text.visible import safe_line, safe_lines

if TYPE_CHECKING:
    from outrider.cli.chat.session_view import SessionView
    from outrider.coding.toolbox.background_commands import BackgroundCommand


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

    bench = chat.current.bench
    changes = changes_since_commit(chat.current.folder, bench.workspace.programs, bench.at_read)
    lines = safe_lines(changes).rstrip("\n").split("\n")
    if lines == [""]:
        chat.view.dim("Nothing has changed since the last commit.")
        return None
    shown = list(coloured_diff(lines, chat.view.region.width))
    if len(shown) > chat.view.region.height - 4:
        return ShowInPager("\n".join(shown))
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
        return Work(follow_task(found, chat.view))
    else:
        found.end()
        chat.view.dim(f"Command {found.number} was ended.")
    return None


COMMANDS = (
    ChatCommand("tasks", sentences.COMMANDS["tasks"], _tasks),
    ChatCommand("copy", "copy the last answer to the clipboard", _copy_answer),
    ChatCommand("diff", "show what has changed in the folder since the last commit", _show_diff),
    ChatCommand("export", "write the conversation to a file: /export NAME.md or NAME.html", _export),
    ChatCommand("thinking", "show the model's last reasoning", _show_thinking),
)


SECONDS = 20.0

Confine = Callable[[Sequence[str]], list[str]]
"""Returns the arguments that run a command with less than the user's rights, where that is possible."""


def changes_since_commit(folder: Path, programs: Programs, confine: Confine) -> str:
    """Return a unified diff of the folder's changed files and the names of its new ones. Raises OutriderError."""
    git = _Git(folder, programs, confine)
    git.run("rev-parse", "--is-inside-work-tree")
    git.filters = filter_settings(git.run(*FILTERS, fails=True))
    has_commit = git.run("rev-parse", "--verify", "--quiet", "HEAD", fails=True)
    changed = git.run("diff", *PLAIN_DIFF, *(["HEAD"] if has_commit else []), "--", ".")
    new = git.run("ls-files", "--others", "--exclude-standard", "-z", "--", ".")
    names = "".join(f"new file: {name}\n" for name in new.decode(errors="replace").split("\0") if name)
    return changed.decode(errors="replace") + names


class _Git:
    """Runs git in a folder whose repository nobody trusts."""

    def __init__(self, folder: Path, programs: Programs, confine: Confine) -> None:
        self.filters: Sequence[str] = ()
        """The settings of filters, which are emptied."""
        self._folder = folder
        self._programs = programs
        self._confine = confine

    def run(self, *arguments: str, fails: bool = False) -> bytes:
        """Return what git prints. Raises OutriderError."""
        environment = git_environment(command_environment(os.environ), filters=self.filters)
        environment["PATH"] = self._programs.path
        try:
            command = self._confine([self._programs.require("git"), *PREFIX, *arguments])
            ended = run(command, environment=environment, seconds=SECONDS, folder=self._folder)
        except ProgramNotFoundError as error:
            raise OutriderError(str(error) if error.inside else "git is not installed") from None
        except OSError as error:
            raise OutriderError(f"git did not answer: {error}") from None
        if ended.code and not fails:
            said = ended.errors.decode(errors="replace").strip().split("\n")[0]
            raise OutriderError(said.removeprefix("fatal: ") or "git failed")
        return ended.output


EVERY_SECONDS = 0.2


async def follow_task(command: BackgroundCommand, view: SessionView) -> None:
    """Show the newest output, and more as it comes."""
    view.dim(f"Following command {command.number}: Esc stops, and it goes on. /tasks end {command.number} ends it.")
    with OutputReader(command.path) as reader:
        if text := newest_text(command):
            view.write(command_output_lines(text))
        try:
            while command.running:
                await asyncio.sleep(EVERY_SECONDS)
                if text := reader.lines():
                    view.write(command_output_lines(text))
        except asyncio.CancelledError:  # Esc: only the watching ends
            view.dim(f"Command {command.number} goes on.")
            return
        if text := reader.lines(rest=True):
            view.write(command_output_lines(text))
    view.dim(ended(command))
