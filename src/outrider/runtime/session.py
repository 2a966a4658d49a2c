"""A session, the handle of a conversation: its verbs, its log and its observers. The loop is in `agent_loop.py`."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from outrider.conversation.codec import MessageLike
from outrider.conversation.messages import Message, ToolResultBlock, Usage
from outrider.conversation.prompt import Prompt, parts_of
from outrider.conversation.store import AttachmentStore, MemoryStore
from outrider.errors import ConversationError, SessionBusyError
from outrider.log.entries import SessionSettings
from outrider.providers.base import Provider, Reply, ToolSpec
from outrider.runtime.agent_settings import settings_of
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.context import ContextUsage
from outrider.runtime.event_loop import run_sync
from outrider.runtime.events import Compacted, Event
from outrider.runtime.exclusive_task import ExclusiveTask
from outrider.runtime.limits import Limits
from outrider.runtime.observers import AnyObserver, Observers
from outrider.runtime.opening import SessionOpening, opened_session
from outrider.runtime.run import NO_EARLIER_TURNS, Progress, RunResult
from outrider.runtime.run_ending import RunEnding
from outrider.tools.approval import Approver
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.conversation.history import History
    from outrider.log.journal import Journal
    from outrider.log.log import Log
    from outrider.runtime.agent_loop import Results
    from outrider.runtime.rewinding import Rewinder, RewindPoint, RewindPreview, Rewound
    from outrider.runtime.steering import QueuedMessage
    from outrider.runtime.working_folder import WorkingFolder

T = TypeVar("T")
ONE_RUN_SECONDS = 10.0
"""How long a session for one run waits for its MCP servers: their tools cannot join at a later prompt."""


class Session:
    """A conversation with an agent, which can be continued.

    `approve` decides before each call whether it may run.

    >>> from outrider import Agent
    >>> session = Session(Agent("demo"))
    >>> asyncio.run(session.run("What is 2+2?")).status
    'done'
    """

    def __init__(
        self,
        agent: AgentSpec,
        messages: Iterable[MessageLike] = (),
        *,
        store: AttachmentStore | None = None,
        cwd: str | Path | None = None,
        observer: AnyObserver | None = None,
        approve: Approver | None = None,
    ) -> None:
        # These are imported here: a program that only names the type need not load the loop.
        from pathlib import Path

        from outrider.runtime.agent_loop import AgentLoop
        from outrider.runtime.call_environment import CallEnvironment
        from outrider.runtime.children import Children, open_child
        from outrider.runtime.record import SessionRecord

        _check_agent(agent)
        self._observers = Observers()
        self._emit = emit = self._observers.emit
        self._task = ExclusiveTask()
        self._record = SessionRecord(messages, MemoryStore() if store is None else store, threads := Threads(), emit)
        self._children = Children(self._record, threads)
        environment = CallEnvironment(
            self.id,
            emit,
            self.store,
            threads,
            agent.limits,
            Path(cwd).resolve() if cwd else Path.cwd(),
            approve=approve,
            open_child=partial(open_child, weakref.ref(self)),  # no cycle: a session is freed with its last user
            deps=agent.deps,
            hooks=agent.hooks,
        )
        self._loop = AgentLoop(agent, self._record, environment)
        self._parent_progress: Progress | None = None
        """The run of the parent session, whose budget a sub-agent shares."""
        self._earlier_turns = NO_EARLIER_TURNS
        """The turns of a sub-agent that was interrupted: its next run continues from there."""
        self.before_run: Callable[[], Awaitable[AgentSpec | None]] | None = None
        """Called in each run once the prompt is in the history; the agent that it returns, if any, does the run."""
        if observer:
            self.observe(observer)

    @property
    def agent(self) -> AgentSpec:
        """The agent that answers. Assigning another changes model, tools, prompt and limits together, between runs.

        Raises SessionBusyError while the session is at work.
        """
        return self._loop.model.agent

    @agent.setter
    def agent(self, agent: AgentSpec) -> None:
        _check_agent(agent)
        if self._task.is_busy:
            raise SessionBusyError("this session is at work; change its agent between two runs")
        self._change_agent(agent)

    def rename(self, title: str) -> None:
        """Set the title of the session in its log. Raises LogError."""
        self._record.rename(title)

    def store_mode(self, mode: str) -> None:
        """Store the permission mode in the log, for when the session is resumed. Raises LogError."""
        self._record.change_settings(SessionSettings(mode=mode))

    def _change_agent(self, agent: AgentSpec) -> None:
        """Take the model, the tools, the prompt and the limits of an agent, and store them."""
        agent.provider  # noqa: B018 - raises for an unknown model before anything is written
        self._record.change_settings(settings_of(agent, self._loop.environment.cwd))
        self._loop.use(agent)

    @classmethod
    def open(
        cls,
        log: Log,
        id: str | None = None,
        agent: AgentSpec | None = None,
        *,
        cwd: str | Path | None = None,
        observer: AnyObserver | None = None,
        approve: Approver | None = None,
        create: bool = False,
    ) -> SessionOpening[Session]:
        """Open a session in a log: a new one, or by its id one that stopped, however it stopped.

        Use `async with Session.open(…) as session:` or `await Session.open(…)`; in sync code `with`. Without an agent
        the session keeps the model and the instructions that the log has; tools cannot be stored, so pass an agent to
        have any. Calls that were interrupted are settled by their effect: `run` repeats a call that may be repeated,
        and answers any other with an error that says so. Raises LogError: SessionHeldError if another process has the
        session open. With `create`, a session whose id, 32 hex digits, is not in the log is created.
        """
        if agent is None and (id is None or create):
            raise TypeError("a new session needs an agent: Session.open(log, agent=Agent(…))")
        if not isinstance(id, str | None):
            raise TypeError(f"id is the id of a session, not {id!r:.60}. A new one: Session.open(log, agent=Agent(…))")
        options: dict[str, Any] = {"cwd": cwd, "observer": observer, "approve": approve, "create": create}
        return SessionOpening(partial(opened_session, cls, log, id, agent, **options))

    def _attach(self, log: Log, journal: Journal) -> None:
        """Continue where the log says that the session stopped."""
        self._record.attach(log, journal, settings_of(self.agent, self._loop.environment.cwd))
        self._change_environment(session=journal.id, store=journal.files, journal=journal)
        self._loop.resume()
        self._children.usage = log.usage_of_children(journal.id) if self.history.last else Usage()

    def _change_environment(self, **changes: Any) -> None:
        self._loop.environment = msgspec.structs.replace(self._loop.environment, **changes)

    def close(self) -> None:
        """Cancel what is running and release the session, so that others can open it."""
        self.cancel()
        if self._loop.hook_points.must_end(self._loop.environment):
            run_sync(self._loop.hook_points.end(self._loop.environment))
        if self._loop.model.tools.servers:
            self._loop.model.tools.servers.close()
        self._record.close()

    async def aclose(self) -> None:
        """Close the session without blocking the loop."""
        self.cancel()
        await self._loop.hook_points.end(self._loop.environment)
        if self._loop.model.tools.servers or self._record.journal:
            await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """Return the session as a notebook shows it."""
        from outrider.runtime.html import session_html  # only notebooks need it

        return session_html(self)

    # What it holds

    @property
    def id(self) -> str:
        """The id of the session, in its log if it has one."""
        return self._record.id

    @property
    def history(self) -> History:
        """The conversation with its sendable form."""
        return self._record.history

    @property
    def messages(self) -> list[Message]:
        """The conversation so far, as a new list."""
        return self.history.messages

    @property
    def is_unfinished(self) -> bool:
        """Whether `run` without a prompt has work to do: calls to run, or results or queued messages to answer."""
        return self._record.is_unfinished

    @property
    def queued(self) -> tuple[QueuedMessage, ...]:
        """The messages that wait to be delivered, the oldest first; see `steer`."""
        return self._record.steering.queued

    @property
    def usage(self) -> Usage:
        """The usage of all requests of this session, without those of its sub-agents."""
        return self._record.usage

    @property
    def total_usage(self) -> Usage:
        """The usage of this session and its sub-agents."""
        return self.usage + self._children.usage

    @property
    def context(self) -> ContextUsage:
        """How much of the model's context window the next request takes, and what takes it. Needs no network."""
        return self._loop.compactor.usage()

    @property
    def provider(self) -> Provider:
        """The provider of the agent's model."""
        return self._loop.model.provider

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the agent, and those of MCP servers that have joined."""
        return tuple(self._loop.model.tools.offered.values())

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them: those of the agent, of servers, and Recall."""
        return self._loop.model.tools.specs

    @property
    def store(self) -> AttachmentStore:
        """The store that holds the files of the conversation."""
        return self._record.store

    # The verbs

    async def think(
        self, prompt: Prompt = (), *, tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] | None = None
    ) -> Reply:
        """Add the prompt and results, and ask the model once. Calls in the reply are left to `act`."""
        return await self._run_exclusively(self._loop.think(prompt, () if tool_results is None else tool_results))

    async def act(self) -> Results:
        """Run the pending calls, and add one user message with their results."""
        return await self._run_exclusively(self._loop.act())

    async def compact(self, focus: str = "") -> Compacted:
        """Summarise the conversation now, all but its newest messages. `focus` says what the summary must keep.

        The history stays whole; only what is sent changes. Raises ConversationError if there is nothing to summarise.
        """
        return await self._run_exclusively(self._loop.compact(focus))

    async def rewind(self, to: int, *, files: bool = True, conversation: bool = True, force: bool = False) -> Rewound:
        """Go back to before user message `to`, counted from 1: the conversation, the files of the folder, or both.

        The log keeps everything, so `undo_rewind` can take it back. Files are restored if the session was opened with a
        working folder, as the coding agent does. Raises ConversationError for an unknown message, and
        RewindConflictError if someone else changed the files since; `force` overwrites them.
        """
        work = partial(self._rewinder().rewind, to, files=files, conversation=conversation, force=force)
        return await self._run_exclusively(self._restoring(work))

    async def undo_rewind(self, *, force: bool = False) -> Rewound:
        """Take back the newest rewind. Raises ConversationError if there is none, and RewindConflictError."""
        return await self._run_exclusively(self._restoring(partial(self._rewinder().undo, force=force)))

    async def rewind_preview(self, to: int) -> RewindPreview:
        """Return what `rewind` would do: the messages that it leaves out, the files that change, and the conflicts."""
        return await self._run_exclusively(self._loop.environment.threads.run(self._rewinder().preview, to))

    async def undo_rewind_preview(self) -> RewindPreview:
        """Return what `undo_rewind` would do."""
        return await self._run_exclusively(self._loop.environment.threads.run(self._rewinder().preview_undo))

    async def rewind_points(self) -> list[RewindPoint]:
        """Return the messages of the user, to which the session can go back."""
        return await self._run_exclusively(self._loop.environment.threads.run(self._rewinder().points))

    async def run(self, prompt: Prompt = (), *, limits: Limits | None = None) -> RunResult:
        """Think and act until the model calls no more tools, a result is final, or a limit is reached.

        Model and tool failures set `status`; they do not raise. `limits` replaces the agent's for this run.
        """
        limits = limits or self.agent.limits
        progress = Progress(limits, self._parent_progress, self._earlier_turns)
        self._earlier_turns = NO_EARLIER_TURNS
        work = self._loop.run(prompt, progress, limits.max_seconds, self._before_run)
        return await RunEnding(self._record, progress).result_of(self._run_exclusively(work))

    async def _before_run(self) -> None:
        if self.before_run and (agent := await self.before_run()):
            self._change_agent(agent)

    async def steer(self, prompt: Prompt) -> QueuedMessage:
        """Queue a message for the run that goes on, and return once it is in the log.

        The run delivers it as a user message at the next boundary: after the results of the calls, or after a reply
        without calls, which then does not end the run. A run that is cancelled, fails or reaches a limit leaves it
        queued, also if the process is killed: the next `run` or `think` begins with it. Raises ConversationError if
        nothing runs; then send it with `run`.
        """
        from outrider.runtime.prompt_files import stored_message

        if self._record.progress is None:
            raise ConversationError("no run is under way that could take a message; send it with run()")
        if not parts_of(prompt):
            raise ConversationError("the message is empty; give text or a file")
        parts = parts_of(await self._loop.submitted(prompt))
        return await self._record.steering.add(stored_message(parts, self._loop.environment))

    async def unsteer(self, queued: QueuedMessage | None = None) -> QueuedMessage | None:
        """Take back a queued message, or the newest. Return it, or None if it was delivered or taken back already."""
        return await self._record.steering.withdraw(queued)

    def stream(self, prompt: Prompt = ()) -> AsyncGenerator[Event, None]:
        """Run, and yield each event as it happens; the last one is `RunFinished`. Leaving early cancels the run."""
        return self._observers.stream(partial(self.run, prompt))

    def cancel(self) -> None:
        """Cancel what the session is doing, if anything. Safe from any thread.

        Every call is answered. `run` returns with the status `cancelled`; `think` and `act` raise
        SessionCancelledError.
        """
        self._task.cancel()

    def wait_for_servers(self, seconds: float) -> None:
        """Let the first request wait so long for MCP servers that are still starting, instead of a moment."""
        if self._loop.model.tools.servers:
            self._loop.model.tools.servers.grace = seconds

    def observe(self, observer: AnyObserver) -> None:
        """Call the observer with each event from now on, in order."""
        self._observers.add(observer if callable(observer) else observer.observe(self))

    def use_folder(self, folder: WorkingFolder) -> None:
        """Take snapshots of this folder before calls that may write, so that `rewind` can restore its files."""
        self._record.take_snapshots(folder)
        self._change_environment(watch=self._record.watch)

    def _rewinder(self) -> Rewinder:
        from outrider.runtime.rewinding import rewinder_of  # few sessions are rewound

        return rewinder_of(self._record)

    async def _restoring(self, rewind: Callable[[], Rewound]) -> Rewound:
        """Rewind in a thread, and continue from what the log then says."""
        done = asyncio.ensure_future(self._loop.environment.threads.run(rewind))
        try:
            return await asyncio.shield(done)
        finally:
            # A cancel does not stop the restoring of files halfway.
            await asyncio.wait([done])
            self._loop.resume()

    async def _run_exclusively(self, work: Coroutine[Any, Any, T]) -> T:
        """Run one task at a time, and record a cancel in the log."""
        try:
            return await self._task.do(self._record.recording_cancel(work))
        finally:
            work.close()  # in case it was cancelled before it started


def _check_agent(agent: object) -> None:
    if not isinstance(agent, AgentSpec):
        raise TypeError(f"a session is held with an Agent, not with {type(agent).__name__}; write Agent(model)")
