"""Commands in the background: their output goes to a file, and they end with the session at the latest.

A command with a terminal, which the model types into, is one of them: one list, one file of output, one end.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from pathlib import Path

from outrider.coding.toolbox.background_commands import BackgroundCommand
from outrider.coding.toolbox.command_terminal import KEYS, SIZE, CommandTerminal, keys_of
from outrider.coding.toolbox.shell.outcomes import PRINTED, details, exit_sentence
from outrider.coding.toolbox.shell.output import make_pipe
from outrider.coding.toolbox.shell.shell import CommandCall, Shell
from outrider.coding.toolbox.tool_errors import ToolCallError, printable
from outrider.processes.processes import end
from outrider.processes.pseudo_terminal import open_terminal
from outrider.text import human_size
from outrider.text.terminal import rendered
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads

FIRST_LOOK = 0.2
"""Seconds to wait for a command that fails at once."""
_SHOWN = 4_000
_READ = 256 * 1024
_NAP = 0.02
"""Seconds to sleep after a full read, so that a flood of output does not take a whole processor."""
_POLL_SECONDS = 0.2
"""Seconds within which the end of the shell is noticed on systems without pidfds."""


async def start_in_background(shell: Shell, call: CommandCall, threads: Threads) -> ToolResult:
    """Start a command and report whether it has already ended. Raises ToolCallError."""
    began, note = time.monotonic(), shell.enter_folder()
    folder = shell.workspace.shell_cwd
    started, following = start(shell, call)
    try:
        await threads.run(following.shell_ended.wait, FIRST_LOOK)
    except asyncio.CancelledError:
        await asyncio.shield(threads.run(end, [started.process]))
        raise
    if started.exit_code is None:
        lines = [started_text(started, shell.sandbox is not None and call.access != "full")]
    else:
        lines = _ended_text(started)
        lines.append(shell.missing_access(call.access, started.exit_code, lines[0]))
    size = started.path.stat().st_size
    figures = details(started.exit_code, time.monotonic() - began, size, folder, started)
    return ToolResult("\n".join(filter(None, [*lines, note])), is_error=bool(started.exit_code), details=figures)


def start(shell: Shell, call: CommandCall, *, has_terminal: bool = False) -> tuple[BackgroundCommand, Following]:
    """Start a command, and a thread that follows it. Raises ToolCallError."""
    output = NewestOutput.new(shell)
    source, sink = open_terminal(SIZE) if has_terminal else make_pipe()
    try:
        # In the event loop's thread: bwrap --die-with-parent ends the sandbox when the thread that started it ends.
        process = shell.start(call, sink, has_terminal=has_terminal)
    except BaseException:
        os.close(source)
        output.close()
        raise
    finally:
        os.close(sink)
    terminal = CommandTerminal(source) if has_terminal else None
    started = shell.workspace.background.add(call.command, process, output.path, call.access, terminal)
    following = Following(shell, started, source, output)
    threading.Thread(target=following.run, name="outrider-background", daemon=True).start()
    return started, following


class Following:
    """Copies the output of a background command to its file, in a thread, until no process can print any more."""

    def __init__(self, shell: Shell, command: BackgroundCommand, source: int, output: NewestOutput) -> None:
        self.shell_ended = command.shell_ended
        self._processes = shell.workspace.processes
        self._command = command
        self._source = source
        self._output = output
        self._open = True

    def run(self) -> None:
        """Read until the shell has ended, append its exit code, and go on for the processes that it has left."""
        process = self._command.process
        try:
            while not process.ended():
                self._read(process.exit_handle)
            self._drain()
            self._command.set_exit_code(process.reap())
            self._output.append(f"\n[{_end_sentence(self._command)}]\n".encode())
            if not process.running():
                self._processes.forget(process)
            self.shell_ended.set()
            while self._open:
                self._read()
        finally:
            self._command.running = False
            if self._command.terminal:
                self._command.terminal.close()
            self.shell_ended.set()
            os.close(self._source)
            self._output.close()

    def _read(self, or_readable: int | None = None) -> None:
        poll = select.poll()
        for handle in (self._source if self._open else None, or_readable):
            if handle is not None:
                poll.register(handle, select.POLLIN)
        unseen_end = or_readable is None and self._command.exit_code is None
        ready = dict(poll.poll(_POLL_SECONDS * 1000 if unseen_end else None))
        if self._source in ready and self._copy() >= _READ:
            time.sleep(_NAP)

    def _drain(self) -> None:
        """Copy what is in the pipe by now; processes that go on may print more."""
        deadline = time.monotonic() + 1
        while self._open and self._copy() and time.monotonic() < deadline:
            pass

    def _copy(self) -> int:
        """Copy what is available. Return its size."""
        try:
            data = os.read(self._source, _READ)
        except BlockingIOError:
            return 0
        except OSError:  # no program has the terminal any more
            data = b""
        self._open = bool(data)
        if data:
            self._output.append(data)
            if self._command.terminal:
                self._command.terminal.show(data)
        return len(data)


def _end_sentence(command: BackgroundCommand) -> str:
    if command.ended_by_user:
        return "The user has ended the command."
    return f"The command has ended. {exit_sentence(command.exit_code) or 'Exit code 0.'}"


def started_text(command: BackgroundCommand, sandboxed: bool, how: str = "The command runs in the background") -> str:
    """Return what the model reads about a command that goes on."""
    # In a sandbox, one command does not see the processes of another.
    pid = command.process.pid
    first = f"{how} (process {pid}). Its output goes to {command.path}; Read shows it. "
    how = f"`kill -- -{pid}`{' with the access `full`' if sandboxed else ''} ends the command; otherwise it"
    return (
        f"{first}"
        f"The last line says when it has ended. Of a long output, the file keeps at least the last {human_size(KEPT)}. "
        f"{how} ends with the session."
    )


def _ended_text(command: BackgroundCommand) -> list[str]:
    with command.path.open("rb") as file:
        output = rendered(file.read(_SHOWN).decode(errors="replace")).strip("\n")
    return [output, f"The command has ended already. All of its output is in {command.path}."]


KEPT = 5 * 1024 * 1024
"""Bytes that are kept at least. The file grows to twice that, then its older half is dropped."""


class NewestOutput:
    """Appends to a file for the owner alone. A write that fails is left out: the command goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._dropped = 0
        self._size = 0
        self._handle = self._open(path)

    @classmethod
    def new(cls, shell: Shell) -> NewestOutput:
        return cls(shell.workspace.temporary / f"background-{os.urandom(4).hex()}.txt")

    def append(self, data: bytes) -> None:
        try:
            os.write(self._handle, data)
            self._size += len(data)
            if self._size > 2 * KEPT:
                self._drop_half()
        except OSError:  # the disk is full, or the session has removed its folder
            pass

    def close(self) -> None:
        """Close the file. It is not deleted."""
        os.close(self._handle)

    def _drop_half(self) -> None:
        """Replace the file at once by one that begins with a line on what it leaves out, at a whole line."""
        with self.path.open("rb") as file:
            file.seek(-KEPT, os.SEEK_END)
            rest = file.read()
        rest = rest[rest.find(b"\n") + 1 :]
        self._dropped += self._size - len(rest)
        part = self.path.with_suffix(".part")
        handle = self._open(part)
        try:
            os.write(handle, f"[{human_size(self._dropped)} of older output are dropped.]\n".encode() + rest)
            os.replace(part, self.path)
        except OSError:
            os.close(handle)
            part.unlink(missing_ok=True)
            raise
        os.close(self._handle)
        self._handle, self._size = handle, os.fstat(handle).st_size

    def _open(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)


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
    command = next((each for each in shell.workspace.background.own_terminals if each.number == number), None)
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
