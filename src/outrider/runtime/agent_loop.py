"""The agent loop: ask what comes next, do it, and again. What comes next is decided in `step.py`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from outrider import errors
from outrider.conversation.messages import Message, ToolResultBlock
from outrider.conversation.prompt import messages_of
from outrider.log.entries import AttemptFailed, CallResult, Entry, MessageEntry, Requested, RunStarted, RunStopped
from outrider.log.pending_write import deliver_cancel
from outrider.providers.base import Provider, Reply
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.call_batches import ReplyCalls
from outrider.runtime.call_environment import CallEnvironment
from outrider.runtime.call_results import stored_prompt, stored_results
from outrider.runtime.children import Children
from outrider.runtime.compactor import Compactor
from outrider.runtime.current_run import CurrentRun
from outrider.runtime.entry_events import ending
from outrider.runtime.events import Compacted, Notice, ReplyDiscarded, RunStatus, TurnStarted
from outrider.runtime.fallback import all_failed
from outrider.runtime.goal import Until
from outrider.runtime.hook_points import HookPoints
from outrider.runtime.hooks import NO_HOOKS
from outrider.runtime.limits import Limits
from outrider.runtime.model_client import ModelClient
from outrider.runtime.record import SessionRecord, answered
from outrider.runtime.run import BudgetSpentError
from outrider.runtime.step import Act, Await, Check, Correct, Deliver, HandOver, Stop, Think, next_step


class Results(msgspec.Struct, frozen=True):
    """The results of the calls of one reply."""

    message: Message
    """One user message with each result, in call order."""
    final: CallResult | None = None
    """The first result that ends the run."""


class AgentLoop(CurrentRun):
    """Works on the conversation of one session with its model and tools. It does one thing at a time."""

    def __init__(
        self, agent: AgentSpec, record: SessionRecord, environment: CallEnvironment, children: Children
    ) -> None:
        model = ModelClient(agent, record, self.add_failure, str(environment.cwd))
        super().__init__(record, model, environment, children)
        self.compactor = Compactor(record, model, environment.cwd)
        self.hook_points = HookPoints()
        self._calls = ReplyCalls(record, model)
        self.continues = False
        """Whether the next run counts on from the one before: a sub-agent that was interrupted has one task."""
        self.fall_back: Callable[[errors.ProviderError, Sequence[Provider]], Awaitable[bool]]
        """Lets another model go on after an error, none of those that were tried. Returns whether there is one."""
        self.hand_over: Callable[[], Awaitable[None]]
        """Lets the agent go on that a result has handed the conversation to, if one has."""
        self._priced: Provider | None = None
        """The model whose price was looked for."""
        self._continued = 0
        """How often hooks have kept it going."""

    def use(self, agent: AgentSpec, deps: Any) -> None:
        """Take the model, the tools, the prompt and the limits of an agent, and the dependencies of the tools."""
        self.model.use(agent)
        self.compactor.use_model()
        taken = {"limits": agent.limits, "deps": deps, "hooks": agent.hooks, "agent": agent}
        self.environment = msgspec.structs.replace(self.environment, **taken)

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
        await self._calls.run(uses, self.environment, is_last=False)
        assert self._record.history.last  # the message with the results
        results = Results(self._record.history.last, self._record.state.final)
        await self.hand_over()
        return results

    async def compact(self, focus: str) -> Compacted:
        """Summarise the conversation."""
        await self._record.load()
        return await self.compactor.compact("manual", focus)

    # Runs

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
        self._priced, self._continued = None, 0
        self._begin_run(limits)
        status: RunStatus = "error"
        error = ""
        try:
            async with asyncio.timeout(limits.max_seconds) as self._timer:
                await self._begin(said, limits, before, goal)
                status = await self._steps()
                await deliver_cancel()  # still inside the time-out, which it may be
        except errors.MissingKeyError as failure:  # not a failure of the model: the program has to be changed
            await self._stop("error", str(failure))
            raise
        except (errors.ProviderError, errors.LogError, errors.HookBlockedError) as failure:
            error = str(failure)
        except TimeoutError:
            # A final result that came before the time-out of a call beside it ends the run all the same.
            status = "done" if self._record.state.final and self._turn else "max_seconds"
        except BudgetSpentError as spent:
            status = spent.status
        except errors.BudgetError as spent_today:
            status, error = "budget", str(spent_today)
        except asyncio.CancelledError:
            await self._stop("cancelled", "")
            raise
        finally:
            terms, self._limits = self._terms, None
            self._timer = None  # it holds the task of the run
        await self._stop(status, error, terms)

    async def _begin(
        self, said: list[Message], limits: Limits, before: Callable[[], Awaitable[None]] | None, goal: Sequence[Entry]
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
            raise errors.ConversationError(
                f"the session waits for an answer: give it with session.answer(id, …) or `outrider sessions answer "
                f"{asked.id[:8]} no`, and go on with run() or another prompt"
            )

    async def _steps(self) -> RunStatus:
        record, steering = self._record, self._record.steering
        while self.finished is None:
            if steering.moving:
                await steering.settled()
            match next_step(record.state, self._terms):
                case Act(calls=calls):
                    await self._calls.run(calls, self.environment, is_last=self.ends_after(self._run))
                case Think() as step:
                    await self._think(step)
                case Stop() as step:
                    if stopped := await self._ends(step):
                        return stopped
                case step:
                    await self._go_on(step)
        return self.finished.status

    async def _go_on(self, step: HandOver | Deliver | Await | Check | Correct) -> None:
        """Do what comes between the requests and the calls."""
        match step:
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
            raise errors.ProviderError(f"{self.model.provider.name} {step.error}")
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
        self.model.offer_rest()
        reply = await self._reply(step)
        before, self._priced = self._priced, (provider := self.model.provider)
        if provider is not before and reply.usage.cost is None and self._has_cost_limit:
            self._record.emit(Notice(f"the price of {provider.name} is not known: the cost limit cannot be kept"))

    async def add_failure(self, failed: AttemptFailed) -> None:
        """Store a failed request, with what it has used. Raises BudgetSpentError if another cannot follow."""
        with contextlib.suppress(
            errors.LogError
        ):  # the reply is worth more; if the log stays broken, it cannot be stored
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
        except errors.ProviderError as error:
            failures = [(self.model.provider, error)]
        while await self.fall_back(failures[-1][1], [provider for provider, _ in failures]):
            if reached := self.budget_reached():
                raise BudgetSpentError(reached)
            try:
                return await self._ask_model(step)
            except errors.ProviderError as error:
                failures.append((self.model.provider, error))
        raise all_failed(failures) from None

    async def _ask_model(self, step: Think | None) -> Reply:
        """Request one reply. If its calls run next, as in a run, their intents are stored in the same commit."""
        record, model = self._record, self.model
        reminder = model.reminder(step, self._run.repeats) if step and step.reminder else ""
        if not record.state.history.is_ready:
            await record.load()
        if model.tools.servers:
            await model.join_servers()
        await self.compactor.make_room()
        settings = model.agent.settings
        settings = self.compactor.bounded(settings if step is None or step.turn == 1 else settings.after_first)
        try:
            reply = await model.reply(reminder, settings)
        except errors.ContextExceededError as error:
            await self.compactor.after_refusal(error)
            reply = await model.reply(reminder, settings)
        if (normalized := record.state.history.normalized(reply.message)) is not reply.message:
            reply = msgspec.structs.replace(reply, message=normalized)
        requested, entry = self._entries(reply)
        entries: list[Entry] = [requested, entry] if requested else [entry]
        end: list[RunStopped] = []
        calls = reply.message.tool_calls if step else ()
        if calls:
            run = self._run.with_reply(entry, record.history.last)
            entries += self._calls.prepare(calls, self.environment, is_last=self.ends_after(run))
        elif step:
            entries += (end := self._end_with(entry))
        try:
            await record.append(*entries, beside=record.restated())
        except errors.LogError as error:
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

    async def _add(
        self,
        said: Sequence[Message],
        tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] = (),
        first: Sequence[Entry] = (),
    ) -> None:
        """Add results and the messages of a prompt. Files are stored first. `first` are entries of the same commit."""
        results = await stored_results(tool_results, self.environment) if tool_results != () else {}
        await self._record.add(await stored_prompt(said, self.environment), results, first)
