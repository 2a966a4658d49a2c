"""`!command`: a command of the user, whose output the agent sees with the next message."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from outrider.cli.command_output import command_output_lines
from outrider.processes.guard import Guard
from outrider.processes.process_tree import MARK
from outrider.processes.starting import SHELL, start

KEPT = 20_000
"""Characters of the output that are sent."""


async def run_shell_command(command: str, folder: Path, show: Callable[[Sequence[str]], None]) -> tuple[int, str]:
    """Run a command of the user and show its lines as they come. Return its exit code and the end of its output.

    It runs with the user's rights, outside of the sandbox, and ends with everything that it started if it is cancelled.
    """
    mark = os.urandom(8).hex()
    guard = Guard(mark)  # ends it if this program is killed
    with suppress(OSError):
        guard.watch([])  # before the command runs, which carries the mark
    process = await start(
        [SHELL, "-c", command],
        environment={**os.environ, MARK: mark},  # as in the user's own shell: it is the user's command
        folder=folder,
        input=asyncio.subprocess.DEVNULL,
        output=asyncio.subprocess.PIPE,
        errors=asyncio.subprocess.STDOUT,
    )
    assert process.stdout
    with suppress(OSError):
        guard.watch([process.pid])
    decoder, line, kept = codecs.getincrementaldecoder("utf-8")("replace"), "", ""
    try:
        while data := await process.stdout.read(65536):
            text = decoder.decode(data)
            kept = (kept + text)[-KEPT:]
            whole, newline, line = (line + text).rpartition("\n")
            if newline:
                show(command_output_lines(whole))
        if line:
            show(command_output_lines(line))
        return await process.wait(), kept
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        guard.close()
        await process.wait()


def as_message(command: str, code: int, output: str) -> str:
    """Return what the agent reads about a command of the user."""
    return f"I ran this command: {command}\nExit code: {code}\nOutput:\n{output or '(none)'}\n"
