"""The agent loop: ask what comes next, do it, and again. What comes next is decided in `step.py`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock, Usage
from outrider.conversation.prompt import messages_of
from outrider.errors import (
    BudgetError,
    ContextExceededError,
    ConversationError,
    HookBlockedError,
    LogError,
    MissingKeyError,
    ProviderError,
    ValidationError,
)
from outrider.log.entries import AttemptFailed, CallResult, Entry, MessageEntry, Requested, RunStarted, RunStopped
from outrider.log.pending_write import deliver_cancel
from outrider.log.run_state import RunState
from outrider.providers.base import Provider, Reply, StopReason
from outrider.providers.catalogue.windows import window_of
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.call_batches import first_intents, run_calls
from outrider.runtime.call_environment import CallEnvironment
from outrider.runtime.call_results import stored_prompt, stored_results
from outrider.runtime.calls import Call
from outrider.runtime.children import Children
from outrider.runtime.compactor import Compactor
from outrider.runtime.entry_events import ending
from outrider.runtime.events import Compacted, Notice, ReplyDiscarded, RunFinished, RunStatus, TurnStarted
from outrider.runtime.fallback import all_failed
from outrider.runtime.goal import GoalKeeper, Until
from outrider.runtime.handoffs import refused_handoffs
from outrider.runtime.hook_points import HookPoints
from outrider.runtime.hooks import NO_HOOKS
from outrider.runtime.limits import Limits
from outrider.runtime.model_client import ModelClient
from outrider.runtime.record import SessionRecord, answered
from outrider.runtime.run import BudgetSpentError
from outrider.runtime.step import (
    Act,
    Await,
    Check,
    Correct,
    Deliver,
    HandOver,
    Step,
    Stop,
    Terms,
    Think,
    ends_with,
    next_step,
)

_DEFAULTS = Limits()


class Results(msgspec.Struct, frozen=True):
    """The results of the calls of one reply."""

    message: Message
    """One user message with each result, in call order."""
    final: CallResult | None = None
    """The first result that ends the run."""


class AgentLoop:
    """Works on the conversation of one session with its model and tools. It does one thing at a time."""

    def __init__(
        self, agent: AgentSpec, record: SessionRecord, environment: CallEnvironment, children: Children
    ) -> None:
        self._record = record
        self._children = children
        self.environment = environment
        """What the calls share."""
        self.model = ModelClient(agent, record, self.add_failure, str(environment.cwd))
        self.compactor = Compactor(record, self.model, environment.cwd)
        self.hook_points = HookPoints()
        self.goal = GoalKeeper(record)
        self.parent: AgentLoop | None = None
        """The loop of the parent session, whose budget a sub-agent shares."""
        self.in_background = False
        """Whether this is a sub-agent that works on when the run that started it has ended."""
        self.continues = False
        """Whether the next run counts on from the one before: a sub-agent that was interrupted has one task."""
        self.fall_back: Callable[[ProviderError, Sequence[Provider]], Awaitable[bool]]
        """Lets another model go on after an error, none of those that were tried. Returns whether there is one."""
        self.hand_over: Callable[[], Awaitable[None]]
        """Lets the agent go on that a result has handed the conversation to, if one has."""
        self.finished: RunFinished | None = None
        """The end of the newest run, once it is over."""
        self._limits: Limits | None = None
        """The limits of the run that goes on."""
        self._budget: Limits | None = None
        """Those of the newest run."""
        self._timer: asyncio.Timeout
        """Its time-out."""
        self._priced: Provider | None = None
        """The model whose price was looked for."""
        self._is_ending = False
        """Whether its end is being stored together with its last reply."""
        self._turn = 0
        """The turn that it is at."""
        self._continued = 0
        """How often hooks have kept it going."""
        self._prepared: list[Call] = []
        """The calls of the newest reply, until they run."""

    def use(self, agent: AgentSpec, deps: Any) -> None:
        """Take the model, the tools, the prompt and the limits of an agent, and the dependencies of the tools."""
        self.model.use(agent)
        self.compactor.use_model()
        self.environment = msgspec.structs.replace(self.environment, limits=agent.limits, deps=deps, hooks=agent.hooks)

    def restart(self) -> None:
        """Begin anew with the conversation of the record, which is another one."""
        self.model.restart()
        self.compactor.restart()

    # One step at a time

    async def think(self, said: list[Message], tool_results: Iterable[ToolResultBlock | Mapping[str, Any]]) -> Reply:
        """Add the messages of a prompt, and results, and request one reply."""
        if said and said[-1].role == "assistant" and not said[-1].has_tool_calls:
            raise answered()  # before anything is stored
        await self._add(await self.submitted(said), tool_results)
        self._record.check_answerable()
        await self.hand_over()
        return await self._reply()

    async def act(self) -> Results:
        """Run the pending calls, and add their results."""
        if not (uses := self._record.history.pending):
            return Results(Message.user())
        await self._act(uses)
        assert self._record.history.last  # the message with the results
        results = Results(self._record.history.last, self._record.state.final)
        await self.hand_over()
        return results

    async def compact(self, focus: str) -> Compacted:
        """Summarise the conversation."""
        await self._record.load()
        return await self.compactor.compact("manual", focus)

    # Runs

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
        self._timer.reschedule(None if limits.max_seconds is None else self._began + limits.max_seconds)

    async def run(
        self,
        said: list[Message],
        limits: Limits,
        before: Callable[[], Awaitable[None]] | None = None,
        until: Until | None = None,
    ) -> None:
        """Think and act until the conversation has an answer, or a limit is reached. `finished` then says which.

        `said` are the messages of its prompt. `before` is called once they are in the history. `until` is its goal.
        """
        if not isinstance(limits, Limits):
            raise TypeError(f"limits must be Limits(…), as in Limits(max_turns=10), not {type(limits).__name__}")
        goal = self.goal.begin(until)
        self._limits = self._budget = limits
        self._turn, self._continued, self._is_ending = 0, 0, False
        self.finished = self._priced = None
        self._began = asyncio.get_running_loop().time()
        self._children.begin_run()
        status: RunStatus = "error"
        error = ""
        try:
            async with asyncio.timeout(limits.max_seconds) as self._timer:
                await self._begin(said, limits, before, goal)
                status = await self._steps()
                await deliver_cancel()  # still inside the time-out, which it may be
        except MissingKeyError as failure:  # not a failure of the model: the program has to be changed
            await self._stop("error", str(failure))
            raise
        except (ProviderError, LogError, HookBlockedError) as failure:
            error = str(failure)
        except TimeoutError:
            # A final result that came before the time-out of a call beside it ends the run all the same.
            status = "done" if self._record.state.final and self._turn else "max_seconds"
        except BudgetSpentError as spent:
            status = spent.status
        except BudgetError as spent_today:
            status, error = "budget", str(spent_today)
        except asyncio.CancelledError:
            await self._stop("cancelled", "")
            raise
        finally:
            terms, self._limits = self._terms, None
        await self._stop(status, error, terms)

    async def _begin(
        self,
        said: list[Message],
        limits: Limits,
        before: Callable[[], Awaitable[None]] | None,
        goal: Sequence[Entry],
    ) -> None:
        """Store that the run begins, with the prompt. A run that was interrupted goes on if there is no prompt."""
        state = self._record.state
        if state.questions:
            await self._take_answers(said)
        said = await self.submitted(said)
        start: tuple[Entry, ...] = (*goal,)
        if not said and not state.queued:
            self._record.check_begun()
        if said or goal or self.continues or not (state.is_running or self._is_answered or self._is_waiting):
            is_same = (self.continues and not said) or (not said and self._run.status == "waiting")
            start = (*goal, RunStarted(limits.changed, is_same))
        self.continues = False
        await self._add(said, first=start)
        if before:
            await before()

    async def _take_answers(self, said: Sequence[Message]) -> None:
        """Take the answers that have come. Raises ConversationError for a prompt, if the session still waits."""
        assert self.environment.waits
        await self.environment.waits.take()
        if said and self._is_waiting:
            asked = next(each for each in self._record.state.questions.values() if each.waits)
            raise ConversationError(
                f"the session waits for an answer: give it with session.answer(id, …) or `outrider sessions answer "
                f"{asked.id[:8]} no`, and go on with run() or another prompt"
            )

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

    async def _steps(self) -> RunStatus:
        record, steering = self._record, self._record.steering
        while self.finished is None:
            if steering.moving:
                await steering.settled()
            match next_step(record.state, self._terms):
                case Stop() as step:
                    if stopped := await self._ends(step):
                        return stopped
                case step:
                    await self._do(step)
        return self.finished.status

    async def _do(self, step: Step) -> None:
        match step:
            case Act(calls=calls):
                await self._act(calls)
            case Think():
                await self._think(step)
            case HandOver():
                await self.hand_over()
            case Deliver():
                await self._record.deliver()
            case Await() if self.environment.background:
                await self.environment.background.changed()
            case Check(number=number):
                await self.goal.check(number, self.environment.watch)
            case Correct(fault=fault):
                await self._add(messages_of(fault))

    async def _ends(self, step: Stop) -> RunStatus | None:
        """Return how the run ends, or None if hooks keep it going."""
        if step.error:
            raise ProviderError(f"{self.model.provider.name} {step.error}")
        if step.status == "waiting" and self._limits and self.environment.waits:
            await self.environment.waits.take()  # an answer may have come meanwhile
            return "waiting" if self._is_waiting else None
        if step.status != "done" or not (said := await self._stop_hooks()):
            return step.status
        await self._add(messages_of(said))
        return None

    async def _think(self, step: Think) -> None:
        self._turn = step.turn
        if step.is_new:
            self._record.emit(TurnStarted(step.turn, step.is_last))
        if self._record.state.has_cut_results:
            self.model.offer_rest()
        reply = await self._reply(step)
        before, self._priced = self._priced, (provider := self.model.provider)
        if provider is not before and reply.usage.cost is None and self._has_cost_limit:
            self._record.emit(Notice(f"the price of {provider.name} is not known: the cost limit cannot be kept"))

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
            done = status == "done"
            self.finished = ending(RunStopped("done"), state) if done else RunFinished(status, 0, Usage(), error=error)
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

    async def add_failure(self, failed: AttemptFailed) -> None:
        """Store a failed request, with what it has used. Raises BudgetSpentError if another cannot follow."""
        with contextlib.suppress(LogError):  # the reply is worth more; if the log stays broken, it cannot be stored
            await self._record.append(failed)
        # Without a delay the request is not repeated, and its error counts.
        if failed.delay is not None and (reached := self.budget_reached()):
            raise BudgetSpentError(reached)

    # Hooks

    async def submitted(self, said: list[Message]) -> list[Message]:
        """Return a prompt with what hooks add to it. Raises HookBlockedError if one refuses it."""
        if self.environment.hooks is NO_HOOKS:
            return said
        is_resumed = self._record.history.last is not None
        return await self.hook_points.submit(said, self.environment, is_resumed=is_resumed)

    async def stored(self, message: Message) -> Message:
        """Return a message whose files are stored. Raises AttachmentError."""
        (found,) = await stored_prompt([message], self.environment)
        return found

    async def _stop_hooks(self) -> str:
        """Return what hooks say if they want the run to go on. A final result or a limit ends it all the same."""
        if self.environment.hooks is NO_HOOKS or self._record.state.final or self._terms.limit_reached(self._run):
            return ""
        name, text = self.model.agent.name, self._with_answer(RunStopped("done"), self._record.history.last).text
        shown = self._run.text if text is UNSET else text
        said = await self.hook_points.stop(shown, self.environment, name, self._continued)
        self._continued += bool(said)
        return said

    # Requests

    async def _reply(self, step: Think | None = None) -> Reply:
        """Request one reply, from the next model of the agent if one cannot answer. In a run it is a step."""
        try:
            return await self._ask_model(step)
        except ProviderError as error:
            failures = [(self.model.provider, error)]
        while await self.fall_back(failures[-1][1], [provider for provider, _ in failures]):
            if reached := self.budget_reached():
                raise BudgetSpentError(reached)
            try:
                return await self._ask_model(step)
            except ProviderError as error:
                failures.append((self.model.provider, error))
        raise all_failed(failures) from None

    async def _ask_model(self, step: Think | None) -> Reply:
        """Request one reply. If its calls run next, as in a run, their intents are stored in the same commit."""
        record, model = self._record, self.model
        reminder = model.reminder(step, self._run.repeats) if step else ""
        if not record.history.is_ready:
            await record.load()
        if model.tools.servers:
            await model.join_servers()
        if self.compactor.may_be_full:
            await self.compactor.make_room()
        settings = model.agent.settings
        settings = self.compactor.bounded(settings if step is None or step.turn == 1 else settings.after_first)
        try:
            reply = await model.reply(reminder, settings)
        except ContextExceededError as error:
            await self.compactor.after_refusal(error)
            reply = await model.reply(reminder, settings)
        if (normalized := record.history.normalized(reply.message)) is not reply.message:
            reply = msgspec.structs.replace(reply, message=normalized)
        self._prepared = self._make_calls(reply.message.tool_calls) if step else []
        requested, entry = self._entries(reply)
        entries: list[Entry] = [requested, entry] if requested else [entry]
        end: list[RunStopped] = []
        if self._prepared:
            entries += first_intents(self._prepared)
        elif step:
            entries += (end := self._end_with(entry))
        try:
            await record.append(*entries, beside=record.restated())
        except LogError as error:
            record.unstored_usage += reply.usage
            record.emit(ReplyDiscarded(str(error)))
            raise
        for stopped in end:
            self.finished = ending(stopped, record.state)
        self.compactor.calibrate(reply.message, reply.usage)
        return reply

    def _entries(self, reply: Reply) -> tuple[Requested | None, MessageEntry]:
        """Return the entries of a reply: what its request had that others had not, if anything, and the message."""
        model = self.model
        first_token = None if model.first_token is None else int(model.first_token * 1000) / 1000
        name, detail = model.provider.name, reply.stop_detail
        entry = MessageEntry(reply.message, reply.usage, reply.stop_reason, name, first_token, detail)
        requested = model.request and self._record.journal.requested(model.request, self._record.state.requested)
        return requested or None, entry

    # Calls

    def _make_calls(self, uses: Sequence[ToolUseBlock]) -> list[Call]:
        """Make a Call of each request; one that has its result already keeps it."""
        if uses:
            self._fit_results()
        record, tools = self._record, self.model.tools.callable
        refused = refused_handoffs(uses, tools)
        reply = uses[0].id if uses else ""  # ids are unique in a conversation, so the first call names the reply
        waiting = record.state.waiting_calls(is_attended=self.environment.person is not None)
        calls = []
        for use in uses:
            intent = record.state.intents.get(use.id)
            call = Call(use, refused.get(use.id) or tools.get(use.name), self.environment, intent, reply)
            if answer := record.state.answers.get(use.id):
                call.recall(answer, recorded=True)
            elif answer := record.unsaved.get(use.id):
                call.recall(answer, recorded=False)
            call.is_parked = use.id in waiting and not call.answer
            call.is_begun = call.is_begun and not record.state.begins_again(use.id)
            calls.append(call)
        return calls

    async def _act(self, uses: Sequence[ToolUseBlock]) -> None:
        """Run calls until each has a result. The last result completes the message with all of them."""
        calls, self._prepared = self._prepared, []
        if not calls or [call.use.id for call in calls] != [use.id for use in uses]:
            known = self.model.tools.callable
            if any(use.name not in known for use in uses):  # after a crash, their servers are just starting
                await self.model.join_servers()
            calls = self._make_calls(uses)
        try:
            await run_calls(calls, self.model.tools.offered)
        except (asyncio.CancelledError, LogError):
            self._record.unsaved = {call.use.id: call.answer for call in calls if call.answer and not call.recorded}
            raise
        if (waits := self.environment.waits) and waits.kept:
            await waits.settle()

    def _fit_results(self) -> None:
        """Bound the results by the model's context window, which the provider may have learned meanwhile."""
        limits, window = self.model.agent.limits, window_of(self.model.provider)
        if window is not None:
            limits = limits.within(window)
        if limits is not self.environment.limits and limits != self.environment.limits:
            self.environment = msgspec.structs.replace(self.environment, limits=limits)

    async def _add(
        self,
        said: Sequence[Message],
        tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] = (),
        first: Sequence[Entry] = (),
    ) -> None:
        """Add results and the messages of a prompt. Files are stored first. `first` are entries of the same commit."""
        results = await stored_results(tool_results, self.environment) if tool_results != () else {}
        await self._record.add(await stored_prompt(said, self.environment), results, first)
