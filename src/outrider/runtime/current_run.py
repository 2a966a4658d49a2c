"""The run that goes on in a session: its limits, what it has used, and its end."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.errors import LogError, ValidationError
from outrider.log.entries import MessageEntry, RunStopped
from outrider.log.run_state import RunState
from outrider.providers.base import StopReason
from outrider.runtime.call_environment import CallEnvironment
from outrider.runtime.children import Children
from outrider.runtime.entry_events import ending
from outrider.runtime.events import RunFinished, RunStatus
from outrider.runtime.goal import GoalKeeper
from outrider.runtime.limits import Limits
from outrider.runtime.model_client import ModelClient
from outrider.runtime.record import SessionRecord
from outrider.runtime.step import Terms, ends_with

_DEFAULTS = Limits()


class CurrentRun:
    """The run of one session, and between runs the newest one. `AgentLoop` does its steps."""

    def __init__(
        self, record: SessionRecord, model: ModelClient, environment: CallEnvironment, children: Children
    ) -> None:
        self._record = record
        self._children = children
        self.model = model
        self.environment = environment
        """What the calls share."""
        self.goal = GoalKeeper(record)
        self.parent: CurrentRun | None = None
        """The loop of the parent session, whose budget a sub-agent shares."""
        self.in_background = False
        """Whether this is a sub-agent that works on when the run that started it has ended."""
        self.finished: RunFinished | None = None
        """The end of the newest run, once it is over."""
        self._limits: Limits | None = None
        """The limits of the run that goes on."""
        self._budget: Limits | None = None
        """Those of the newest run."""
        self._timer: asyncio.Timeout | None = None
        """Its time-out."""
        self._is_ending = False
        """Whether its end is being stored together with its last reply."""
        self._turn = 0
        """The turn that it is at."""

    def _begin_run(self, limits: Limits) -> None:
        """Count anew."""
        self._limits = self._budget = limits
        self._turn, self._is_ending, self.finished = 0, False, None
        self._began = asyncio.get_running_loop().time()
        self._children.begin_run()

    @property
    def is_running(self) -> bool:
        """Whether a run goes on. One whose end is being stored is over."""
        return self._limits is not None and not self._is_ending

    @property
    def limits(self) -> Limits:
        """The limits of the run that goes on, or else those of the agent."""
        return self._limits or self.model.agent.limits

    def change_limits(self, limits: Limits) -> None:
        """Let other limits hold for the run that goes on, from its beginning."""
        self._limits = self._budget = limits
        assert self._timer
        self._timer.reschedule(None if limits.max_seconds is None else self._began + limits.max_seconds)

    @property
    def _is_waiting(self) -> bool:
        """Whether no call can go on without an answer from outside."""
        return self._record.state.is_waiting(is_attended=self.environment.person is not None)

    @property
    def _is_answered(self) -> bool:
        """Whether there is nothing to do: such a run is not stored."""
        state = self._record.state
        if state.queued or (state.background and (state.reports or (self._terms.awaits and state.working))):
            return False
        if state.calls or self.model.agent.answer or self.goal.name or self._run.stop_reason is StopReason.PAUSE:
            return False
        return bool(state.final) or (state.history.last is not None and state.history.last.role == "assistant")

    async def _stop(self, status: RunStatus, error: str, terms: Terms | None = None) -> None:
        """Store that the run is over, and tell the observers, unless its last reply has done so."""
        if self.finished:
            return
        if (waits := self.environment.waits) and waits.kept:
            await waits.settle()
        state, terms = self._record.state, terms or self._terms
        if self._record.journal.is_suspended:  # the log has no end of it, as after a kill
            run = self._run
            self.finished = RunFinished("suspended", max(run.turns, self._turn), terms.used(run))
            self._record.emit(self.finished)
            return
        if not state.is_running:  # it could not begin, or had nothing to do
            again = self._run.done_again(state.history.last) if status == "done" else None
            self.finished = ending(again, state) if again else RunFinished(status, 0, Usage(), error=error)
            self._record.emit(self.finished)
            return
        run = self._run
        entry = RunStopped(status, max(run.turns, self._turn), terms.used(run), error)
        if status == "done":
            entry = self._with_answer(entry, self._record.history.last)
        self.finished = ending(entry, state)
        try:
            await self._record.append(entry)
        except LogError:
            self._record.emit(self.finished)

    def _end_with(self, reply: MessageEntry) -> list[RunStopped]:
        """Return the end of the run, if it is over once it has this reply: it is stored in the same commit."""
        record = self._record
        if not self._limits or record.steering.is_busy:
            return []
        hooks = self.environment.hooks.subagent_stop if self.environment.is_subagent else self.environment.hooks.stop
        if hooks or not ends_with(reply, record.state, terms := self._terms):
            return []
        self._is_ending = True
        run = self._run.with_reply(reply, record.history.last)
        return [self._with_answer(RunStopped("done", run.turns, terms.used(run)), reply.message)]

    def _with_answer(self, entry: RunStopped, last: Message | None) -> RunStopped:
        """Add the data of the answer, if it has a schema and satisfies it."""
        schema = self.model.agent.answer
        if schema and last and last.role == "assistant" and not self._record.state.final:
            with contextlib.suppress(ValidationError):
                answer = schema.read(last)
                return msgspec.structs.replace(entry, text=answer.text, output=answer.data)
        return entry

    @property
    def _run(self) -> RunState:
        return self._record.state.run or RunState()

    @property
    def _terms(self) -> Terms:
        outer = self.parent.budget_reached(or_before=self.in_background) if self.parent else None
        around, agent = self.environment, self.model.agent
        return Terms(
            self._limits or _DEFAULTS,
            agent.answer,
            self._children.used_in_run,
            outer,
            is_attended=around.person is not None,
            has_goal=bool(self.goal.name),
            keeps_on_task=agent.keeps_on_task,
            awaits=around.background is not None and around.background.wake is None,
        )

    def ends_after(self, run: RunState) -> bool:
        """Return whether no reply can follow in the run, once it is as far as `run`: a limit is reached."""
        return self._terms.limit_reached(run) is not None

    def budget_reached(self, *, or_before: bool = False) -> RunStatus | None:
        """Return the limit on tokens or cost that the run has used up; between runs, `or_before`, the newest one."""
        if limits := self._limits or (self._budget if or_before else None):
            return msgspec.structs.replace(self._terms, limits=limits).budget_reached(self._run)
        return None

    @property
    def _has_cost_limit(self) -> bool:
        limits = self._limits
        is_limited = bool(limits and limits.max_cost is not None) or bool(self.model.agent.budget.parts)
        return is_limited or bool(self.parent and self.parent._has_cost_limit)
