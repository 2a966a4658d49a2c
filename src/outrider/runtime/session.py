"""The loop: `think` asks the model once, `act` runs its calls, `run` repeats both until no calls are left."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.codec import MessageLike, read_conversation, read_tool_results
from outrider.conversation.history import History, unanswered
from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from outrider.conversation.prompt import Part, Prompt, parts_of
from outrider.conversation.store import AttachmentStore, MemoryStore
from outrider.errors import (
    ContextExceededError,
    ConversationError,
    LogError,
    ProviderError,
    SessionBusyError,
    SessionCancelledError,
    ValidationError,
)
from outrider.log.entries import AttemptFailed, CallResult, MessageEntry, RunCancelled, SessionSettings
from outrider.log.pending_write import deliver_cancel
from outrider.log.replay import changes
from outrider.prompts import prompt as prompt_text
from outrider.providers.base import REMARKABLE, ModelSettings, Reply, Request, StopReason, ToolSpec
from outrider.providers.windows import window_of
from outrider.runtime.agent_settings import agent_of, cwd_of, settings_of
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.call_batches import first_intents, run_calls
from outrider.runtime.call_environment import CallEnvironment
from outrider.runtime.calls import Call
from outrider.runtime.children import Children, open_child
from outrider.runtime.compactor import Compactor
from outrider.runtime.context import ContextUsage
from outrider.runtime.events import (
    Compacted,
    Event,
    MessageAdded,
    Notice,
    ReplyDiscarded,
    RunFinished,
    RunStatus,
    TurnStarted,
)
from outrider.runtime.exclusive_task import ExclusiveTask
from outrider.runtime.limits import Limits
from outrider.runtime.observers import Inbox, Observers
from outrider.runtime.opening import SessionOpening
from outrider.runtime.past import LoggedPast, Past, RememberedPast
from outrider.runtime.recall import recall_tool
from outrider.runtime.receiver import Receiver
from outrider.runtime.reply_calls import ReplyCalls
from outrider.runtime.run import BudgetSpentError, Progress, RunResult
from outrider.runtime.steering import QueuedMessage, Steering, entries_of
from outrider.runtime.toolset import Toolset
from outrider.text import clean
from outrider.tools.approval import Approver
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.log.journal import Journal
    from outrider.log.log import Log
    from outrider.runtime.rewinding import Rewinder, RewindPoint, RewindPreview, Rewound
    from outrider.runtime.working_folder import WorkingFolder

T = TypeVar("T")
ONE_RUN_SECONDS = 10.0
"""How long a session for one run waits for its MCP servers: their tools cannot join at a later prompt."""
MAX_PAUSES = 20
"""Requests of one turn, if the model pauses its reply again and again."""
_NO_EARLIER_TURNS = 0, Usage(), ""


class Results(msgspec.Struct, frozen=True):
    """The results of the calls of one reply."""

    message: Message
    """One user message with each result, in call order."""
    final: CallResult | None = None
    """The first result that ends the run."""


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
        observer: Callable[[Event], None] | None = None,
        approve: Approver | None = None,
    ) -> None:
        self.id = os.urandom(16).hex()
        self.history = History(read_conversation(messages))
        self.usage = Usage()
        """The usage of all requests of this session, without those of its sub-agents."""
        self._observers = Observers()
        if observer:
            self._observers.add(observer)
        self._emit = self._observers.emit
        _check_agent(agent)
        self._environment = CallEnvironment(
            self.id,
            self._emit,
            store if store is not None else MemoryStore(),
            Threads(),
            agent.limits,
            Path(cwd or ".").resolve(),
            approve=approve,
            open_child=partial(open_child, self),
        )
        self._children = Children(self._emit, self._environment.threads)
        self._calls = ReplyCalls()
        self._steering = Steering(self._emit)
        self._memory: dict[str, Any] = {}
        self._task = ExclusiveTask()
        self._progress: Progress | None = None
        """The progress of the current run, if there is one."""
        self._parent_progress: Progress | None = None
        """The run of the parent session, whose budget a sub-agent shares."""
        self._earlier_turns = _NO_EARLIER_TURNS
        """Turns, usage and last text of a sub-agent that was interrupted: it continues from there."""
        self._log: Log | None = None
        self.before_run: Callable[[], Awaitable[AgentSpec | None]] | None = None
        """Called in each run once the prompt is in the history; the agent that it returns, if any, does the run."""
        self._compactor = Compactor(self)
        self._tools = Toolset(lambda: recall_tool(self._past(), self.store))
        self._use(agent)

    def _use(self, agent: AgentSpec) -> None:
        """Take the model, the tools, the prompt and the limits of an agent."""
        provider = agent.provider  # raises before anything is changed
        self._tools.use(agent)
        self._agent = agent
        self.provider = provider
        self._compactor.use_model()
        self._offer_tools()
        self._environment = msgspec.structs.replace(self._environment, limits=agent.limits, deps=agent.deps)

    def _offer_tools(self) -> None:
        self._tools.offer(is_abridged=self.history.is_abridged)

    @property
    def agent(self) -> AgentSpec:
        """The agent that answers. Assigning another changes model, tools, prompt and limits together, between runs.

        Raises SessionBusyError while the session is at work.
        """
        return self._agent

    @agent.setter
    def agent(self, agent: AgentSpec) -> None:
        _check_agent(agent)
        if self._task.is_busy:
            raise SessionBusyError("this session is at work; change its agent between two runs")
        self._change_agent(agent)

    def rename(self, title: str) -> None:
        """Set the title of the session in its log. Raises LogError."""
        title = " ".join(clean(title).split())
        if not title:
            raise LogError("a title must not be empty")
        if journal := self._environment.journal:
            journal.write_now(SessionSettings(title=title))

    def _change_agent(self, agent: AgentSpec) -> None:
        if journal := self._environment.journal:
            agent.provider  # noqa: B018 - raises for an unknown model before anything is written
            if changed := changes(journal.settings, settings_of(agent, self._environment.cwd)):
                journal.write_now(changed)
        self._use(agent)

    @classmethod
    def open(
        cls,
        log: Log,
        id: str | None = None,
        agent: AgentSpec | None = None,
        *,
        cwd: str | Path | None = None,
        observer: Callable[[Event], None] | None = None,
        approve: Approver | None = None,
    ) -> SessionOpening[Session]:
        """Open a session in a log: a new one, or by its id one that stopped, however it stopped.

        Use `async with Session.open(…) as session:` or `await Session.open(…)`; in sync code `with`. Without an agent
        the session keeps the model and the instructions that the log has; tools cannot be stored, so pass an agent to
        have any. Calls that were interrupted are settled by their effect: `run` repeats a call that may be repeated,
        and answers any other with an error that says so. Raises LogError: SessionHeldError if another process has the
        session open.
        """
        if agent is None and id is None:
            raise TypeError("a new session needs an agent: Session.open(log, agent=Agent(…))")
        return SessionOpening(partial(cls._opened_in, log, id, agent, cwd=cwd, observer=observer, approve=approve))

    @classmethod
    def _opened_in(
        cls, log: Log, id: str | None, agent: AgentSpec | None, *, cwd: str | Path | None, **options: Any
    ) -> Session:
        journal = None if id is None else log.open(id)
        try:
            recorded = journal.settings if journal else SessionSettings()
            session = cls(agent or agent_of(recorded), cwd=cwd or cwd_of(recorded), **options)
            journal = journal or log.create(settings_of(session.agent, session._environment.cwd))
            session._attach_journal(journal, log)
            if log.warning:
                session._emit(Notice(log.warning))
        except BaseException:
            if journal:
                journal.close()
            raise
        return session

    def close(self) -> None:
        """Cancel what is running and release the session, so that others can open it."""
        self.cancel()
        if self._tools.servers:
            self._tools.servers.close()
        if journal := self._environment.journal:
            with contextlib.suppress(LogError):  # the lock expires anyway
                journal.close()

    async def aclose(self) -> None:
        """Close the session without blocking the loop."""
        self.cancel()
        if self._tools.servers or self._environment.journal:
            await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def messages(self) -> list[Message]:
        """The conversation so far, as a new list."""
        return self.history.messages

    @property
    def is_unfinished(self) -> bool:
        """Whether `run` without a prompt has work to do: calls to run, or results or queued messages to answer."""
        last = self.history.last
        if self._steering:
            return True
        return last is not None and self._calls.final is None and (last.role == "user" or bool(self.history.pending))

    @property
    def queued(self) -> tuple[QueuedMessage, ...]:
        """The messages that wait to be delivered, the oldest first; see `steer`."""
        return self._steering.queued

    @property
    def total_usage(self) -> Usage:
        """The usage of this session and its sub-agents."""
        return self.usage + self._children.usage

    @property
    def context(self) -> ContextUsage:
        """How much of the model's context window the next request takes, and what takes it. Needs no network."""
        return self._compactor.usage()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the agent, and those of MCP servers that have joined."""
        return tuple(self._tools.offered.values())

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them: those of the agent, of servers, and Recall."""
        return self._tools.specs

    @property
    def store(self) -> AttachmentStore:
        """The store that holds the files of the conversation."""
        return self._environment.store

    # The verbs

    async def think(
        self, prompt: Prompt = (), *, tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] | None = None
    ) -> Reply:
        """Add the prompt and results, and ask the model once. Calls in the reply are left to `act`."""

        async def work() -> Reply:
            await self._add(prompt, () if tool_results is None else tool_results)
            self._check_answerable()
            return await self._think()

        return await self._run_exclusively(work())

    async def act(self) -> Results:
        """Run the pending calls, and add one user message with their results."""
        return await self._run_exclusively(self._act(self.history.pending))

    async def compact(self, focus: str = "") -> Compacted:
        """Summarise the conversation now, all but its newest messages. `focus` says what the summary must keep.

        The history stays whole; only what is sent changes. Raises ConversationError if there is nothing to summarise.
        """

        async def work() -> Compacted:
            await self._load_history()
            return await self._compactor.compact("manual", focus)

        return await self._run_exclusively(work())

    async def rewind(self, to: int, *, files: bool = True, conversation: bool = True, force: bool = False) -> Rewound:
        """Go back to before user message `to`, counted from 1: the conversation, the files of the folder, or both.

        The log keeps everything, so `undo_rewind` can take it back. Files are restored if the session was opened with a
        working folder, as the coding agent does. Raises ConversationError for an unknown message, and
        RewindConflictError if someone else changed the files since; `force` overwrites them.
        """
        options = {"files": files, "conversation": conversation, "force": force}
        return await self._run_exclusively(self._rewound(lambda rewinder: rewinder.rewind(to, **options)))

    async def undo_rewind(self, *, force: bool = False) -> Rewound:
        """Take back the newest rewind. Raises ConversationError if there is none, and RewindConflictError."""
        return await self._run_exclusively(self._rewound(lambda rewinder: rewinder.undo(force=force)))

    async def rewind_preview(self, to: int) -> RewindPreview:
        """Return what `rewind` would do: the messages that it leaves out, the files that change, and the conflicts."""
        work = self._environment.threads.run(partial(self._rewinder().preview, to))
        return await self._run_exclusively(work)

    async def undo_rewind_preview(self) -> RewindPreview:
        """Return what `undo_rewind` would do."""
        return await self._run_exclusively(self._environment.threads.run(self._rewinder().preview_undo))

    async def rewind_points(self) -> list[RewindPoint]:
        """Return the messages of the user, to which the session can go back."""
        return await self._run_exclusively(self._environment.threads.run(self._rewinder().points))

    async def run(self, prompt: Prompt = (), *, limits: Limits | None = None) -> RunResult:
        """Think and act until the model calls no more tools, a result is final, or a limit is reached.

        Model and tool failures set `status`; they do not raise. `limits` replaces the agent's for this run.
        """
        limits = limits or self.agent.limits
        progress = Progress(limits, self._parent_progress)
        (progress.turns, progress.usage, progress.text), self._earlier_turns = self._earlier_turns, _NO_EARLIER_TURNS
        status: RunStatus = "cancelled"
        error = ""
        earlier = self._calls.final
        try:
            status = await self._run_exclusively(self._run(prompt, progress, limits.max_seconds))
        except (ProviderError, LogError) as failure:
            status, error = "error", str(failure)
        except TimeoutError:
            # A final result that came before the time-out of a call beside it ends the run all the same.
            status = "max_seconds" if self._calls.final in (None, earlier) else "done"
        except BudgetSpentError as spent:
            status = spent.status
        except SessionCancelledError:
            pass
        except asyncio.CancelledError:
            self._finish(progress, status, "", earlier)
            raise
        ending = self._finish(progress, status, error, earlier)
        conversation = await self._all_messages()
        return RunResult(
            status, progress.text, progress.turns, progress.usage, conversation, *ending, progress.citations
        )

    def _finish(
        self, progress: Progress, status: RunStatus, error: str, earlier: CallResult | None
    ) -> tuple[str, StopReason, Any, bool]:
        """Announce the end of a run, with its final result if this run has one; return the last fields of both."""
        final = self._calls.final
        if final is not None and final is not earlier:
            progress.end_with(final)
        ending = error, progress.stop_reason, progress.structured_output, progress.has_structured_output
        self._emit(RunFinished(status, progress.turns, progress.usage, progress.text, *ending))
        return ending

    async def steer(self, prompt: Prompt) -> QueuedMessage:
        """Queue a message for the run that goes on, and return once it is in the log.

        The run delivers it as a user message at the next boundary: after the results of the calls, or after a reply
        without calls, which then does not end the run. A run that is cancelled, fails or reaches a limit leaves it
        queued, also if the process is killed: the next `run` or `think` begins with it. Raises ConversationError if
        nothing runs; then send it with `run`.
        """
        if self._progress is None:
            raise ConversationError("no run is under way that could take a message; send it with run()")
        if not (parts := parts_of(prompt)):
            raise ConversationError("the message is empty; give text or a file")
        return await self._steering.add(self._stored_message(parts))

    async def unsteer(self, queued: QueuedMessage | None = None) -> QueuedMessage | None:
        """Take back a queued message, or the newest. Return it, or None if it was delivered or taken back already."""
        return await self._steering.withdraw(queued)

    async def stream(self, prompt: Prompt = ()) -> AsyncGenerator[Event, None]:
        """Run, and yield each event as it happens; the last one is `RunFinished`. Leaving early cancels the run."""
        inbox = Inbox()
        self._observers.add(inbox.put)
        running = asyncio.ensure_future(self.run(prompt))
        running.add_done_callback(lambda _: inbox.put(None))
        try:
            async for event in inbox:
                yield event
            running.result()
        finally:
            running.cancel()
            try:
                await asyncio.wait([running])  # its outcome may have been raised above already
            finally:
                self._observers.remove(inbox.put)

    def cancel(self) -> None:
        """Cancel what the session is doing, if anything. Safe from any thread.

        Every call is answered. `run` returns with the status `cancelled`; `think` and `act` raise
        SessionCancelledError.
        """
        self._task.cancel()

    def wait_for_servers(self, seconds: float) -> None:
        """Let the first request wait so long for MCP servers that are still starting, instead of a moment."""
        if self._tools.servers:
            self._tools.servers.grace = seconds

    def observe(self, observer: Callable[[Event], None]) -> None:
        """Call the observer with each event from now on, in order."""
        self._observers.add(observer)

    # The loop

    async def _run(self, prompt: Prompt, progress: Progress, seconds: float | None) -> RunStatus:
        self._progress = progress
        try:
            async with asyncio.timeout(seconds):
                status = await self._turns(prompt, progress)
                await deliver_cancel()  # still inside the time-out, which it may be
                return status
        finally:
            self._progress = None

    async def _turns(self, prompt: Prompt, progress: Progress) -> RunStatus:
        await self._add(prompt)
        if self.before_run and (agent := await self.before_run()):
            self._change_agent(agent)
        await self._act_if_called()
        while True:
            reached = progress.limit_reached()
            if not reached:
                await self._deliver()
            correction = self._correction(progress)
            if not correction and self._has_ended(progress):
                return "done"
            if reached:
                return reached
            if correction:
                await self._add(correction)
            progress.begin_turn()
            self._emit(TurnStarted(progress.turns, progress.on_last_turn))
            reply = await self._whole_reply(progress)
            if progress.cost_is_unknown:
                self._emit(Notice(f"the price of {self.provider.name} is not known: the cost limit cannot be kept"))
            await self._act_if_called()
            if (last := self.history.last) is not None:
                progress.count_calls(reply.message.tool_calls, last.tool_results)

    def _correction(self, progress: Progress) -> str:
        """Return what to say about an answer that does not satisfy its schema. A refusal is not corrected."""
        if self._calls.final or not self._final_answer():
            return ""
        is_refused = progress.stop_reason in (StopReason.REFUSAL, StopReason.CONTENT_FILTER)
        return self.agent.answer.correction(self.history.tail) if self.agent.answer and not is_refused else ""

    def _has_ended(self, progress: Progress) -> bool:
        """Take the final result or the model's answer, if the conversation ends with one."""
        if final := self._calls.final:
            progress.end_with(final)
        elif answer := self._final_answer():
            progress.text = answer.text
            self._read_answer(answer, progress)
        else:
            return False
        return True

    def _read_answer(self, message: Message, progress: Progress) -> None:
        """Take the data of the answer, if it has a schema and satisfies it."""
        if self.agent.answer:
            with contextlib.suppress(ValidationError):
                answer = self.agent.answer.read(message)
                progress.text = answer.text
                progress.structured_output, progress.has_structured_output = answer.data, True

    async def _whole_reply(self, progress: Progress) -> Reply:
        """Request replies until one ends its turn: a pause is continued; an empty reply after a failure is not one."""
        reminder, first, was_empty = self._reminder(progress), progress.turns == 1, False
        for _ in range(MAX_PAUSES):
            before = self.history.last
            reply = await self._think(reminder, acting=True, first=first)
            progress.count(reply)
            if reply.message.tool_calls:
                return reply
            if reply.stop_reason is StopReason.PAUSE:
                progress.check_budget()
                continue
            if reply.stop_reason is not StopReason.END or progress.text or not (was_empty or _has_failed(before)):
                return reply
            if was_empty:
                raise ProviderError(f"{self.provider.name} replied with nothing, twice, after a call had failed")
            was_empty, reminder = True, prompt_text("empty_reply")
        raise ProviderError(f"{self.provider.name} paused its reply {MAX_PAUSES} times; send another prompt to go on")

    async def _think(self, reminder: str = "", *, acting: bool = False, first: bool = True) -> Reply:
        """Request one reply. If its calls run next, their intents are stored in the same commit."""
        await self._load_history()
        await self._join_servers()
        await self._compactor.make_room()
        settings = self._compactor.bounded(self.agent.settings if first else self.agent.settings.after_first)
        try:
            reply = await self._receive(reminder, settings)
        except ContextExceededError as error:
            await self._compactor.after_refusal(error)
            reply = await self._receive(reminder, settings)
        if (normalized := self.history.normalized(reply.message)) is not reply.message:
            reply = msgspec.structs.replace(reply, message=normalized)
        self.usage += reply.usage
        try:
            await self._record_reply(reply, acting)
        except LogError as error:
            self._emit(ReplyDiscarded(str(error)))
            raise
        self.history.append(reply.message)
        self._compactor.measure(reply.message, reply.usage)
        self._emit(MessageAdded(reply.message, reply.usage))
        if remark := REMARKABLE.get(reply.stop_reason):
            self._emit(Notice(remark))
        return reply

    async def _receive(self, reminder: str, settings: ModelSettings) -> Reply:
        """Request one reply, and show its deltas."""
        messages = self.history.sendable()
        if not messages:
            raise ConversationError("there is nothing to answer: the messages are blank")
        receiver = Receiver(self.provider, self._emit, self.agent.retry, self._record_failure)
        try:
            return await receiver.receive(self._request(messages, reminder, settings))
        except asyncio.CancelledError:
            await self._keep_partial_reply(clean(receiver.words))
            raise

    def _request(self, messages: Sequence[Message], reminder: str, settings: ModelSettings) -> Request:
        return Request(
            messages,
            self.store,
            self._tools.instructions(self.agent),
            self._tools.specs,
            reminder,
            self._memory,
            settings,
            self.agent.retry.idle_seconds,
            self.agent.answer.schema if self.agent.answer else None,
            self.agent.server_tools,
        )

    def _fit_results(self) -> None:
        """Bound the results by the model's context window, which the provider may have learned meanwhile."""
        limits = self.agent.limits.within(window_of(self.provider))
        if limits is not self._environment.limits and limits != self._environment.limits:
            self._environment = msgspec.structs.replace(self._environment, limits=limits)

    def _reminder(self, progress: Progress) -> str:
        """Return the reminder for one request."""
        if progress.on_last_turn:
            asked = [tool.final_turn for tool in self._tools.offered.values() if tool.final_turn]
            if self.agent.answer:
                asked.append(prompt_text("output_final_turn"))
            return " ".join([prompt_text("final_turn"), *(asked or [prompt_text("final_answer")])])
        return prompt_text("repeating").format(repeats=progress.repeats) if progress.is_repeating else ""

    async def _keep_partial_reply(self, words: str) -> None:
        """Keep the text of an interrupted reply, marked as interrupted; partial calls and thinking are dropped."""
        if words.strip():
            with contextlib.suppress(LogError):  # the text is lost, the cancel goes on
                await self._append(Message.assistant(words), Message.user(prompt_text("interrupted")))

    async def _act_if_called(self) -> None:
        if uses := self.history.pending:
            await self._act(uses)

    async def _act(self, uses: Sequence[ToolUseBlock]) -> Results:
        if any(use.name not in self._tools.callable for use in uses):  # after a crash, their servers are just starting
            await self._join_servers()
        if uses:
            self._fit_results()
        calls = self._calls.make(uses, self._tools.callable, self._environment)
        try:
            await run_calls(calls, self._tools.offered)
        except (asyncio.CancelledError, LogError):
            if all(call.recorded for call in calls):
                self._add_results(calls)
            else:
                self._calls.keep(calls)
            raise
        return self._add_results(calls)

    def _add_results(self, calls: Sequence[Call]) -> Results:
        """Add one message with all results. The log derives it from the results."""
        answers = [call.answer for call in calls if call.answer]
        message = Message.user(*(answer.result for answer in answers))
        final = next((answer for answer in answers if answer.final), None)
        if message.content:
            self.history.append(message)
            self._calls.finish(final)
            self._emit(MessageAdded(message))
        return Results(message, final)

    # The history

    async def _add(self, prompt: Prompt, tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] = ()) -> None:
        """Add results, then queued messages, then the prompt. A call without a result gets an error result."""
        results = read_tool_results(tool_results)
        said = (await self._stored_message(parts_of(prompt))).content
        if not results and not said:
            if not self.history.pending:
                await self._deliver()
            return
        pending = [call.id for call in self.history.pending]
        unknown = [call_id for call_id in results if call_id not in pending]
        if unknown:
            waiting = ", ".join(pending) or "none"
            raise ConversationError(f"no call waits for a result with the id {unknown[0]!r}; waiting: {waiting}")
        known = self._calls.results
        answers = (results.get(call_id) or known.get(call_id) or unanswered(call_id) for call_id in pending)
        await self._deliver(tuple(answers), said)

    async def _deliver(self, results: Sequence[Block] = (), said: Sequence[Block] = ()) -> None:
        """Add the queued messages in one commit, between results and what is said now. Both become one message if
        nothing is queued."""
        await self._steering.settled()
        with self._steering.delivering() as queued:
            if queued:
                await self._append(Message.user(*results), *queued, Message.user(*said))
            elif results or said:
                await self._append(Message.user(*results, *said))

    async def _stored_message(self, parts: Sequence[Part]) -> Message:
        return Message.user(*[await self._store_part(part) for part in parts])

    async def _store_part(self, part: Part) -> TextBlock | AttachmentBlock:
        if isinstance(part, Attachment):
            if part.is_remote:
                from outrider.providers.fetching import fetched  # few files are on the web

                part = await fetched(part)
            return await self._environment.threads.run(self.store.put, part, self.agent.limits.attachment_bytes)
        return part

    async def _load_history(self) -> None:
        """Load in a thread what a request sends. A cancel leaves everything unchanged."""
        if not self.history.is_ready:
            tail = self.history.tail
            self.history.replace_with(await self._environment.threads.run(self.history.loaded, tail), len(tail))

    async def _all_messages(self) -> Sequence[Message]:
        """Return all messages, or only the newest if the log cannot be read. Of a compacted session they come late."""
        try:
            await self._load_history()
            return self.history.late_messages
        except LogError:
            return self.history.tail

    def _final_answer(self) -> Message | None:
        """Return the last message if it is the model's."""
        last = self.history.last
        if last is None:
            raise ConversationError("there is nothing to answer: the conversation is empty and no prompt was given")
        return last if last.role == "assistant" else None

    def _check_answerable(self) -> None:
        if waiting := self.history.pending:
            names = ", ".join(call.name for call in waiting)
            raise ConversationError(
                f"calls wait for results ({names}); let run() run them (act() in a Session), or pass tool_results"
            )
        if self._final_answer():
            raise ConversationError("the conversation ends with the model's answer; add a prompt")

    async def _append(self, *messages: Message | QueuedMessage) -> None:
        said = [each for each in messages if isinstance(each, QueuedMessage) or each.content]
        if self._environment.journal and said:
            await self._environment.journal.write(*entries_of(said), *self._steering.restated()).finished()
        for each in said:
            message, steering = (each.message, each.id) if isinstance(each, QueuedMessage) else (each, "")
            self._calls.forget()
            self.history.append(message)
            self._emit(MessageAdded(message, steering=steering))

    async def _record_reply(self, reply: Reply, acting: bool) -> None:
        self._calls.forget()
        journal = self._environment.journal
        if journal is None:
            return
        intents = (
            first_intents(self._calls.make(reply.message.tool_calls, self._tools.callable, self._environment))
            if acting
            else []
        )
        entry = MessageEntry(reply.message, reply.usage, reply.stop_reason, self.provider.name)
        await journal.write(entry, *intents, *self._steering.restated()).finished()
        self._calls.start(intents)

    async def _record_failure(self, failed: AttemptFailed) -> None:
        """Count what a failed request has used, and store it."""
        if failed.usage:
            self._count(failed.usage)
        if journal := self._environment.journal:
            with contextlib.suppress(LogError):  # the reply is worth more; if the log stays broken, it cannot be stored
                await journal.write(failed).finished()
        if self._progress and failed.delay is not None:  # else the request is not repeated, and its error counts
            self._progress.check_budget()

    def _count(self, usage: Usage) -> None:
        """Count the usage of a request that is not a turn."""
        self.usage += usage
        if self._progress:
            self._progress.use(usage)

    # The log

    def _attach_journal(self, journal: Journal, log: Log) -> None:
        """Continue where the log says that the session stopped."""
        if changed := changes(journal.settings, settings_of(self.agent, self._environment.cwd)):
            journal.write_now(changed)
        self._steering.journal = journal
        self.id = journal.id
        self.usage = journal.usage
        self._log = log
        self._environment = msgspec.structs.replace(
            self._environment, session=journal.id, store=journal.files, journal=journal
        )
        self._resume()
        self._children.usage = log.usage_of_children(journal.id) if self.history.last else Usage()

    def _resume(self) -> None:
        """Take the conversation from the log."""
        from outrider.log.resume import resume  # imports SQLite, which sessions without a log do not need

        log, journal = self._log, self._environment.journal
        assert log is not None
        assert journal is not None
        self.history, known, measured, queued = resume(log, journal)
        self._steering.resume(queued)
        self._calls = ReplyCalls(known)
        self._memory.clear()
        self._compactor.restart()
        if measured:
            self._compactor.meter.measure(*measured)
        self._offer_tools()

    def use_folder(self, folder: WorkingFolder) -> None:
        """Take snapshots of this folder before calls that may write, so that `rewind` can restore its files."""
        from outrider.runtime.folder_watch import FolderWatch  # sessions without a folder do not need it

        if journal := self._environment.journal:
            watch = FolderWatch(folder, journal, self._environment.threads, self._emit)
            self._environment = msgspec.structs.replace(self._environment, watch=watch)

    def _rewinder(self) -> Rewinder:
        from outrider.runtime.rewinding import Rewinder  # few sessions are rewound

        log, journal, watch = self._log, self._environment.journal, self._environment.watch
        if log is None or journal is None:
            raise ConversationError("only a session in a log can be rewound; open it with Session.open(log, …)")
        return Rewinder(log, journal, watch.folder if watch else None)

    async def _rewound(self, do: Callable[[Rewinder], Rewound]) -> Rewound:
        """Rewind, and continue from what the log then says."""
        rewinder = self._rewinder()
        done: asyncio.Future[Rewound] = asyncio.ensure_future(self._environment.threads.run(do, rewinder))
        try:
            return await asyncio.shield(done)
        finally:
            # A cancel does not stop the restoring of files halfway.
            await asyncio.wait([done])
            self._resume()

    def _past(self) -> Past:
        """Return the whole conversation, for reading."""
        if self._log:
            return LoggedPast(self._log, self.id)
        return RememberedPast(self.id, lambda: self.messages, self.store)

    async def _join_servers(self) -> None:
        """Offer the tools of the MCP servers that are ready."""
        if servers := self._tools.servers:
            if await self._tools.join_servers(self.provider):
                self._offer_tools()
            for notice in servers.take_notices():
                self._emit(Notice(notice))

    # Observers and exclusive work

    async def _run_exclusively(self, work: Coroutine[Any, Any, T]) -> T:
        """Run one task at a time, and record a cancel in the log."""
        recording = self._recording_cancel(work)
        try:
            return await self._task.do(recording)
        finally:
            work.close()  # in case it was cancelled before it started

    async def _recording_cancel(self, work: Coroutine[Any, Any, T]) -> T:
        self._children.use_loop()
        try:
            try:
                result = await work
            finally:
                if watch := self._environment.watch:
                    await watch.settle()
            await deliver_cancel()
            return result
        except asyncio.CancelledError:
            if journal := self._environment.journal:
                with contextlib.suppress(LogError):
                    await journal.write(RunCancelled()).finished()
            raise


def _has_failed(results: Message | None) -> bool:
    return results is not None and any(result.is_error for result in results.tool_results)


def _check_agent(agent: object) -> None:
    if not isinstance(agent, AgentSpec):
        raise TypeError(f"a session is held with an Agent, not with {type(agent).__name__}; write Agent(model)")
