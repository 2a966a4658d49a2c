"""Commands with a terminal: start one, type into it, and return what is new on its screen.

They are background commands: one list, one file for the output of each, and one end, with the session at the latest.
"""

from __future__ import annotations

import asyncio
import time

from outrider.coding.toolbox.background_commands import BackgroundCommand
from outrider.coding.toolbox.command_terminal import KEYS, CommandTerminal, keys_of
from outrider.coding.toolbox.shell.background import start
from outrider.coding.toolbox.shell.outcomes import PRINTED, details, exit_sentence
from outrider.coding.toolbox.shell.shell import CommandCall, Shell
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.processes.processes import end
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads

MOST = 8
"""Terminals that may be open at a time."""
KILL = "Kill"
"""What is typed to end a command for certain: no key has this name."""
_MANUAL = (
    "Bash(session={number}, command=…) types into it, exactly that: `\\n` is Enter; an empty command only looks. A "
    f"command of nothing but key names presses them: C-c, C-d, {', '.join(list(KEYS)[3:8])}, … `{KILL}` ends it."
)


async def start_in_terminal(shell: Shell, call: CommandCall, threads: Threads) -> ToolResult:
    """Start a command in a terminal, and return its screen once it waits for keys, has ended, or the time is over."""
    if (running := sum(each.running for each in shell.workspace.background.own_terminals)) >= MOST:
        raise ToolCallError(f"The command was not run: {running} terminals are open. End one: {_listed(shell)}.")
    note = shell.enter_folder()
    try:
        started, _ = start(shell, call, has_terminal=True)
    except OSError as error:
        raise ToolCallError(f"The command was not run: there is no terminal for it ({error.strerror}).") from None
    try:
        return await _look(shell, started, call.seconds, threads, note, is_new=True)
    except asyncio.CancelledError:
        await asyncio.shield(threads.run(end, [started.process]))
        raise


async def type_into(shell: Shell, number: int, call: CommandCall, threads: Threads) -> ToolResult:
    """Type into the terminal of a running command, and return what is new on its screen. Raises ToolCallError."""
    command = shell.workspace.background.own_terminal(number)
    if command is None:
        raise ToolCallError(
            f"There is no session {number}: it has ended, or it belonged to a process that has ended since. "
            f"{_listed(shell) or 'No command runs in a terminal'}. Start it again with terminal=true."
        )
    note, terminal, text = "", _terminal_of(command), call.command
    if text.strip() == KILL:
        await threads.run(end, [command.process])
        await threads.run(command.shell_ended.wait, 1.0)
    elif text and not await threads.run(terminal.type, keys_of(text)) and command.exit_code is None:
        note = "The command did not take all of the keys."
    return await _look(shell, command, call.seconds, threads, note)


async def _look(
    shell: Shell, command: BackgroundCommand, seconds: float, threads: Threads, note: str, *, is_new: bool = False
) -> ToolResult:
    began, terminal = time.monotonic(), _terminal_of(command)
    await threads.run(terminal.wait, command.shell_ended, seconds)
    shown = terminal.take()
    if command.exit_code is None:
        waits = "It waits for input." if terminal.waits else "It still runs."
        manual = f" {_MANUAL.format(number=command.number)}" if is_new else ""
        ends = f"[Session {command.number}. {waits}{manual}]"
    else:
        lacks = shell.missing_access(command.access, command.exit_code, shown)
        ends = " ".join(filter(None, ["The command has ended.", exit_sentence(command.exit_code), lacks]))
    figures = details(command.exit_code, time.monotonic() - began, len(shown), shell.folder)
    figures |= {"session": command.number, PRINTED: len(shown)}
    lines = [shown or "Nothing new is on the screen.", ends, note]
    return ToolResult("\n".join(filter(None, lines)), is_error=bool(command.exit_code), details=figures)


def _terminal_of(command: BackgroundCommand) -> CommandTerminal:
    assert command.terminal
    return command.terminal


def _listed(shell: Shell) -> str:
    running = [each for each in shell.workspace.background.own_terminals if each.running]
    return ", ".join(f"session {each.number} runs {printable(each.command)[:80]}" for each in running)
