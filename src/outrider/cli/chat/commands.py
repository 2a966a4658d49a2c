"""What a person can ask of the chat itself: `/help` and the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from outrider.cli.chat.call_lines import finished
from outrider.cli.chat.current import Current
from outrider.cli.chat.markdown import rendered
from outrider.cli.chat.view import View
from outrider.cli.plain import plain, plain_lines
from outrider.cli.styles import BOLD, fit, styled
from outrider.coding.permissions.question import MODE_WORDS
from outrider.coding.toolbox.titles import title
from outrider.conversation.messages import ToolResultBlock, ToolUseBlock
from outrider.errors import OutriderError
from outrider.runtime.events import ToolFinished
from outrider.text import dollars

if TYPE_CHECKING:
    from outrider.providers.base import ToolSpec
    from outrider.runtime.session import Session

WIRE_LINES = 300
TOLD = 12
"""Messages of a session that are shown when it is taken up again."""
SESSIONS = 15


Next: TypeAlias = Literal["go on", "leave"] | None
"""What comes after a command: the session goes on without a word, the person leaves, or the next line is read."""


class Commands:
    """The commands by name. Each takes what stands after its name."""

    def __init__(self, current: Current, view: View) -> None:
        self._current = current
        self._view = view
        self._does: dict[str, tuple[str, Callable[[str], Next]]] = {
            "help": ("what can be typed here", self._help),
            "model": ("who answers; /model NAME changes it", self._model),
            "permissions": ("what is allowed; /permissions ask|edits|all|plan changes it", self._permissions),
            "tools": ("what the model can do here", self._tools),
            "sessions": ("what was said before; /sessions ID goes on with one", self._sessions),
            "continue": ("let it finish what was cut off", self._continue),
            "fork": ("go on in a copy of this session", self._fork),
            "wire": ("the request as it would be sent; /wire MODEL for another", self._wire),
            "cost": ("what this session has used", self._cost),
            "tree": ("the sub-agents of this session, and what each has used", self._tree),
            "thinking": ("the model's last thoughts", self._thinking),
            "clear": ("begin a new session", self._clear),
            "exit": ("leave", self._exit),
        }

    @property
    def purposes(self) -> dict[str, str]:
        """What each is for."""
        return {name: purpose for name, (purpose, _) in self._does.items()}

    def carry_out(self, text: str) -> Next:
        """Do what a line that begins with / says."""
        name, _, rest = text[1:].strip().partition(" ")
        found = self._does.get({"quit": "exit", "q": "exit", "new": "clear", "mode": "permissions"}.get(name, name))
        if found is None:
            from difflib import get_close_matches

            close = get_close_matches(name, self._does, 1)
            meant = f"did you mean /{close[0]}?" if close else "/help lists what there is."
            self._view.problem(f"There is no command /{name}; {meant}")
            return None
        try:
            return found[1](rest.strip())
        except OutriderError as error:
            self._view.problem(str(error))
            return None

    def _help(self, _: str) -> None:
        lines = [f"  {styled(f'/{name:<12}', BOLD)} {purpose}" for name, purpose in self.purposes.items()]
        keys = {
            "@path": "attaches a file or a picture",
            "\\ Enter": "a new line; also Alt-Enter and Ctrl-J",
            "Tab": "completes; Shift-Tab changes the permissions",
            "Esc, Ctrl-C": "stops what is going on; Ctrl-C again leaves",
        }
        lines += ["", *(f"  {styled(f'{key:<13}', BOLD)} {purpose}" for key, purpose in keys.items())]
        self._view.write(lines)

    def _model(self, name: str) -> None:
        if name:
            self._current.use_model(name)
        self._view.dim(f"{self._current.model_name} answers. `outrider models` shows which models can be used.")

    def _permissions(self, name: str) -> None:
        from outrider.coding.permissions.question import MODES

        if name and name not in MODES:
            self._view.problem(f"There is no mode {name!r}; there are {', '.join(MODES)}.")
            return
        for mode in MODES:
            if mode == name:
                self._current.use_mode(mode)
        self._view.dim(f"Permissions: {self._current.mode}. {MODE_WORDS[self._current.mode]}")

    def _tools(self, _: str) -> None:
        width = self._view.region.width
        for tool in self._current.bench.tools:
            first = tool.description.strip().partition("\n")[0]
            self._view.write([f"  {styled(f'{tool.name:<10}', BOLD)} {fit(plain(first), width - 14)}"])

    def _sessions(self, id: str) -> None:
        from outrider.cli.session_lines import when

        if id:
            self.show_session(self._current.go_to(id))
            worked_in = self._current.log.settings(id).cwd
            if worked_in and worked_in != str(self._current.folder):
                self._view.note(f"It worked in {worked_in}, and goes on here, in {self._current.folder}.")
            return
        found = self._current.log.sessions(limit=SESSIONS)
        lines = [f"{each.id[:8]}  {when(each.updated)}  {plain(each.title)}" for each in found]
        self._view.write([fit(line, self._view.region.width) for line in lines] or ["Nothing is stored yet."])

    def show_session(self, session: Session) -> None:
        """Say which session this is, and how it ended."""
        self._view.write(self._told(session))

    def _told(self, session: Session) -> Iterator[str]:
        width = self._view.region.width
        yield styled(f"Session {session.id[:8]}, last words:", BOLD)
        yield ""
        newest = session.history.tail[-TOLD:]
        results = {result.tool_use_id: result for message in newest for result in message.tool_results}
        for message in newest:
            if message.role == "user" and message.text.strip():
                yield from (styled(f"› {fit(line, width - 2)}", BOLD) for line in plain_lines(message.text).split("\n"))
                yield ""
            elif message.text.strip():
                yield from rendered(message.text, width)
                yield ""
            made = [call for call in message.tool_calls if call.id in results]
            yield from (self._made(call, results[call.id], width) for call in made)
            yield from [""] if made else []
        if session.is_unfinished:
            yield "The last turn was cut off: /continue lets it go on, or say something else."

    def _made(self, call: ToolUseBlock, result: ToolResultBlock, width: int) -> str:
        """A call of long ago in one line."""
        event = ToolFinished(call.id, call.name, result, None)
        return next(finished(event, plain(title(call.name, call.input, self._current.folder)), width))

    def _continue(self, _: str) -> Next:
        if self._current.session and self._current.session.is_unfinished:
            return "go on"
        self._view.dim("Nothing was cut off.")
        return None

    def _fork(self, _: str) -> None:
        left = self._current.fork()
        if left:
            self._view.dim(f"This is a copy now; the session {left[:8]} stays as it is.")
        else:
            self._view.dim("There is nothing to copy yet.")

    def _wire(self, model: str) -> None:
        from outrider.cli.wire import pretty, sending_provider
        from outrider.providers.base import Request, ToolSpec

        session = self._current.session
        messages = session.history.sendable() if session else []
        if session is None or not messages:
            self._view.dim("Nothing was said yet, so nothing would be sent.")
            return
        specs = tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in self._current.bench.tools)
        provider = sending_provider(model or self._current.model_name)
        body = provider.render(Request(messages, session.store, session.agent.instructions, specs))
        lines = plain_lines(pretty(_without_tools(body, specs)).decode()).split("\n")
        if len(lines) > WIRE_LINES:
            self._view.dim(f"… {len(lines) - WIRE_LINES} lines before these")
        self._view.write([fit(line, self._view.region.width) for line in lines[-WIRE_LINES:]])

    def _cost(self, _: str) -> None:
        usage = self._current.usage
        if usage is None:
            self._view.dim("Nothing was used yet.")
            return
        cost = dollars(usage.cost) or "not known"
        self._view.write(
            [
                f"  cost    {cost}",
                f"  input   {usage.input_tokens:,} tokens, {usage.cached_tokens:,} of them from the cache",
                f"  output  {usage.output_tokens:,} tokens, {usage.reasoning_tokens:,} of them thoughts",
            ]
        )

    def _tree(self, _: str) -> None:
        from outrider.cli.session_tree import tree_lines, tree_of

        session = self._current.session
        if session is None:
            self._view.dim("Nothing was said yet.")
            return
        lines = tree_lines(tree_of(self._current.log, session.id))
        self._view.write([fit(plain(line), self._view.region.width) for line in lines])

    def _thinking(self, _: str) -> None:
        thoughts = self._view.thoughts
        self._view.write(rendered(thoughts, self._view.region.width) or ["There are no thoughts to show."])

    def _clear(self, _: str) -> None:
        self._current.leave()
        self._view.clear_screen()
        self._view.dim("A new session begins with what you say next.")

    def _exit(self, _: str) -> Next:
        return "leave"


def _without_tools(body: bytes, specs: Sequence[ToolSpec]) -> bytes:
    """A request in which the tools are only named: their schemas would fill the screen."""
    import msgspec

    request = msgspec.json.decode(body)
    if isinstance(request, dict) and "tools" in request:
        request["tools"] = f"… {', '.join(spec.name for spec in specs)} with their schemas"
    return msgspec.json.encode(request)
