"""The messages that the chat sends: what the user wrote, what it mentions, and the output of `!command`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.session_view import SessionView
from outrider.cli.prompt_input import Mentions
from outrider.coding.mcp.server_offers import is_prompt, prompt_parts, with_resources
from outrider.conversation.attachments import Attachment


class MessageComposer:
    """Composes messages. What waits for the next message goes with it, once."""

    def __init__(self, current: CurrentSession, view: SessionView, attachments: Sequence[Attachment]) -> None:
        self._current = current
        self._view = view
        self._attachments = attachments
        """The files of --attach."""
        self._outputs: list[str] = []
        """What the agent must still be told about the user's own commands."""

    async def run_command(self, command: str) -> None:
        """Run a command of the user in the terminal. Its output goes with the next message."""
        from outrider.cli.chat.own_command import as_message, run_shell_command

        try:
            with self._view.region.held():
                code, output = await run_shell_command(command, self._current.folder)
        except OSError as error:
            self._view.problem(f"The command was not run: {error.strerror}.")
            return
        self._outputs.append(as_message(command, code, output))
        if self._current.place:
            self._view.dim("This ran on your machine, not where the agent's tools work.")
        self._view.dim("The agent sees this with your next message." if code == 0 else f"Exit code {code}.")

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
        mentions = await asyncio.to_thread(Mentions, text, self._current.bench.project.files)
        if (commands := self._current.bench.prompt_commands).has(text):
            files = await asyncio.to_thread(mentions.attached)
            return [*await commands.parts(text), *more, *files]
        known = [server.name for server in servers.servers] if servers else []
        for name in mentions.missing(known):
            self._view.dim(f"No file {name}: sent as text.")
        for name in mentions.folders:
            self._view.dim(f"{name} is a folder: the agent sees its name, and lists it if it needs to.")
        return await with_resources([text, *more, *await asyncio.to_thread(mentions.attached)], servers)
