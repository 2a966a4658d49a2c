"""The messages that the chat sends: what the user wrote, what it mentions, and the output of `!command`."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.session_view import SessionView
from outrider.cli.mentions import mentioned_folders, missing_files, with_mentioned_files
from outrider.coding.mcp.server_offers import is_prompt, prompt_parts, with_resources
from outrider.conversation.attachments import Attachment
from outrider.processes.guard import Guard
from outrider.processes.process_tree import MARK
from outrider.processes.starting import SHELL, start
from outrider.text.terminal import command_output_lines


class MessageComposer:
    """Composes messages. What waits for the next message goes with it, once."""

    def __init__(self, current: CurrentSession, view: SessionView, attachments: Sequence[Attachment]) -> None:
        self._current = current
        self._view = view
        self._attachments = attachments
        """The files of --attach."""
        self._outputs: list[str] = []
        """What the agent must still be told about the user's own commands."""

    def add_output(self, text: str) -> None:
        """Send a text with the next message of the user."""
        self._outputs.append(text)

    def take_outputs(self) -> list[str]:
        """Return the texts that wait for the next message."""
        taken, self._outputs = self._outputs, []
        return taken

    async def compose(self, text: str) -> list[str | Attachment]:
        """Return the message: a text with what it mentions, or the prompt of a server or a command that it calls."""
        servers = self._current.servers
        more, self._attachments = self._attachments, ()
        if servers and is_prompt(text, servers):
            return [*await prompt_parts(text, servers), *more]
        if (commands := self._current.bench.prompt_commands).has(text):
            _, *files = with_mentioned_files(text, self._current.folder, more)
            return [*await commands.parts(text), *files]
        known = [server.name for server in servers.servers] if servers else []
        for name in missing_files(text, self._current.folder, known):
            self._view.dim(f"No file {name}: sent as text.")
        for name in mentioned_folders(text, self._current.folder):
            self._view.dim(f"{name} is a folder: the agent sees its name, and lists it if it needs to.")
        return await with_resources(with_mentioned_files(text, self._current.folder, more), servers)


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
