"""What a session is made of, how it is opened, and how it does one thing at a time. Its verbs are in `session.py`."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from outrider.conversation.codec import MessageLike
from outrider.conversation.messages import Message
from outrider.conversation.store import AttachmentStore, check_store, default_store
from outrider.conversation.usage import Usage
from outrider.errors import LogError, ProviderError, SessionCancelledError
from outrider.log.entries import RunCancelled, SessionSettings
from outrider.log.pending_write import deliver_cancel
from outrider.log.run_state import joined
from outrider.log.session_filter import origin_after
from outrider.providers.base import Provider, StopReason
from outrider.runtime.agent_settings import agent_of, cwd_of, settings_of
from outrider.runtime.agent_spec import AgentSpec, check_agent
from outrider.runtime.deps import check_deps, fits
from outrider.runtime.events import Notice, RunFinished
from outrider.runtime.exclusive_task import ExclusiveTask, busy
from outrider.runtime.goal import with_goal
from outrider.runtime.limits import Limits
from outrider.runtime.observers import Observers
from outrider.runtime.run import RunResult
from outrider.runtime.run_scope import RunScope
from outrider.runtime.system_prompt import RunContext, system_text
from outrider.runtime.team import Team
from outrider.text import clean
from outrider.tools.approval import Approver, check_approver, for_subagent
from outrider.tools.context import SubagentTask
from outrider.tools.threads import Threads

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from outrider.log.log import Log
    from outrider.runtime.background import Background
    from outrider.runtime.journal import Journal

T = TypeVar("T")
_STOPPED = ("cancelled", "suspended")


class SessionBase:
    """A record, a loop, observers and sub-agents."""

    background: Background
    """The sub-agents that work in the background."""

    def __init__(
        self,
        agent: AgentSpec,
        messages: Iterable[MessageLike] = (),
        *,
        store: AttachmentStore | None = None,
        cwd: str | Path | None = None,
        approve: Approver | None = None,
        deps: Any = None,
    ) -> None:
        check_agent(agent)
        check_approver(approve)
        check_store(store)
        if deps is not None:
            check_deps(agent.deps_type, deps)
        self._team = Team(agent)
        self._deps = deps
        self._scope: RunScope | None = None
        """How the run under way differs from the others, if it does."""
        self._system: str | None = None
        """The system prompt of the newest run, if the agent's is a function that was called for it."""
        self._observers = Observers()
        self._emit = self._observers.emit
        self._task = ExclusiveTask()
        self.before_run: Callable[[], Awaitable[None]] | None = None
        """Called in each run once the prompt is in the history."""
        self._make_parts(messages, default_store() if store is None else store, cwd, approve)

    def _make_parts(
        self, messages: Iterable[MessageLike], store: AttachmentStore, cwd: str | Path | None, approve: Approver | None
    ) -> None:
        # These are imported here: a program that only names the type need not load the loop.
        from pathlib import Path

        from outrider.runtime.agent_loop import AgentLoop
        from outrider.runtime.background import Background
        from outrider.runtime.call_environment import CallEnvironment
        from outrider.runtime.children import Children
        from outrider.runtime.journal import Journal, new_id
        from outrider.runtime.record import SessionRecord
        from outrider.runtime.waits import Waits

        agent, journal, threads = self._agent, Journal(new_id(), store), Threads()
        folder = Path(cwd).resolve() if cwd else Path.cwd()
        self._record = record = SessionRecord(messages, journal, threads, self._emit, folder)
        self._children = Children(record)
        self.background = Background(record)
        self._waits = Waits(record)
        itself = weakref.ref(self)  # no cycle: a session is freed with its last user
        environment = CallEnvironment(
            *(journal.id, self._emit, record.write, store, threads, agent.limits, folder),
            *(approve, partial(_open_child, itself), self.background),
            deps=self._deps,
            hooks=agent.hooks,
            agent=agent,
            waits=self._waits,
            sends=record.sends,
        )
        self._loop = AgentLoop(agent, record, environment, self._children)
        self._loop.fall_back, self._loop.hand_over = partial(_fall_back, itself), partial(_hand_over, itself)

    # Opening

    @classmethod
    def _opened(
        cls,
        log: Log,
        id: str | None,
        agent: AgentSpec | None,
        *,
        cwd: str | Path | None,
        create: bool,
        known: SessionSettings | None = None,
        **options: Any,
    ) -> Self:
        """Open a session of the log, or create one, and continue where the log says that it stopped."""
        from outrider.runtime.journal import LogJournal

        # A new id may be the beginning of another session's, which must not be opened in its place.
        is_new = create and id and id not in log.summaries([id])
        held = None if is_new or id is None else log.open(id)
        try:
            recorded = held.settings if held else SessionSettings()
            session = cls(agent or agent_of(recorded), cwd=cwd or cwd_of(recorded), **options)
            known = known or SessionSettings()
            origin = origin_after(recorded.origin, known.origin, is_new=held is None)
            known = msgspec.structs.replace(known, origin=origin)
            held = held or log.create(session._settings.merged(known), id=id or "")
            session._attach(LogJournal(log, held), known)
            for note in filter(None, (log.warning, held.note)):
                session._emit(Notice(note))
        except BaseException:
            if held:
                held.close()
            raise
        return session

    def _attach(self, journal: Journal, known: SessionSettings, *, whole: bool = False) -> None:
        """Continue where the journal says that the session stopped. `known` are settings beside those of the agent."""
        self._record.attach(journal, whole=whole)
        before = self._agent
        if note := self._team.resume(self._record.state.settings):
            self._emit(Notice(note))
        if self._agent is not before:
            self._use_agent()
        self._record.change_settings(self._settings.merged(known))
        self._change_environment(session=journal.id, store=journal.store)
        self._loop.restart()
        self._children.usage = journal.children_usage() if self._record.history.last else Usage()

    @property
    def _agent(self) -> AgentSpec:
        """The agent that has the conversation."""
        return self._team.current

    def _change_environment(self, **changes: Any) -> None:
        self._loop.environment = msgspec.structs.replace(self._loop.environment, **changes)

    @property
    def _settings(self) -> SessionSettings:
        """What the log keeps of the agent; its name once the session was handed over."""
        settings = settings_of(self._agent, self._loop.environment.cwd)
        is_named = self._record.state.settings.agent is not None
        return msgspec.structs.replace(settings, agent=self._agent.name) if is_named else settings

    def _change_agent(self, agent: AgentSpec) -> None:
        """Take the model, the tools, the prompt and the limits of an agent, and store them."""
        agent.provider  # noqa: B018 - raises for an unknown model before anything is written
        before = self._team
        self._team = Team(agent)
        try:
            self._record.change_settings(self._settings)
        except LogError:
            self._team = before
            raise
        self._use_agent()

    def _use_agent(self) -> None:
        """Let the loop work with the agent, as the run under way wants it."""
        agent, deps = self._agent, self._deps
        if self._system is not None and not isinstance(agent.system, str):
            agent = agent.replace(model=agent.provider, system=self._system)
        if scope := self._scope:
            agent, deps = scope.agent_of(agent), deps if scope.deps is None else scope.deps
        self._loop.use(agent, deps)
        report = scope.report if scope and self._observers else None
        self._loop.model.watch = report.watched if report else None

    # Working

    async def _call_system(self) -> None:
        """Call the function of the system prompt, if it is one and was not called for this run."""
        if self._system is None and not isinstance(system := self._agent.system, str):
            around = self._loop.environment
            self._system = await system_text(system, RunContext(around.deps, around.session, around.cwd))
            self._use_agent()

    async def _instructed(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work after the system prompt is known. Nothing is stored if its function fails."""
        try:
            await self._call_system()
            return await work
        finally:
            work.close()

    async def _run(self, said: list[Message], limits: Limits) -> RunResult:
        """Do one run, which ends with text, or with a report if there is one to give."""
        if self._scope:
            self._use_agent()
        self._check_deps()
        until = self._scope.until if self._scope else None
        run = self._loop.run(with_goal(said, until), limits, self.before_run, until)
        end = await self._end_of(run if isinstance(self._agent.system, str) else self._instructed(run))
        return self._result(end, await self._record.all_messages())

    async def _run_in(self, scope: RunScope, said: list[Message], limits: Limits) -> RunResult[Any]:
        """Do a run that differs from the others."""
        await self._begin()
        with self._in_scope(scope):
            if not scope.report:
                return await self._run(said, limits)
            from outrider.runtime.structured_output import run_to_report  # imports the schemas of types

            return await run_to_report(self._run, scope.report, said, limits)

    @contextmanager
    def _in_scope(self, scope: RunScope) -> Iterator[None]:
        """Work with the agent of one run. It is as before afterwards."""
        self._scope = scope
        try:
            yield
        finally:
            self._scope = None
            self._use_agent()

    def _check_deps(self) -> None:
        """Raise TypeError if the tools would miss their dependencies."""
        if self._team.first.deps_type is not None:
            check_deps(self._team.first.deps_type, self._loop.environment.deps)

    async def _begin(self) -> None:
        """Wait for a run that is being cancelled. Raises SessionBusyError if one goes on.

        One that has to give a report may take two tasks; it goes on between them.
        """
        if self._task.is_busy:
            await self._task.free()
            while self._scope and (end := self._loop.finished) and end.status in _STOPPED:  # noqa: ASYNC110
                await asyncio.sleep(0)  # it is over within a few steps of the loop
        if self._scope:
            raise busy()
        self._system = None

    async def _end_of(self, run: Coroutine[Any, Any, None]) -> RunFinished:
        """Do a run, and return its end. If it was cancelled before it began, that is its end."""
        before = self._loop.finished
        try:
            await self._task.do(self._settling(run))
        except (SessionCancelledError, asyncio.CancelledError) as cancel:
            if self._loop.finished is before or self._loop.finished is None:
                is_suspended = self._record.journal.is_suspended
                self._loop.finished = RunFinished("suspended" if is_suspended else "cancelled", 0, Usage())
                self._emit(self._loop.finished)
            if isinstance(cancel, asyncio.CancelledError):
                raise
        finally:
            run.close()  # in case it was cancelled before it started
        assert self._loop.finished  # the run is over
        return self._loop.finished

    def _result(self, end: RunFinished, messages: Sequence[Message]) -> RunResult:
        run, spent = self._record.state.run, end.usage != Usage()
        return RunResult(
            status=end.status,
            text=end.text,
            turns=end.turns,
            usage=end.usage,
            messages=messages,
            error=end.error,
            stop_reason=StopReason(end.stop_reason),
            structured_output=end.structured_output,
            has_structured_output=end.has_structured_output,
            citations=run.citations if run and not self._record.state.final else (),
            store=self._record.store,
            usage_by_model=joined(run.by_model if run else {}, self._children.by_model) if spent else {},
            agent=self._agent.name,
            questions=self._waits.questions() if end.status == "waiting" else (),
        )

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something that is not a run, one thing at a time, and record a cancel."""
        try:
            return await self._task.do(self._recording_cancel(work))
        finally:
            work.close()

    async def _recording_cancel(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await self._settling(work)
        except asyncio.CancelledError:
            with suppress(LogError):
                await self._record.append(RunCancelled())
            raise

    async def _settling(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work, and wait for its snapshots."""
        try:
            result = await work
        finally:
            work.close()
            if watch := self._loop.environment.watch:
                await watch.settle()
        await deliver_cancel()
        return result


async def _fall_back(session_of: weakref.ref[SessionBase], error: ProviderError, tried: Sequence[Provider]) -> bool:
    """Let the next model of the agent go on that was not tried. Return whether there is one."""
    session = session_of()
    assert session is not None  # it is at work
    if (agent := session._team.fallback(error, tried)) is None:
        return False
    former, reason = session._agent.provider, clean(getattr(error, "sentence", str(error)))
    await session._record.append(SessionSettings(model=agent.provider.name, former=former.name, reason=reason))
    session._team.use(agent)
    session._use_agent()
    return True


async def _hand_over(session_of: weakref.ref[SessionBase]) -> None:
    """Let the agent go on that a result has handed the conversation to, if one has and it is there."""
    session = session_of()
    assert session is not None  # it is at work
    if not (name := session._record.state.handoff):
        return
    former, agent = session._agent, session._team.get(name)
    if agent is None:
        session._emit(Notice(f"there is no agent {name!r} to hand over to; {former.name} goes on"))
        await session._record.append(SessionSettings(agent=former.name))
        return
    entry = session._record.state.settings.changes(settings_of(agent, session._loop.environment.cwd))
    handed = SessionSettings(agent=agent.name, former=former.name)
    await session._record.append(entry.merged(handed) if entry else handed)
    session._team.use(agent)
    session._system = None
    if session._loop.is_running and session._loop.limits is former.limits:  # not those of the run itself
        session._loop.change_limits(agent.limits)
    session._use_agent()
    await session._call_system()


async def _open_child(
    parent_of: weakref.ref[SessionBase],
    task: SubagentTask,
    agent: AgentSpec,
    approve: Approver | None,
    cwd: Path | None,
) -> SessionBase:
    """Open a session for a sub-agent, which cannot start others. In a log, the one that this task had before."""
    from outrider.runtime.children import child_title

    parent = parent_of()
    assert parent is not None  # it runs the call
    loop = parent._loop
    around = loop.environment
    parent._children.count(loop.limits.max_subagents)
    title = child_title(agent, task)
    agent = loop.model.sharing_servers(agent)
    if (budget := agent.budget.within(loop.model.agent.budget)) is not agent.budget:
        agent = agent.replace(model=agent.provider, budget=budget)
    approve = approve or for_subagent(around.approve, title)
    deps = around.deps if fits(agent.deps_type or (), around.deps) else None
    child = type(parent)(agent, store=around.store, cwd=cwd or around.cwd, approve=approve, deps=deps)
    child._change_environment(open_child=None, background=None, person=around.person)
    known = SessionSettings(title=title, owner=parent._record.state.settings.owner)
    journal = await parent._record.journal.child(task.session, child._settings.merged(known), task.call_id)
    child._attach(journal, known, whole=True)
    if task.background:
        parent.background.journals[task.session], child._loop.in_background = journal, True
    child._loop.parent, child._loop.continues = loop, child._record.history.last is not None
    child._observers.add(parent._children.announce(task, journal.id, child._agent))
    return child
