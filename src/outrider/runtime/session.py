"""The loop: think asks the model once, act runs the calls of its reply, run repeats the two until there are none."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.codec import MessageLike, read_conversation, read_tool_results
from outrider.conversation.history import History, unanswered
from outrider.conversation.messages import AttachmentBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock, Usage
from outrider.conversation.prompt import Part, Prompt, parts_of
from outrider.conversation.store import AttachmentStore, MemoryStore
from outrider.errors import ConversationError, LogError, ProviderError, SessionCancelledError
from outrider.log.entries import CallResult, MessageEntry, RunCancelled, SessionSettings
from outrider.log.open_calls import OpenCalls
from outrider.log.pending_write import deliver_cancel
from outrider.log.replay import changes
from outrider.prompts import prompt as prompt_text
from outrider.providers.base import REMARKABLE, Reply, Request, StopReason, ToolSpec
from outrider.runtime.agent import Agent
from outrider.runtime.agent_settings import agent_of, cwd_of, settings_of
from outrider.runtime.calls import Call, CallEnvironment, first_intents, run_calls
from outrider.runtime.events import (
    Event,
    MessageAdded,
    Notice,
    OwnEvent,
    ReplyDiscarded,
    RunFinished,
    RunStatus,
    SubagentEvent,
    SubagentStarted,
    TurnStarted,
)
from outrider.runtime.exclusive_task import ExclusiveTask
from outrider.runtime.observers import Inbox, Observers
from outrider.runtime.receiver import Receiver
from outrider.runtime.run import Progress, RunResult
from outrider.text import clean
from outrider.tools.approval import Approver, for_subagent
from outrider.tools.threads import Threads
from outrider.tools.tool import SubagentTask, make_tools

if TYPE_CHECKING:
    from outrider.log.journal import Journal
    from outrider.log.log import Log

T = TypeVar("T")
LONGEST_TITLE = 80
_NOTHING_BEFORE = 0, Usage(), ""


class Results(msgspec.Struct, frozen=True):
    """What the calls of one reply came to."""

    message: Message
    """One user message with each result, in call order."""
    final: CallResult | None = None
    """The first result that ends the run."""


class Session:
    """A conversation with an agent that goes on.

    `approve` is asked before each call whether it may run.

    >>> session = Session(Agent(model="demo"))
    >>> asyncio.run(session.run("What is 2+2?")).status
    'done'
    """

    def __init__(
        self,
        agent: Agent,
        messages: Iterable[MessageLike] = (),
        *,
        store: AttachmentStore | None = None,
        cwd: str | Path | None = None,
        observer: Callable[[Event], None] | None = None,
        approve: Approver | None = None,
    ) -> None:
        if not isinstance(agent, Agent):
            raise TypeError(f"a session is held with an Agent, not with {type(agent).__name__}; write Agent(model=…)")
        self.id = os.urandom(16).hex()
        self.agent = agent
        self.provider = agent.provider
        self.history = History(read_conversation(messages))
        self.usage = Usage()
        """What all requests of this session used, without those of its sub-agents."""
        self._children_usage = Usage()
        self._observers = Observers()
        if observer:
            self._observers.add(observer)
        self._emit = self._observers.emit
        tools = make_tools(agent.tools)
        self._tools = {tool.name: tool for tool in tools}
        self._specs = tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools)
        self._around = CallEnvironment(
            self.id,
            self._emit,
            store if store is not None else MemoryStore(),
            Threads(),
            agent.limits,
            Path(cwd or ".").resolve(),
            approve=approve,
            spawn=self._spawn,
        )
        self._standing = OpenCalls()
        self._memory: dict[str, Any] = {}
        self._doing = ExclusiveTask()
        self._progress: Progress | None = None
        """How far the run is that goes on, if one does."""
        self._within: Progress | None = None
        """The run to whose budget this session belongs, if it is a sub-agent's."""
        self._before = _NOTHING_BEFORE
        """The turns of a sub-agent that was cut off, what they used, and its last words: it goes on from there."""
        self._opening = asyncio.Lock()
        self._log: Log | None = None

    @classmethod
    def open(
        cls,
        log: Log,
        id: str | None = None,
        agent: Agent | None = None,
        *,
        cwd: str | Path | None = None,
        observer: Callable[[Event], None] | None = None,
        approve: Approver | None = None,
    ) -> Session:
        """A session in a log, which goes on where it stopped, however it stopped; without an id, a new one.

        Without an agent, the model and the instructions are those that the log has; tools cannot be stored, so whoever
        has some passes an agent. Calls that were cut off are settled by their effect: `run` carries out again what may
        be carried out again; what may not is answered with an error that says so. Raises LogError: SessionHeldError if
        another process has the session open.
        """
        if agent is None and id is None:
            raise TypeError("a new session needs an agent: Session.open(log, agent=Agent(model=…))")
        journal = None if id is None else log.open(id)
        try:
            recorded = journal.settings if journal else SessionSettings()
            session = cls(agent or agent_of(recorded), cwd=cwd or cwd_of(recorded), observer=observer, approve=approve)
            journal = journal or log.create(settings_of(session.agent, session._around.cwd))
            session._take_up(journal, log)
            if log.warning:
                session._emit(Notice(log.warning))
        except BaseException:
            if journal:
                journal.close()
            raise
        return session

    def close(self) -> None:
        """Let others open the session; what it still does is cancelled."""
        self.cancel()
        if journal := self._around.journal:
            with contextlib.suppress(LogError):  # it is let go all the same, also if that could not be written down
                journal.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def messages(self) -> list[Message]:
        """The conversation so far; a list of its own."""
        return self.history.messages

    @property
    def is_unfinished(self) -> bool:
        """Whether `run` has something to do without a prompt: calls to carry out, or results to answer."""
        last = self.history.last
        return last is not None and self._standing.final is None and (last.role == "user" or bool(self.history.pending))

    @property
    def total_usage(self) -> Usage:
        """What this session and its sub-agents used."""
        return self.usage + self._children_usage

    @property
    def store(self) -> AttachmentStore:
        """Where the files of the conversation are."""
        return self._around.store

    # The verbs

    async def think(
        self, prompt: Prompt = (), *, tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] | None = None
    ) -> Reply:
        """Ask the model once, after adding what is given. Calls in the reply are left to `act`."""

        async def work() -> Reply:
            await self._add(prompt, () if tool_results is None else tool_results)
            self._check_answerable()
            return await self._think()

        return await self._work(work())

    async def act(self) -> Results:
        """Run the calls that wait for an answer, and add one user message with their results."""
        return await self._work(self._act(self.history.pending))

    async def run(self, prompt: Prompt = ()) -> RunResult:
        """Think and act until the model calls no more tools, a result is final, or a limit is reached.

        Ends with a status, not with an exception, for all that a model or a tool can do.
        """
        progress = Progress(self.agent.limits, self._within)
        (progress.turns, progress.usage, progress.text), self._before = self._before, _NOTHING_BEFORE
        status: RunStatus = "cancelled"
        error = ""
        try:
            status = await self._work(self._run(prompt, progress))
        except (ProviderError, LogError) as failure:
            status, error = "error", str(failure)
        except TimeoutError:
            status = "max_seconds"
        except SessionCancelledError:
            pass
        except asyncio.CancelledError:
            self._emit(RunFinished(status, progress.turns, progress.usage, progress.text))
            raise
        ending = error, progress.stop_reason, progress.structured_output, progress.has_structured_output
        self._emit(RunFinished(status, progress.turns, progress.usage, progress.text, *ending))
        conversation = await self._conversation()
        return RunResult(status, progress.text, progress.turns, progress.usage, conversation, *ending)

    async def stream(self, prompt: Prompt = ()) -> AsyncGenerator[Event, None]:
        """Run, and give each event as it happens; the last one is `RunFinished`. Leaving early cancels the run."""
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
                await asyncio.wait([running])  # not for its outcome: it may have been raised above already
            finally:
                self._observers.remove(inbox.put)

    def cancel(self) -> None:
        """Stop what the session is doing; nothing if it does nothing. Safe from any thread.

        Every call is answered. `run` returns with the status `cancelled`; `think` and `act` raise
        SessionCancelledError.
        """
        self._doing.cancel()

    def observe(self, observer: Callable[[Event], None]) -> None:
        """Have each event from now on given to the observer, in order, as it happens."""
        self._observers.add(observer)

    # The loop

    async def _run(self, prompt: Prompt, progress: Progress) -> RunStatus:
        self._progress = progress
        try:
            async with asyncio.timeout(self.agent.limits.seconds):
                status = await self._turns(prompt, progress)
                await deliver_cancel()  # while it still counts as the time-out that it may be
                return status
        finally:
            self._progress = None

    async def _turns(self, prompt: Prompt, progress: Progress) -> RunStatus:
        await self._add(prompt)
        final = await self._act_if_called()
        while not final:
            if (answer := self._answer()) and progress.stop_reason is not StopReason.PAUSE:
                progress.text = answer.text
                return "done"
            if reached := progress.limit_reached():
                return reached
            progress.begin_turn()
            self._emit(TurnStarted(progress.turns, progress.on_last_turn))
            reply = await self._think(self._reminder(progress), acting=True)
            progress.count(reply)
            if progress.cost_is_unknown:
                self._emit(Notice(f"the price of {self.provider.name} is not known: the cost limit cannot be kept"))
            final = await self._act_if_called()
            if (last := self.history.last) is not None:
                progress.count_calls(reply.message.tool_calls, last.tool_results)
        progress.end_with(final)
        return "done"

    async def _think(self, reminder: str = "", *, acting: bool = False) -> Reply:
        """One reply. If its calls are to be carried out at once, their intents become durable together with it."""
        await self._have_all()
        messages = self.history.sendable()
        if not messages:
            raise ConversationError("there is nothing to answer: what was said is blank")
        request = Request(messages, self.store, self.agent.instructions, self._specs, reminder, self._memory)
        receiver = Receiver(self.provider, self._emit)
        try:
            reply = await receiver.receive(request)
        except asyncio.CancelledError:
            await self._keep_cut_off(clean(receiver.words))
            raise
        except ProviderError as error:
            if receiver.has_shown:
                self._emit(ReplyDiscarded(str(error)))
            raise
        reply = msgspec.structs.replace(reply, message=self.history.normalized(reply.message))
        self.usage += reply.usage
        try:
            await self._record_reply(reply, acting)
        except LogError as error:
            self._emit(ReplyDiscarded(str(error)))
            raise
        self.history.append(reply.message)
        self._emit(MessageAdded(reply.message, reply.usage))
        if remark := REMARKABLE.get(reply.stop_reason):
            self._emit(Notice(remark))
        return reply

    def _reminder(self, progress: Progress) -> str:
        """What the model is told with one request alone."""
        if progress.on_last_turn:
            asked = [tool.final_turn for tool in self._tools.values() if tool.final_turn]
            return " ".join([prompt_text("final_turn"), *(asked or [prompt_text("final_answer")])])
        return prompt_text("repeating").format(repeats=progress.repeats) if progress.is_repeating else ""

    async def _keep_cut_off(self, words: str) -> None:
        """What the model had said stays, marked as cut off; calls and thoughts that were cut off are of no use."""
        if words.strip():
            with contextlib.suppress(LogError):  # then it stays nowhere: the cancel goes on
                await self._append(Message.assistant(words), Message.user(prompt_text("interrupted")))

    async def _act_if_called(self) -> CallResult | None:
        uses = self.history.pending
        return (await self._act(uses)).final if uses else self._standing.final

    async def _act(self, uses: Sequence[ToolUseBlock]) -> Results:
        calls = self._calls(uses)
        try:
            await run_calls(calls, self._tools)
        except (asyncio.CancelledError, LogError):
            if all(call.recorded for call in calls):
                self._add_results(calls)
            else:
                self._keep_answers(calls)
            raise
        return self._add_results(calls)

    def _calls(self, uses: Sequence[ToolUseBlock]) -> list[Call]:
        known = self._standing
        calls = [Call(use, self._tools.get(use.name), self._around, known.begun.get(use.id)) for use in uses]
        for call in calls:
            if answer := known.answers.get(call.use.id):
                call.recall(answer, recorded=call.use.id in known.recorded)
        return calls

    def _keep_answers(self, calls: Sequence[Call]) -> None:
        """What was done must not be done again because it could not be written down."""
        answers = {call.use.id: call.answer for call in calls if call.answer}
        recorded = frozenset(call.use.id for call in calls if call.recorded)
        self._standing = OpenCalls(self._standing.begun, answers, recorded)

    def _add_results(self, calls: Sequence[Call]) -> Results:
        """One message with all answers. In the log it follows from them."""
        answers = [call.answer for call in calls if call.answer]
        message = Message.user(*(answer.result for answer in answers))
        final = next((answer for answer in answers if answer.final), None)
        if message.content:
            self.history.append(message)
            self._standing = OpenCalls(final=final)
            self._emit(MessageAdded(message))
        return Results(message, final)

    # The history

    async def _add(self, prompt: Prompt, tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] = ()) -> None:
        """One user message: results first, then what the person says; unanswered calls are answered with an error."""
        results = read_tool_results(tool_results)
        said = [await self._stored(part) for part in parts_of(prompt)]
        if not results and not said:
            return
        pending = [call.id for call in self.history.pending]
        unknown = [call_id for call_id in results if call_id not in pending]
        if unknown:
            waiting = ", ".join(pending) or "none"
            raise ConversationError(f"no call waits for a result with the id {unknown[0]!r}; waiting: {waiting}")
        known = {call_id: answer.result for call_id, answer in self._standing.answers.items()}
        answers = (results.get(call_id) or known.get(call_id) or unanswered(call_id) for call_id in pending)
        await self._append(Message.user(*answers, *said))

    async def _stored(self, part: Part) -> TextBlock | AttachmentBlock:
        if isinstance(part, Attachment):
            return await self._around.threads.run(self.store.put, part, self.agent.limits.attachment_bytes)
        return part

    async def _have_all(self) -> None:
        """The whole of a long conversation, read beside the loop. Nothing is changed if this is cancelled."""
        if not self.history.is_loaded:
            tail = self.history.tail
            self.history.replace_with(await self._around.threads.run(self.history.loaded, tail), len(tail))

    async def _conversation(self) -> list[Message]:
        """All messages; only the end, where the log cannot be read any more."""
        try:
            await self._have_all()
            return self.messages
        except LogError:
            return self.history.tail

    def _answer(self) -> Message | None:
        """The model's message, if the conversation ends with one."""
        last = self.history.last
        if last is None:
            raise ConversationError("there is nothing to answer: the conversation is empty and no prompt was given")
        return last if last.role == "assistant" else None

    def _check_answerable(self) -> None:
        if waiting := self.history.pending:
            names = ", ".join(call.name for call in waiting)
            raise ConversationError(f"calls wait for an answer ({names}); run them with act(), or pass tool_results")
        if self._answer():
            raise ConversationError("the conversation ends with the model's answer; say something with a prompt")

    async def _append(self, *messages: Message) -> None:
        said = [message for message in messages if message.content]
        if self._around.journal and said:
            await self._around.journal.write(*map(MessageEntry, said)).finished()
        for message in said:
            self._standing = OpenCalls()
            self.history.append(message)
            self._emit(MessageAdded(message))

    async def _record_reply(self, reply: Reply, acting: bool) -> None:
        self._standing = OpenCalls()
        journal = self._around.journal
        if journal is None:
            return
        intents = first_intents(self._calls(reply.message.tool_calls)) if acting else []
        entry = MessageEntry(reply.message, reply.usage, reply.stop_reason, self.provider.name)
        await journal.write(entry, *intents).finished()
        self._standing = OpenCalls({intent.call_id: intent for intent in intents})

    # The log

    def _take_up(self, journal: Journal, log: Log) -> None:
        """Go on where the log says that the session stopped."""
        from outrider.log.resume import resume  # brings SQLite, which sessions without a log do not need

        if changed := changes(journal.settings, settings_of(self.agent, self._around.cwd)):
            journal.write_now(changed)
        self.history, self._standing = resume(log, journal)
        self.id = journal.id
        self.usage = journal.usage
        self._children_usage = log.usage_of_children(journal.id) if self.history.last else Usage()
        self._log = log
        self._around = msgspec.structs.replace(self._around, session=journal.id, store=journal.files, journal=journal)

    # Sub-agents

    async def _spawn(self, errand: SubagentTask, agent: Agent, approve: Approver | None, cwd: Path | None) -> Session:
        """A session for a sub-agent, which sends out none itself. In a log, the one that this errand had before."""
        around = self._around
        if self._progress:
            self._progress.send_out()
        about = clean(" ".join(f"{agent.name}: {errand.title}".split()))[:LONGEST_TITLE]
        child = Session(
            agent, store=around.store, cwd=cwd or around.cwd, approve=approve or for_subagent(around.approve, about)
        )
        child._within = self._progress
        child._around = msgspec.structs.replace(child._around, spawn=None)
        if self._log and around.journal:
            settings = msgspec.structs.replace(settings_of(agent, child._around.cwd), title=about)
            open_child = partial(self._log.open_child, errand.session, settings, around.journal, errand.call_id)
            child._take_up(await self._opened(open_child), self._log)
            said = [message for message in child.messages if message.role == "assistant"]
            child._before = len(said), child.usage, said[-1].text if said else ""
        if not errand.is_over():
            self._emit(SubagentStarted(errand.call_id, child.id, agent.name, errand.title))
        child.observe(partial(self._relay, errand, child.id))
        return child

    async def _opened(self, open_child: Callable[[], Journal]) -> Journal:
        """What is opened in a thread; let go at once if nobody waits for it any more."""
        async with self._opening:  # one after the other, so that they stand in the log in the order of their calls
            opening = asyncio.ensure_future(self._around.threads.run(open_child))
            try:
                return await asyncio.shield(opening)
            except asyncio.CancelledError:
                with contextlib.suppress(LogError):
                    (await opening).close()
                raise

    def _relay(self, errand: SubagentTask, child: str, event: Event) -> None:
        if isinstance(event, MessageAdded) and event.usage:
            self._children_usage += event.usage
        if isinstance(event, OwnEvent) and not errand.is_over():
            self._emit(SubagentEvent(errand.call_id, child, event))

    # Who watches, who works

    async def _work(self, work: Coroutine[Any, Any, T]) -> T:
        """Do one thing at a time; a cancel is written down."""
        recording = self._recording_cancels(work)
        try:
            return await self._doing.do(recording)
        finally:
            work.close()  # in case it was cancelled before it began

    async def _recording_cancels(self, work: Coroutine[Any, Any, T]) -> T:
        self._opening = asyncio.Lock()  # anew each time, for it belongs to a loop
        try:
            result = await work
            await deliver_cancel()
            return result
        except asyncio.CancelledError:
            if journal := self._around.journal:
                with contextlib.suppress(LogError):
                    await journal.write(RunCancelled()).finished()
            raise
