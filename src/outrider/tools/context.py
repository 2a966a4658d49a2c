"""The context of a running call, which a tool receives through a parameter of type `ToolContext`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, overload

import msgspec

from outrider.conversation.attachments import Attachment, sha256
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import SIZE_UNKNOWN, AttachmentStore, read_stored
from outrider.errors import AttachmentError, ConversationError
from outrider.tools.result import as_attachment
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from typing_extensions import TypeVar

    DepsT = TypeVar("DepsT", default=None)
    AnyDepsT = TypeVar("AnyDepsT", default=Any)
    OpenedDepsT = TypeVar("OpenedDepsT", default=Any)
else:  # type variables have defaults only since Python 3.13
    from typing import TypeVar

    DepsT = TypeVar("DepsT")
    AnyDepsT = TypeVar("AnyDepsT")
    OpenedDepsT = TypeVar("OpenedDepsT")


class SubagentTask(msgspec.Struct, frozen=True):
    """The task that a call gives to a sub-agent."""

    call_id: str
    """The call that starts the sub-agent."""
    session: str
    """The id of the sub-agent's session in a log: the same when the call runs again after a crash."""
    title: str
    """The task in a few words."""
    is_over: Callable[[], bool]
    """Return whether the call has its result; observers then see no more events of the sub-agent."""
    background: bool = False
    """Whether the call does not wait for it."""


OpenChild: TypeAlias = Callable[[SubagentTask, Any, Any, "Path | None"], Awaitable[Any]]
"""Open a sub-agent's session: task, agent, approver, folder. `outrider.subagents.spawn` is the typed API."""


class CallRef(msgspec.Struct, frozen=True):
    """Which call a context belongs to. `ToolContext` says what each field means."""

    id: str
    key: str = ""
    session: str = ""
    reply: str = ""


class Asker(Protocol):
    """Asks a person for a tool."""

    async def pose(self, body: Any) -> Any:
        """Ask a question, and return its answer."""

    async def ask_person(
        self, text: str, choices: Sequence[str], schema: Mapping[str, Any] | None, multiple: bool, seconds: float | None
    ) -> Any:
        """Ask in words, and return what was answered."""

    def put_off(self, questions: Sequence[Any]) -> None:
        """Let the call wait for these questions."""

    def sends(self, text: str) -> bool:
        """Return whether the conversation has a text, as it is sent."""

    @property
    def agent(self) -> Any:
        """The agent of the session."""

    @property
    def background(self) -> Any:
        """The sub-agents of the session that work in the background."""


