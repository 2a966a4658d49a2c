"""`/tasks` in the chat and in editors: commands and sub-agents in the background, listed, followed and ended."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from outrider.coding.toolbox.background_commands import BackgroundCommand, BackgroundCommands
from outrider.coding.toolbox.shell.outcomes import exit_sentence
from outrider.log.background import ID_CHARACTERS
from outrider.log.entries import BackgroundTask
from outrider.runtime.background import Background
from outrider.subagents.results import progress_of, state_of
from outrider.text.terminal import rendered

USAGE = "Write /tasks, /tasks N, or /tasks end N; for a sub-agent, its id instead of N."
NONE = "Nothing runs in the background."
_SHOWN = 8_000
"""Bytes of the newest output that are shown at first."""
_COMMAND_CHARACTERS = 200


class Tasks(NamedTuple):
    """List what is in the background, show one, or end one."""

    number: int | None
    """The command; None lists them, or names a sub-agent."""
    end: bool = False
    agent: str = ""
    """The id of the sub-agent."""


def parse_tasks(words: str) -> Tasks | None:
    """Return what the words after the command want; None if they are wrong.

    >>> parse_tasks("2"), parse_tasks("end 0a1b2c3d"), parse_tasks("x")
    (Tasks(number=2, end=False, agent=''), Tasks(number=None, end=True, agent='0a1b2c3d'), None)
    """
    given = words.split()
    if not given:
        return Tasks(None)
    end, name = given[0] == "end", given[-1]
    if len(given) != 1 + end:
        return None
    if re.fullmatch(f"[0-9a-f]{{{ID_CHARACTERS}}}", name):
        return Tasks(None, end, name)
    return Tasks(int(name), end) if name.isascii() and name.isdecimal() else None


def task_lines(commands: Iterable[BackgroundCommand]) -> Iterator[str]:
    """Yield a line for each command: its number, state, time and text."""
    for each in commands:
        text = " ".join(each.command.split())
        shown = text if len(text) <= _COMMAND_CHARACTERS else f"{text[: _COMMAND_CHARACTERS - 1]}…"
        yield f"{each.number:>4}  {_state(each)}  {_duration(each.seconds):>8}  {shown}"


def agent_lines(background: Background) -> Iterator[str]:
    """Yield a line for each sub-agent: its id, state and task, and what it has done so far."""
    for each in background:
        state = "running" if not each.status else "ended" if each.status == "done" else each.status.replace("_", " ")
        done = "" if each.status else f" · {progress_of(background, each)}"
        yield f"{each.session[:ID_CHARACTERS]}  {state:<11}  {each.name}: {each.title}{done}"


def unknown_task(name: int | str) -> str:
    return f"There is no {'sub-agent' if isinstance(name, str) else 'background command'} {name}; /tasks lists them."


def ended(command: BackgroundCommand) -> str:
    how = "You have ended it." if command.ended_by_user else exit_sentence(command.exit_code) or "Exit code 0."
    return f"Command {command.number} has ended. {how}"


def newest_text(command: BackgroundCommand, size: int = _SHOWN) -> str:
    """Return the end of a command's output, from the beginning of a line."""
    data = command.newest_output(size)
    if len(data) == size:
        data = data[data.find(b"\n") + 1 :]
    return rendered(data.decode(errors="replace")).strip("\n")


async def run_tasks(
    commands: BackgroundCommands, background: Background, words: str, fenced: Callable[[str], str]
) -> str:
    """Do what the command says, and return its output as Markdown. `fenced` makes code of a text."""
    wanted = parse_tasks(words)
    if wanted is None:
        return USAGE
    if wanted.agent:
        return await _on_agent(background, wanted)
    if wanted.number is None:
        lines = [*task_lines(commands), *agent_lines(background)]
        return fenced("\n".join(lines)) if lines else NONE
    if (command := commands.find(wanted.number)) is None:
        return unknown_task(wanted.number)
    if wanted.end:
        await asyncio.to_thread(command.end)
        return f"Command {command.number} was ended."
    output = await asyncio.to_thread(newest_text, command)
    return "\n\n".join(filter(None, [fenced(output) if output else "", "" if command.running else ended(command)]))


async def _on_agent(background: Background, wanted: Tasks) -> str:
    if (task := background.find(wanted.agent)) is None:
        return unknown_task(wanted.agent)
    if wanted.end:
        return stopped(task) if await background.stop(task) else f"Sub-agent {wanted.agent} had ended already."
    return state_of(background, task)


def stopped(task: BackgroundTask) -> str:
    return f"Sub-agent {task.session[:ID_CHARACTERS]} was stopped; the model is told."


def _state(command: BackgroundCommand) -> str:
    if command.running:
        return "running"
    return "ended  " if not command.exit_code or command.ended_by_user else "failed "


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {rest:02}s" if minutes else f"{rest}s"
