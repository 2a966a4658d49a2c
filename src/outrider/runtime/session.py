"""A session, the handle of a conversation: its verbs, its log and its observers. The loop is in `agent_loop.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, Unpack, overload

from outrider.conversation.codec import MessageLike
from outrider.conversation.messages import ToolResultBlock
from outrider.conversation.prompt import Prompt, messages_of, user_message
from outrider.conversation.store import AttachmentStore
from outrider.errors import ConversationError, SessionBusyError
from outrider.providers.base import Effort, Reply
from outrider.runtime.agent_spec import AgentSpec, check_agent
from outrider.runtime.deps import check_deps
from outrider.runtime.event_loop import run_sync
from outrider.runtime.events import Compacted, Event
from outrider.runtime.goal import CheckCommand, Until
from outrider.runtime.limits import Limits
from outrider.runtime.observers import Observer
from outrider.runtime.run import RunResult
from outrider.runtime.run_scope import ModelOptions, RunOptions, RunScope, check_options
from outrider.runtime.session_contents import SessionContents
from outrider.tools.approval import Approver
from outrider.tools.context import AnyDepsT, OpenedDepsT

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.log.log import Log
    from outrider.log.rewinding import Rewinder, RewindPoint, RewindPreview, Rewound
    from outrider.log.session_filter import Origin
    from outrider.log.working_folder import WorkingFolder
    from outrider.runtime.agent_loop import Results
    from outrider.runtime.opening import SessionOpening
    from outrider.runtime.steering import QueuedMessage
    from outrider.runtime.structured_output import OutputForm, Report
    from outrider.runtime.toolset import Offer

T = TypeVar("T")
ONE_RUN_SECONDS = 10.0
"""How long a session for one run waits for its MCP servers: their tools cannot join at a later prompt."""


class SessionObserver(Protocol):
    """Observes many sessions, and keeps their events apart: each session gets an observer of its own."""

    def observe(self, session: Session) -> Observer:
        """Return the observer of this session."""
        ...


AnyObserver: TypeAlias = Observer | SessionObserver
"""What `observer=` takes: a function of an event, or an object that makes one for each session."""


class Session(SessionContents, Generic[AnyDepsT]):
    """A conversation with an agent, which can be continued.

    `approve` decides before each call whether it may run. `deps` are the dependencies of the tools, for an agent with a
    `deps_type`.

    >>> from outrider import Agent
    >>> session = Session(Agent("demo"))
    >>> asyncio.run(session.run("What is 2+2?")).status
    'done'
    """

    def __init__(
        self,
        agent: AgentSpec[AnyDepsT],
        messages: Iterable[MessageLike] = (),
        *,
        store: AttachmentStore | None = None,
        cwd: str | Path | None = None,
        observer: AnyObserver | None = None,
        approve: Approver | None = None,
        deps: AnyDepsT | None = None,
    ) -> None:
        super().__init__(agent, messages, store=store, cwd=cwd, approve=approve, deps=deps)
        if observer:
            self.observe(observer)

    @property
    def agent(self) -> AgentSpec[AnyDepsT]:
        """The agent that answers. Assigning another changes model, tools, prompt and limits together, between runs.

        Raises SessionBusyError while the session is at work.
        """
        return self._agent

    @agent.setter
    def agent(self, agent: AgentSpec[AnyDepsT]) -> None:
        check_agent(agent)
        if self._task.is_busy or self._scope:
            raise SessionBusyError("this session is at work; change its agent between two runs")
        self._change_agent(agent)

    @classmethod
    def open(
        cls,
        log: Log,
        id: str | None = None,
        agent: AgentSpec[OpenedDepsT] | None = None,
        *,
        cwd: str | Path | None = None,
        observer: AnyObserver | None = None,
        approve: Approver | None = None,
        deps: OpenedDepsT | None = None,
        create: bool = False,
        owner: str | None = None,
        metadata: Mapping[str, str] | None = None,
        origin: Origin | None = None,
    ) -> SessionOpening[Session[OpenedDepsT]]:
        """Open a session in a log: a new one, or by its id one that stopped, however it stopped.

        Use `async with Session.open(…) as session:` or `await Session.open(…)`; in sync code `with`. Without an agent
        the session keeps the model and the instructions that the log has; tools cannot be stored, so pass an agent to
        have any. Calls that were interrupted are settled by their effect: `run` repeats a call that may be repeated,
        and answers any other with an error that says so. Raises LogError: SessionHeldError if another process has the
        session open. With `create`, a session that is not in the log is created with this id, such as `case-17`: 1 to
        64 letters, digits, underscores, dots and hyphens. `owner` and `metadata`, short strings, are stored with it;
        `log.sessions` finds sessions by them. `origin` says what makes a new session: `chat`, `editor`, `print`,
        `batch`, `serve`, or `python` (the default); lists for people show the first two, and the others on request.
        """
        from outrider.log.log import Log  # scripts may have no log

        if not isinstance(log, Log):
            raise TypeError(f"the first argument is a Log, as in Log('sessions'), not {log!r:.60}")
        if agent is None and (id is None or create):
            raise TypeError("a new session needs an agent: Session.open(log, agent=Agent(…))")
        if not isinstance(id, str | None):
            raise TypeError(f"id is the id of a session, not {id!r:.60}. A new one: Session.open(log, agent=Agent(…))")
        from outrider.runtime.opening import SessionOpening

        if agent is not None and deps is not None:
            check_deps(agent.deps_type, deps)
        options: dict[str, Any] = {"cwd": cwd, "observer": observer, "approve": approve, "deps": deps}
        if owner is not None or metadata is not None or origin is not None:
            from outrider.log.session_filter import labels  # few sessions have any

            options["known"] = labels(owner, metadata, origin)
        opened: Any = cls._opened  # the class cannot say that it is the Session of this agent
        return SessionOpening(partial(opened, log, id, agent, create=create, **options))

    def close(self) -> None:
        """Cancel what is running and release the session, so that others can open it."""
        self.cancel()
        self.background.close()
        if self._loop.hook_points.must_end(self._loop.environment):
            run_sync(self._loop.hook_points.end(self._loop.environment))
        if self._loop.model.tools.servers:
            self._loop.model.tools.servers.close()
        self._record.close()

    async def aclose(self) -> None:
        """Close the session without blocking the loop."""
        self.cancel()
        await self.background.aclose()
        await self._loop.hook_points.end(self._loop.environment)
        if self._loop.model.tools.servers:
            await asyncio.to_thread(self._loop.model.tools.servers.close)
        await self._record.aclose()

    async def __aenter__(self) -> Session[AnyDepsT]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Session[AnyDepsT]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def think(
        self,
        prompt: Prompt = "",
        *,
        tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] | None = None,
        **settings: Unpack[ModelOptions],
    ) -> Reply:
        """Add the prompt and results, and ask the model once. Calls in the reply are left to `act`.

        `effort`, `temperature` and `max_tokens` replace the agent's for this request.
        """
        check_options("Session.think", settings, ("tool_results", *ModelOptions.__annotations__))
        said, results = messages_of(prompt), () if tool_results is None else tool_results
        if not settings and isinstance(self._agent.system, str):
            return await self._do(self._loop.think(said, results))
        await self._begin()
        with self._in_scope(RunScope(settings=_changed(**settings))):
            self._use_agent()
            self._check_deps()
            return await self._do(self._instructed(self._loop.think(said, results)))

    async def act(self) -> Results:
        """Run the pending calls, and add one user message with their results."""
        self._check_deps()
        return await self._do(self._loop.act())

    async def compact(self, focus: str = "") -> Compacted:
        """Summarise the conversation now, all but its newest messages. `focus` says what the summary must keep.

        The history stays whole; only what is sent changes. Raises ConversationError if there is nothing to summarise.
        """
        return await self._do(self._loop.compact(focus))

    async def rewind(self, to: int, *, files: bool = True, conversation: bool = True, force: bool = False) -> Rewound:
        """Go back to before user message `to`, counted from 1: the conversation, the files of the folder, or both.

        The log keeps everything, so `undo_rewind` can take it back. Files are restored if the session was opened with a
        working folder, as the coding agent does. Raises ConversationError for an unknown message, and
        RewindConflictError if someone else changed the files since; `force` overwrites them.
        """
        work = partial(self._rewinder().rewind, to, files=files, conversation=conversation, force=force)
        return await self._do(self._restoring(work))

    async def undo_rewind(self, *, force: bool = False) -> Rewound:
        """Take back the newest rewind. Raises ConversationError if there is none, and RewindConflictError."""
        return await self._do(self._restoring(partial(self._rewinder().undo, force=force)))

    async def rewind_preview(self, to: int | None) -> RewindPreview:
        """Return what `rewind` would do: the messages that it leaves out, the files that change, and the conflicts.

        None is for `undo_rewind`.
        """
        rewinder = self._rewinder()
        work = rewinder.preview_undo if to is None else partial(rewinder.preview, to)
        return await self._do(self._loop.environment.threads.run(work))

    async def rewind_points(self) -> list[RewindPoint]:
        """Return the messages of the user, to which the session can go back."""
        return await self._do(self._loop.environment.threads.run(self._rewinder().points))

    def _rewinder(self) -> Rewinder:
        watch = self._loop.environment.watch
        return self._record.journal.rewinder(watch.folder if watch else None)

    async def _restoring(self, rewind: Callable[[], Rewound]) -> Rewound:
        """Rewind in a thread, and continue from what the log then says."""
        done = asyncio.ensure_future(self._loop.environment.threads.run(rewind))
        try:
            return await asyncio.shield(done)
        finally:
            # A cancel does not stop the restoring of files halfway.
            await asyncio.wait([done])
            self._record.resume()
            self._loop.restart()

    @overload
    async def run(
        self, prompt: Prompt = "", *, output: None = None, **options: Unpack[RunOptions[AnyDepsT]]
    ) -> RunResult[str]: ...
    @overload
    async def run(
        self, prompt: Prompt = "", *, output: type[T], **options: Unpack[RunOptions[AnyDepsT]]
    ) -> RunResult[T]: ...
    @overload
    async def run(
        self, prompt: Prompt = "", *, output: OutputForm, **options: Unpack[RunOptions[AnyDepsT]]
    ) -> RunResult[Any]: ...
    async def run(
        self,
        prompt: Prompt = "",
        *,
        output: Any = None,
        limits: Limits | None = None,
        deps: AnyDepsT | None = None,
        until: Until | None = None,
        **settings: Unpack[ModelOptions],
    ) -> RunResult[Any]:
        """Think and act until the model calls no more tools, a result is final, or a limit is reached.

        With `output`, a Python type or a JSON Schema, the model has to end with such data: `result.output` is a value
        of the type, or decoded JSON. Without it `result.output` is the text. `limits`, `deps`, `effort`, `temperature`
        and `max_tokens` replace those of the agent and of the session for this run. With `until`, an async function,
        the run goes on until it returns True, or a limit is reached: each time the model has answered it is called, and
        what it returns else, a text, goes to the model. Model and tool failures set `status`; they do not raise.
        Without a prompt, a run that was interrupted goes on; give the same `output` and `until`.
        """
        check_options("a run of a session", settings, ("output", *RunOptions.__annotations__))
        said, limits = messages_of(prompt), limits or self._agent.limits
        if output is None and deps is None and until is None and not settings:
            await self._begin()
            return await self._run(said, limits)
        if deps is not None:
            check_deps(self._team.first.deps_type, deps)
        return await self._run_in(RunScope(_report(output), deps, _changed(**settings), until), said, limits)

    async def steer(self, prompt: Prompt) -> QueuedMessage:
        """Queue a message for the run that goes on, and return once it is in the log.

        The run delivers it as a user message at the next boundary: after the results of the calls, or after a reply
        without calls, which then does not end the run. A run that is cancelled, fails or reaches a limit leaves it
        queued, also if the process is killed: the next `run` or `think` begins with it. Raises ConversationError if
        nothing runs; then send it with `run`.
        """
        if not self._loop.is_running:
            raise ConversationError("no run is under way that could take a message; send it with run()")
        (said,) = await self._loop.submitted([user_message(prompt)])
        queued = await self._record.steering.add(self._loop.stored(said))
        self.background.nudge()
        return queued

    async def unsteer(self, queued: QueuedMessage | None = None) -> QueuedMessage | None:
        """Take back a queued message, or the newest. Return it, or None if it was delivered or taken back already."""
        return await self._record.steering.withdraw(queued)

    def stream(
        self, prompt: Prompt = "", *, output: Any = None, **options: Unpack[RunOptions[AnyDepsT]]
    ) -> AsyncGenerator[Event, None]:
        """Run, and yield each event as it happens; the last one is `RunFinished`. Leaving early cancels the run.

        Without a prompt it goes on with unfinished work. After an answer or a final result there is none
        (`is_unfinished`): the model is not asked, and the only event is `RunFinished` with that answer.
        """
        return self._observers.stream(partial(self.run, prompt, output=output, **options))

    def cancel(self) -> None:
        """Cancel what the session is doing, if anything. Safe from any thread.

        Every call is answered. `run` returns with the status `cancelled`; `think` and `act` raise
        SessionCancelledError.
        """
        self._task.cancel()

    async def suspend(self) -> None:
        """Stop now, and leave the log as a kill at this moment would: nothing is written any more.

        Use it to shut down: a partial reply is not kept, open calls get no results, and a question stays open. `run`
        returns with the status `suspended`. The session is released; `Session.open(log, id, agent)` and `run()` go on
        where it stopped: a call that was running and may write has an unknown outcome then, one that only reads runs
        again. Running tools are cancelled, and have a second to clean up. Raises ConversationError without a log.
        """
        self.freeze()
        await self._task.stop()
        await self.aclose()

    def freeze(self) -> None:
        """Write nothing any more, as after a kill; `suspend` also stops and closes the session. Raises as it does."""
        self._record.journal.suspend()

    def wait_for_servers(self, seconds: float) -> None:
        """Let the first request wait so long for MCP servers that are still starting, instead of a moment."""
        if self._loop.model.tools.servers:
            self._loop.model.tools.servers.grace = seconds

    def observe(self, observer: AnyObserver) -> None:
        """Call the observer with each event from now on, in order."""
        if not callable(observer) and not hasattr(observer, "observe"):
            raise TypeError(f"an observer is a function of an event, not {observer!r:.60}")
        self._observers.add(observer if callable(observer) else observer.observe(self))

    @property
    def is_suspended(self) -> bool:
        """Whether the session was suspended: nothing is kept any more."""
        return self._record.journal.is_suspended

    def use_offer(self, offer: Callable[[AgentSpec], Offer]) -> None:
        """Call this with the agent before each request, for what it offers as a mode of the session wants it."""
        self._loop.model.offer = offer
        self._loop.model.keep_to_mode()

    def use_checks(self, check: CheckCommand) -> None:
        """Call this with the command of a goal, to run it."""
        self._loop.goal.check_command = check

    def use_folder(self, folder: WorkingFolder) -> None:
        """Take snapshots of this folder before calls that may write, so that `rewind` can restore its files."""
        from outrider.runtime.folder_watch import FolderWatch  # sessions without a folder do not need it

        watch = FolderWatch(folder, self._record.append, self._loop.environment.threads, self._emit)
        self._change_environment(watch=watch)


def _changed(
    *, effort: Effort | None = None, temperature: float | None = None, max_tokens: int | None = None
) -> dict[str, Any]:
    """Return the settings that are given. Raises TypeError for others."""
    given = {"effort": effort, "temperature": temperature, "max_tokens": max_tokens}
    return {name: value for name, value in given.items() if value is not None}


def _report(output: Any) -> Report | None:
    if output is None:
        return None
    from outrider.runtime.structured_output import Report  # imports the schemas of types

    return output if isinstance(output, Report) else Report(output)