class ToolContext(Generic[DepsT]):
    """The context of a running tool call.

    `ToolContext[Deps]` declares the type of `context.deps`, which is the `deps=` of the run or of its session.
    """

    __slots__ = (
        *("_answered", "_asker", "_cancelled", "_open_child", "_progress", "_spawned", "_store"),
        *("attachments", "call_id", "cwd", "deps", "key", "reply", "result_characters", "session", "threads"),
    )

    def __init__(
        self,
        call: CallRef,
        cwd: Path,
        threads: Threads,
        progress: Callable[[Any], None],
        store: AttachmentStore | None = None,
        open_child: OpenChild | None = None,
        deps: DepsT = None,  # type: ignore[assignment]
        result_characters: int | None = None,
    ) -> None:
        self.call_id = call.id
        """The id of the call in the conversation."""
        self.session = call.session
        """The id of the session."""
        self.reply = call.reply
        """The id of the reply that made the call: the same for all calls of that reply; empty if it is unknown."""
        self.result_characters = result_characters
        """The most characters of the result that the model reads; None if it is unknown."""
        self.key = call.key
        """The idempotency key: the same when the call runs again after a crash, and different for every other call."""
        self.cwd = cwd
        """The working directory of the session."""
        self.deps: DepsT = deps
        """The dependencies of the run."""
        self.threads = threads
        self.attachments: list[Attachment] = []
        self._progress = progress
        self._store = store
        self._open_child = open_child
        self._spawned = 0
        self._cancelled = False
        self._answered = False
        self._asker: Asker | None = None

    def asking(self, asker: Asker) -> Self:
        """Let the tool ask a person through this."""
        self._asker = asker
        return self

    @overload
    async def ask(self, text: str, choices: Sequence[str] = (), *, seconds: float | None = None) -> str | None: ...
    @overload
    async def ask(
        self, text: str, choices: Sequence[str], *, multiple: Literal[True], seconds: float | None = None
    ) -> list[str] | None: ...
    @overload
    async def ask(
        self, text: str, *, schema: Mapping[str, Any], seconds: float | None = None
    ) -> dict[str, Any] | None: ...
    async def ask(
        self,
        text: str,
        choices: Sequence[str] = (),
        *,
        schema: Mapping[str, Any] | None = None,
        multiple: bool = False,
        seconds: float | None = None,
    ) -> Any:
        """Ask a person: for one of the choices, several of them, free text, or the values of a form.

        Return the answer; None if the person declines, or after `seconds` without one. If nobody is there, the call
        waits, the run ends with the status `waiting`, and the tool runs again from its beginning once there is an
        answer: what it does before it asks must be repeatable.
        """
        return await self._who_asks.ask_person(text, choices, schema, multiple, seconds)

    async def pose(self, question: Any) -> Any:
        """Ask a question of `outrider.log.questions`, and return its `Answer`."""
        return await self._who_asks.pose(question)

    def wait_for(self, questions: Sequence[Any]) -> None:
        """Let this call wait for the `questions` of a sub-agent's result, if there are any.

        It runs again once they are answered, and `spawn` then opens the same session.
        """
        if questions:
            self._who_asks.put_off(questions)

    @property
    def _who_asks(self) -> Asker:
        if self._asker is None:
            raise RuntimeError("there is nobody to ask: this call is not part of a session")
        return self._asker

    def sends(self, text: str) -> bool:
        """Return whether the conversation, as it is sent to the model, has this text in the result of a call."""
        return self._asker is not None and self._asker.sends(text)

    def progress(self, content: Any) -> None:
        """Send progress to observers: text or any JSON value. May be called from any thread."""
        self._progress(content)

    def attach(self, attachment: Attachment | str | Path) -> None:
        """Add a file to the result."""
        self.attachments.append(as_attachment(attachment))

    def stored(self, sha256: str) -> bytes:
        """Return the bytes of a file of this session by its SHA-256 hash. Raises AttachmentError."""
        if self._store is None:
            raise AttachmentError("this session has no stored files")
        return read_stored(self._store, AttachmentBlock(sha256, "", SIZE_UNKNOWN, f"attachment:{sha256[:12]}"))

    def subagent_task(self, title: str) -> SubagentTask:
        """Return the next task for a sub-agent of this call: the same when the call runs again after a crash."""
        self._spawned += 1
        session = sha256(f"{self.key}/{self._spawned}".encode(errors="surrogatepass"))[:32]
        return SubagentTask(self.call_id, session, title, lambda: self._answered)

    async def open_child(self, agent: Any, task: SubagentTask, approve: Any, cwd: Path | None) -> Any:
        """Open a session for a sub-agent. Use `outrider.subagents.spawn`, which is typed."""
        if self._open_child is None:
            raise ConversationError("a sub-agent cannot start sub-agents")
        return await self._open_child(task, agent, approve, cwd)

    @property
    def agent(self) -> Any:
        """The agent of the session: `outrider.runtime.agent_spec.AgentSpec`."""
        return self._who_asks.agent

    @property
    def background(self) -> Any:
        """The sub-agents of the session that work in the background: `outrider.runtime.background.Background`."""
        return self._who_asks.background

    @property
    def has_spawned(self) -> bool:
        """Whether the call has started a sub-agent."""
        return self._spawned > 0

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled. A tool in a thread should check this regularly, and stop."""
        return self._cancelled

    def cancel(self) -> None:
        """Mark the call as cancelled."""
        self._cancelled = True

    def close(self) -> None:
        """Mark the call as answered; observers see no more of its progress."""
        self._answered = True
        self._progress = _unheard  # the call holds this context: a cycle would leave both to the garbage collector
        self._asker = None


def _unheard(content: Any) -> None:
    """Take the progress of a call that has its result."""
