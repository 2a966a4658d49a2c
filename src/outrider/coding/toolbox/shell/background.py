"""Commands in the background: their output goes to a file, and they end with the session at the latest."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

from outrider.coding.access import Access
from outrider.coding.toolbox.shell.outcomes import details, exit_sentence
from outrider.coding.toolbox.shell.output import readable
from outrider.coding.toolbox.shell.shell import Shell
from outrider.processes.processes import Process, end
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads

FIRST_LOOK = 0.2
"""Seconds to wait for a command that fails at once."""
_SHOWN = 4_000


async def start_in_background(shell: Shell, command: str, access: Access, threads: Threads) -> ToolResult:
    """Start a command and report whether it has already ended. Raises ToolCallError."""
    workspace, began = shell.workspace, time.monotonic()
    note = shell.enter_folder()
    folder = workspace.shell_cwd
    path = workspace.temporary / f"background-{os.urandom(4).hex()}.txt"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        # In the event loop's thread: bwrap --die-with-parent ends the sandbox when the thread that started it ends.
        process = shell.start(command, handle, access=access)
    except BaseException:
        os.close(handle)
        raise
    waiter = _Waiter(shell, process, handle)
    threading.Thread(target=waiter.wait, name="outrider-background", daemon=True).start()
    try:
        await threads.run(waiter.known.wait, FIRST_LOOK)
    except asyncio.CancelledError:
        await asyncio.shield(threads.run(end, [process]))
        raise
    if waiter.known.is_set():
        lines = _ended_text(path)
        lines.append(shell.missing_access(access, waiter.exit_code, lines[0]))
    else:
        lines = [_started_text(process, path, shell.sandbox is not None and access != "full")]
    figures = details(waiter.exit_code, time.monotonic() - began, path.stat().st_size, folder, process.pid)
    return ToolResult("\n".join(filter(None, [*lines, note])), is_error=bool(waiter.exit_code), details=figures)


class _Waiter:
    """Waits for the end of a background command."""

    def __init__(self, shell: Shell, process: Process, handle: int) -> None:
        self.exit_code: int | None = None
        self.known = threading.Event()
        self._processes = shell.workspace.processes
        self._process = process
        self._handle = handle

    def wait(self) -> None:
        """Wait for the shell and append its exit code to the output. Processes that it started go on."""
        code = self._process.reap()
        if not self._process.running():
            self._processes.forget(self._process)
        sentence = exit_sentence(code) or "Exit code 0."
        try:
            os.write(self._handle, f"\n[The command has ended. {sentence}]\n".encode())
        except OSError:  # the disk is full: the exit code is not essential
            pass
        finally:
            os.close(self._handle)
        self.exit_code = code
        self.known.set()


def _started_text(process: Process, path: Path, sandboxed: bool) -> str:
    # In a sandbox, one command does not see the processes of another.
    how = "It" if sandboxed else f"`kill -- -{process.pid}` ends the command; otherwise it"
    return (
        f"The command runs in the background (process {process.pid}). Its output goes to {path}; Read shows it. "
        f"The last line says when it has ended. The file grows without a limit. {how} ends with the session."
    )


def _ended_text(path: Path) -> list[str]:
    with path.open("rb") as file:
        output = readable(file.read(_SHOWN).decode(errors="replace")).strip("\n")
    return [output, f"The command has ended already. All of its output is in {path}."]
