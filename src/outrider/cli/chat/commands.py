"""The commands of the chat: `/help` and the others."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.past_calls import PastCalls, stored_details
from outrider.cli.chat.picker import Choice
from outrider.cli.chat.session_view import SessionView
from outrider.cli.chat.signals import copy
from outrider.cli.chat.tool_call_lines import coloured_diff, finished_call_lines
from outrider.cli.sanitize import safe_line, safe_lines
from outrider.cli.styles import BOLD, fit, styled, wrap_columns
from outrider.coding import sentences
from outrider.coding.mcp.states import state_lines
from outrider.errors import OutriderError
from outrider.text import counted, dollars

if TYPE_CHECKING:
    from outrider.providers.base import ToolSpec
    from outrider.runtime.session import Session

WIRE_LINES = 300
_OTHER_NAMES = {"quit": "exit", "q": "exit", "new": "clear", "mode": "permissions"}
RECENT_MESSAGES = 12
"""Messages shown when a session is resumed."""


class Compact(NamedTuple):
    """Summarise the conversation next."""

    focus: str
    """What the summary must keep."""


class Rewind(NamedTuple):
    """List the messages, show what a rewind would do, or rewind next."""

    to: int | Literal["undo"] | None
    """The message to go back to; None lists them."""
    what: str = ""
    """`both`, `files` or `conversation`; empty shows what would be done."""
    force: bool = False
    """Whether to overwrite files that someone else changed."""


class Pick(NamedTuple):
    """Let the user choose next."""

    title: str
    choices: Sequence[Choice]
    take: Callable[[str], None]
    """Called with the value of the choice."""


class Page(NamedTuple):
    """Show a text in the pager next."""

    text: str


Next: TypeAlias = Literal["continue", "exit"] | Compact | Rewind | Pick | Page | None
"""What follows a command: continue the session without a new message, exit the chat, compact, rewind, let the user
choose, show a text, or read the next line."""


class Commands:
    """The commands by name. Each takes the rest of its line as its argument."""

    def __init__(self, current: CurrentSession, view: SessionView) -> None:
        self._current = current
        self._view = view
        self._shown_consent = b""
        """The content of the project's .mcp.json that the user has seen."""
        self._commands: dict[str, tuple[str, Callable[[str], Next]]] = {
            "help": ("list the commands and keys", self._help),
            "model": (f"{sentences.COMMANDS['model']}: /model NAME", self._model),
            "effort": (f"{sentences.COMMANDS['effort']}: /effort LEVEL", self._show_effort),
            "permissions": (
                f"{sentences.COMMANDS['permissions']}: /permissions ask|edits|all|plan",
                self._permissions,
            ),
            "tools": (sentences.COMMANDS["tools"], self._tools),
            "mcp": (f"{sentences.COMMANDS['mcp']}; /mcp trust approves the project's", self._mcp),
            "sessions": ("choose a session to resume; /sessions ID resumes one", self._sessions),
            "rename": ("give this session another title: /rename TITLE", self._rename),
            "continue": (sentences.COMMANDS["continue"], self._continue),
            "fork": ("continue in a copy of this session", self._fork),
            "rewind": ("go back to an earlier message; /rewind N shows what it does, /rewind undo", self._rewind),
            "wire": ("show the next request; /wire MODEL shows it for another model", self._wire),
            "context": (sentences.COMMANDS["context"], self._context),
            "compact": (f"{sentences.COMMANDS['compact']}; /compact WORDS says what to keep", self._compact),
            "cost": (sentences.COMMANDS["cost"], self._cost),
            "tree": ("show this session's sub-agents with their costs", self._tree),
            "copy": ("copy the last answer to the clipboard", self._copy),
            "diff": ("show what has changed in the folder since the last commit", self._diff),
            "export": ("write the conversation to a file: /export NAME.md or NAME.html", self._export),
            "thinking": ("show the model's last reasoning", self._thinking),
            "clear": ("start a new session", self._clear),
            "exit": ("exit the chat", self._exit),
        }

    @property
    def descriptions(self) -> dict[str, str]:
        """Return the description of each command."""
        return {name: description for name, (description, _) in self._commands.items()}

    def has(self, text: str) -> bool:
        """Return whether a line calls one of the chat's own commands."""
        name = text[1:].strip().partition(" ")[0]
        return text.startswith("/") and _OTHER_NAMES.get(name, name) in self._commands

    def run(self, text: str) -> Next:
        """Run a line that begins with /."""
        name, _, rest = text[1:].strip().partition(" ")
        found = self._commands.get(_OTHER_NAMES.get(name, name))
        if found is None:
            from difflib import get_close_matches

            close = get_close_matches(name, [*self._commands, *self._current.prompt_commands], 1)
            hint = f"did you mean /{close[0]}?" if close else "/help lists the commands."
            self._view.problem(f"Unknown command /{name}; {hint}")
            return None
        try:
            return found[1](rest.strip())
        except OutriderError as error:
            self._view.problem(str(error))
            return None

    def _help(self, _: str) -> None:
        lines = [f"  {styled(f'/{name:<12}', BOLD)} {description}" for name, description in self.descriptions.items()]
        keys = {
            "!command": "run a command; the agent sees its output with the next message",
            "@path": "attach a file or picture; @server:uri attaches an MCP resource",
            "\\ Enter": "insert a line break; also Alt-Enter and Ctrl-J",
            "Tab": "complete a command or a path",
            "Shift-Tab": "switch the permission mode",
            "Ctrl-O": "show the last calls with their whole output",
            "Ctrl-G": "edit the message in $EDITOR",
            "Ctrl-V": "attach the picture in the clipboard",
            "Esc, Ctrl-C": "cancel the current turn; Ctrl-C twice in an empty line exits",
            "Esc Esc": "list your messages, to go back to one: /rewind",
            "Ctrl-D": "exit",
        }
        for name, description in self._current.prompt_commands.items():
            lines.append(f"  {styled(f'/{safe_line(name):<12}', BOLD)} {fit(safe_line(description), 80)}")
        lines += ["", *(f"  {styled(f'{key:<13}', BOLD)} {description}" for key, description in keys.items())]
        self._view.write(lines)

    def _model(self, name: str) -> Next:
        if not name:
            from outrider.cli.chat.session_choices import model_choices

            return Pick(sentences.model_is(self._current.model_name), model_choices(), self._use_model)
        self._use_model(name)
        return None

    def _use_model(self, name: str) -> None:
        self._current.use_model(name)
        self._view.dim(f"{sentences.model_is(self._current.model_name)} `outrider models` lists the models.")

    def _show_effort(self, name: str) -> None:
        from outrider.providers import resolve
        from outrider.providers.base import EFFORT_CHOICES, EFFORTS
        from outrider.providers.efforts import levels_for

        session = self._current.session
        levels = levels_for(session.provider if session else resolve(self._current.model_name))
        names = [*(EFFORTS if levels is None else levels), "default"]
        if name and name not in EFFORT_CHOICES:
            self._view.problem(f"Unknown effort {name!r}; choose one of {', '.join(names)}.")
            return
        for effort in EFFORT_CHOICES:
            if effort == name:
                self._current.use_effort(effort)
        if len(names) == 1:
            self._view.dim(f"{self._current.model_name} has no effort to set.")
        else:
            self._view.dim(f"Effort: {self._current.effort or 'default'}. The model has: {', '.join(names)}.")

    def _permissions(self, name: str) -> None:
        from outrider.coding.permissions.question import MODES

        if name and name not in MODES:
            self._view.problem(sentences.unknown_mode(name))
            return
        for mode in MODES:
            if mode == name:
                self._current.use_mode(mode)
        self._view.dim(sentences.mode_is(self._current.mode))

    def _tools(self, _: str) -> None:
        width = self._view.region.width
        servers = self._current.servers
        for tool in (*self._current.bench.tools, *(servers.tools() if servers else ())):
            first = tool.description.strip().partition("\n")[0]
            self._view.write([f"  {styled(f'{tool.name:<10}', BOLD)} {fit(safe_line(first), width - 14)}"])
        for served in self._current.session.agent.server_tools if self._current.session else ():
            self._view.write([f"  {styled(f'{served.name:<10}', BOLD)} {sentences.SERVER_TOOL}"])

    def _mcp(self, word: str) -> None:
        from outrider.cli.mcp import consent_lines

        waiting = self._current.found_servers.waiting
        if word == "trust" and waiting and self._shown_consent == waiting.content:
            self._current.approve_servers()
            self._view.dim("Approved: .mcp.json as it is now. Its servers are starting.")
            return
        servers = self._current.bench.servers
        self._view.write([f"  {safe_line(line)}" for line in state_lines(servers.statuses() if servers else ())])
        if waiting:
            self._shown_consent = waiting.content
            width = self._view.region.width - 2
            shown = [part for line in consent_lines(waiting) for part in wrap_columns(line, width)]
            self._view.write([f"  {part}" for part in shown])
            self._view.note("These run with your rights, outside of the sandbox. To approve them: /mcp trust")
        elif not servers:
            self._view.dim("No MCP servers. To add one: outrider mcp add NAME -- COMMAND ARGS…")

    def _sessions(self, id: str) -> Next:
        from outrider.cli.chat.session_choices import session_choices

        if id:
            self._resume(id)
        elif choices := session_choices(self._current.log, self._current.folder):
            return Pick("Resume a session", choices, self._resume)
        else:
            self._view.dim("No sessions yet.")
        return None

    def _resume(self, id: str) -> None:
        self.show_session(self._current.go_to(id))
        worked_in = self._current.log.settings(id).cwd
        if worked_in and worked_in != str(self._current.folder):
            self._view.note(f"This session worked in {worked_in}; it continues in {self._current.folder}.")

    def _rename(self, title: str) -> None:
        if self._current.session is None:
            self._view.dim("There are no messages yet, so there is no session to rename.")
        elif not title:
            self._view.problem("Give the title: /rename TITLE")
        else:
            self._current.session.rename(title)
            self._view.dim(f"Renamed: {safe_line(title)}")

    def _copy(self, _: str) -> None:
        messages = self._current.session.history.tail if self._current.session else ()
        said = next((each.text for each in reversed(messages) if each.role == "assistant" and each.text.strip()), "")
        if not said:
            self._view.dim("There is no answer to copy yet.")
        elif copy(sys.stdout, said, os.environ):
            self._view.dim(
                f"Copied: {counted(len(said), 'character')}. If it does not arrive, allow OSC 52 in your terminal."
            )
        else:
            self._view.problem("The answer is too long for the clipboard; /export writes it to a file.")

    def _diff(self, _: str) -> Next:
        from outrider.cli.chat.git_diff import changes_since_commit

        lines = safe_lines(changes_since_commit(self._current.folder)).rstrip("\n").split("\n")
        if lines == [""]:
            self._view.dim("Nothing has changed since the last commit.")
            return None
        shown = list(coloured_diff(lines, self._view.region.width))
        if len(shown) > self._view.region.height - 4:
            return Page("\n".join(shown))
        self._view.write(shown)
        return None

    def _export(self, name: str) -> None:
        from outrider.cli.chat.transcript_file import write_transcript

        session = self._current.session
        if session is None:
            self._view.dim("There are no messages yet.")
            return
        path = self._current.folder / Path(name or f"outrider-{session.id[:8]}.md").expanduser()
        heading = self._current.log.session(session.id).title or "Conversation"
        write_transcript(path, heading, self._current.log.messages(session.id), session.store)
        self._view.dim(f"Written: {safe_line(str(path))}")

    def show_session(self, session: Session) -> None:
        """Show the session's id and its last messages."""
        self._view.write(self._recent_lines(session))

    def _recent_lines(self, session: Session) -> Iterator[str]:
        width = self._view.region.width
        yield styled(f"Session {session.id[:8]}, last messages:", BOLD)
        yield ""
        newest = session.history.tail[-RECENT_MESSAGES:]
        past = PastCalls(newest, stored_details(self._current.log, session.id), self._current.folder)
        for message in newest:
            if message.role == "user" and message.text.strip():
                yield from (styled(f"› {fit(line, width - 2)}", BOLD) for line in safe_lines(message.text).split("\n"))
                yield ""
            elif message.text.strip():
                yield from self._view.rendered(message.text)
                yield ""
            calls = list(past.of(message))
            for call_title, event in calls:
                yield from finished_call_lines(event, call_title, width)
            yield from [""] if calls else []
        if session.is_unfinished:
            yield "The last turn was interrupted. /continue resumes it; or send a new message."

    def _continue(self, _: str) -> Next:
        if self._current.session and self._current.session.is_unfinished:
            return "continue"
        self._view.dim(sentences.NOT_INTERRUPTED)
        return None

    def _fork(self, _: str) -> None:
        original = self._current.fork()
        if original:
            self._view.dim(f"Continuing in a copy; session {original[:8]} stays unchanged.")
        else:
            self._view.dim("There is nothing to copy yet.")

    def _wire(self, model: str) -> None:
        from outrider.cli.wire import pretty, sending_provider
        from outrider.providers.base import Request

        session = self._current.session
        messages = session.history.sendable() if session else []
        if session is None or not messages:
            self._view.dim("There are no messages yet, so there is no request.")
            return
        provider = sending_provider(model or self._current.model_name)
        served = session.agent.server_tools if not model else ()
        request = Request(messages, session.store, session.agent.instructions, session.specs, server_tools=served)
        body = provider.render(request)
        lines = safe_lines(pretty(_without_tools(body, session.specs)).decode()).split("\n")
        if len(lines) > WIRE_LINES:
            self._view.dim(f"… {len(lines) - WIRE_LINES} earlier lines")
        self._view.write([fit(line, self._view.region.width) for line in lines[-WIRE_LINES:]])

    def _context(self, _: str) -> None:
        from outrider.cli.chat.context_lines import context_lines

        lines = context_lines(self._current.context, self._view.region.width)
        self._view.write([*(f"  {line}".rstrip() for line in lines), ""])

    def _compact(self, focus: str) -> Next:
        if self._current.session:
            return Compact(focus)
        self._view.dim("There are no messages yet.")
        return None

    def _rewind(self, words: str) -> Next:
        if not self._current.session:
            self._view.dim("There are no messages yet.")
            return None
        given = words.split()
        force = "force" in given
        given = [word for word in given if word != "force"]
        to: int | Literal["undo"] | None = None
        if given:
            to = "undo" if given[0] == "undo" else int(given[0]) if given[0].isdecimal() else None
        what = given[1] if len(given) > 1 else ""
        if (given and to is None) or what not in ("", "both", "files", "conversation") or len(given) > 2:
            self._view.problem("Write /rewind, /rewind N, /rewind N both|files|conversation, or /rewind undo.")
            return None
        return Rewind(to, "both" if to == "undo" else what, force)

    def _cost(self, _: str) -> None:
        usage = self._current.usage
        if usage is None:
            self._view.dim("No tokens used yet.")
            return
        cost = dollars(usage.cost) or "unknown"
        self._view.write(
            [
                f"  cost    {cost}",
                f"  input   {usage.input_tokens:,} tokens, {usage.cached_tokens:,} of them cached",
                f"  output  {usage.output_tokens:,} tokens, {usage.reasoning_tokens:,} of them reasoning",
            ]
        )

    def _tree(self, _: str) -> None:
        from outrider.cli.session_tree import tree_lines, tree_of

        session = self._current.session
        if session is None:
            self._view.dim("There are no messages yet.")
            return
        lines = tree_lines(tree_of(self._current.log, session.id))
        self._view.write([fit(safe_line(line), self._view.region.width) for line in lines])

    def _thinking(self, _: str) -> None:
        thoughts = self._view.thoughts
        self._view.write(self._view.rendered(thoughts) or ["There is no reasoning to show."])

    def _clear(self, _: str) -> None:
        self._current.leave()
        self._view.clear_screen()
        self._view.dim("Your next message starts a new session.")

    def _exit(self, _: str) -> Next:
        return "exit"


def _without_tools(body: bytes, specs: Sequence[ToolSpec]) -> bytes:
    """Return the request with tool names only; the schemas would fill the screen."""
    import msgspec

    request = msgspec.json.decode(body)
    if isinstance(request, dict) and "tools" in request:
        request["tools"] = f"… {', '.join(spec.name for spec in specs)} with their schemas"
    return msgspec.json.encode(request)
