"""The commands of the chat by name: `/help` and the others.

To add a command, add a `ChatCommand` to the list of the file that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable

from outrider.cli.chat.commands import agent, output, sessions
from outrider.cli.chat.commands.command import ChatCommand, CommandContext, Exit, Next
from outrider.cli.chat.completion import matching_names
from outrider.cli.styles import BOLD, fit, hanging, styled
from outrider.errors import OutriderError
from outrider.text.visible import safe_line

KEYS = {
    "!command": "run a command in this terminal; the agent sees its output with the next message",
    "@path": "attach a file or picture; @server:uri attaches an MCP resource",
    "\\ Enter": "insert a line break; also Alt-Enter and Ctrl-J",
    "Tab": "complete a command or a path",
    "Shift-Tab": "switch the permission mode",
    "Ctrl-O": "show the last calls in full; while a sub-agent works, its steps",
    "Ctrl-B": "move the running command to the background: /tasks",
    "Ctrl-Z": "stop the program, at any time; fg continues it",
    "Ctrl-G": "edit the message in $EDITOR",
    "Ctrl-V": "attach the picture in the clipboard",
    "Esc, Ctrl-C": "cancel the current turn; Ctrl-C twice in an empty line exits",
    "Esc Esc": "choose one of your messages, to go back to it: /rewind",
    "Ctrl-D": "exit",
}


class Commands:
    """The commands by name."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._commands: dict[str, ChatCommand] = {}
        self._aliases: dict[str, str] = {}
        self.add([ChatCommand("help", "list the commands and keys", self._help)])
        self.add([*agent.COMMANDS, *sessions.COMMANDS, *output.COMMANDS, *agent.SETUP_COMMANDS])
        self.add([ChatCommand("exit", "exit the chat", lambda *_: Exit(), aliases=("quit", "q"))])

    def add(self, commands: Iterable[ChatCommand]) -> None:
        """Add commands. One with the name of another replaces it."""
        for command in commands:
            self._commands[command.name] = command
            self._aliases.update(dict.fromkeys(command.aliases, command.name))

    @property
    def descriptions(self) -> dict[str, str]:
        return {command.name: command.description for command in self._commands.values()}

    def has(self, text: str) -> bool:
        """Return whether a line calls one of these commands."""
        name = text[1:].strip().partition(" ")[0]
        return text.startswith("/") and self._aliases.get(name, name) in self._commands

    def run(self, text: str) -> Next:
        name, _, rest = text[1:].strip().partition(" ")
        command = self._commands.get(self._aliases.get(name, name))
        if command is None:
            self._context.view.problem(f"Unknown command /{name}; {self._hint(name)}")
            return None
        try:
            return command.run(self._context, rest.strip())
        except OutriderError as error:
            self._context.view.problem(str(error))
            return None

    def _hint(self, name: str) -> str:
        from difflib import get_close_matches

        known = [*self._commands, *self._context.current.prompt_commands]
        close = get_close_matches(name, known, 1) or (matching_names(known, name) if name else [])
        return f"did you mean /{close[0]}?" if close else "/help lists the commands."

    def _help(self, chat: CommandContext, _: str) -> None:
        width = chat.view.region.width
        for name, described in self.descriptions.items():
            chat.view.write(hanging(f"  {styled(f'/{name:<12}', BOLD)} ", described, width))
        for name, described in chat.current.prompt_commands.items():
            head = f"  {styled(f'/{safe_line(name):<12}', BOLD)} "
            chat.view.write(hanging(head, fit(safe_line(described), 160), width))
        chat.view.write([""])
        for key, meaning in KEYS.items():
            chat.view.write(hanging(f"  {styled(f'{key:<13}', BOLD)} ", meaning, width))
