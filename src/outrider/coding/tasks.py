"""`/tasks` in the chat and in editors: the commands that run in the background, listed, followed and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from outrider.coding.toolbox.background_commands import BackgroundCommand, BackgroundCommands
from outrider.coding.toolbox.shell.outcomes import exit_sentence
from outrider.text.terminal import rendered

USAGE = "Write /tasks, /tasks N, or /tasks end N."
NONE = "No commands run in the background."
_SHOWN = 8_000
"""Bytes of the newest output that are shown at first."""
_COMMAND_CHARACTERS = 200


class Tasks(NamedTuple):
    """List the commands, show one, or end one."""

    number: int | None
    """The command; None lists them."""
    end: bool = False


def parse_tasks(words: str) -> Tasks | None:
    """Return what the words after the command want; None if they are wrong.

    >>> parse_tasks(""), parse_tasks("2"), parse_tasks("end 2"), parse_tasks("x")
    (Tasks(number=None, end=False), Tasks(number=2, end=False), Tasks(number=2, end=True), None)
    """
    given = words.split()
    if not given:
        return Tasks(None)
    end, number = given[0] == "end", given[-1]
    if len(given) != 1 + end or not (number.isascii() and number.isdecimal()):
        return None
    return Tasks(int(number), end)


def task_lines(commands: Iterable[BackgroundCommand]) -> Iterator[str]:
    """Yield a line for each command: its number, state, time and text."""
    for each in commands:
        text = " ".join(each.command.split())
        shown = text if len(text) <= _COMMAND_CHARACTERS else f"{text[: _COMMAND_CHARACTERS - 1]}…"
        yield f"{each.number:>4}  {_state(each)}  {_duration(each.seconds):>8}  {shown}"


def unknown_task(number: int) -> str:
    """Return that there is no such command."""
    return f"There is no background command {number}; /tasks lists them."


def ended(command: BackgroundCommand) -> str:
    """Return that a command has ended, and how."""
    how = "You have ended it." if command.ended_by_user else exit_sentence(command.exit_code) or "Exit code 0."
    return f"Command {command.number} has ended. {how}"


def newest_text(command: BackgroundCommand, size: int = _SHOWN) -> str:
    """Return the end of a command's output, from the beginning of a line."""
    data = command.newest_output(size)
    if len(data) == size:
        data = data[data.find(b"\n") + 1 :]
    return rendered(data.decode(errors="replace")).strip("\n")


async def run_tasks(commands: BackgroundCommands, words: str, fenced: Callable[[str], str]) -> str:
    """Do what the command says, and return its output as Markdown. `fenced` makes code of a text."""
    wanted = parse_tasks(words)
    if wanted is None:
        return USAGE
    if wanted.number is None:
        lines = list(task_lines(commands))
        return fenced("\n".join(lines)) if lines else NONE
    if (command := commands.find(wanted.number)) is None:
        return unknown_task(wanted.number)
    if wanted.end:
        await asyncio.to_thread(command.end)
        return f"Command {command.number} was ended."
    output = newest_text(command)
    return "\n\n".join(filter(None, [fenced(output) if output else "", "" if command.running else ended(command)]))


def _state(command: BackgroundCommand) -> str:
    if command.running:
        return "running"
    return "ended  " if not command.exit_code or command.ended_by_user else "failed "


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {rest:02}s" if minutes else f"{rest}s"
