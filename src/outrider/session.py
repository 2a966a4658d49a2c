"""The loop: think asks the model once, act runs the calls of its reply, run repeats the two until there are none."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from outrider.agent import Agent, Limits
from outrider.attachments import Attachment
from outrider.calls import Answer, Call, Surroundings
from outrider.conversation import MessageLike, read_conversation, read_tool_result
from outrider.errors import ConversationError, ProviderError, SessionBusyError, TornStreamError
from outrider.events import Event, MessageAdded, ReplyDiscarded, RunFinished, RunStatus, TextDelta, TurnStarted
from outrider.history import UNANSWERED, History
from outrider.messages import AttachmentBlock, Message, TextBlock, ToolResultBlock, Usage
from outrider.prompts import prompt as prompt_text
from outrider.provider import Reply, Request, ToolSpec
from outrider.providers import resolve
from outrider.store import AttachmentStore, MemoryStore
from outrider.text import clean
from outrider.threads import Threads
from outrider.tools import make_tools

Prompt: TypeAlias = str | Attachment | Sequence[str | Attachment | TextBlock | AttachmentBlock]
"""What a person says: text, a file, or several of both."""

T = TypeVar("T")
logger = logging.getLogger("outrider")


class RunResult(msgspec.Struct, frozen=True):
    """How a run ended. The conversation can be continued, whatever the status."""

    status: RunStatus
    """`done`, or what stopped it: `max_turns`, `max_tokens`, `max_cost`, `max_seconds`, `cancelled`, `error`."""
    text: str
    """The model's last words, or those of the result that ended the run."""
    turns: int
    """How often the model was asked."""
    usage: Usage
    """What this run used."""
    conversation: list[Message]
    """All messages, those from before the run included."""
    error: str = ""
    """What went wrong, if the status is `error`."""


class Results(msgspec.Struct, frozen=True):
    """What the calls of one reply came to."""

    message: Message
    """One user message with each result, in call order."""
    final: Answer | None = None
    """The first result that ends the run."""


class Session:
    """A conversation with an agent that goes on.

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
    ) -> None:
        self.id = os.urandom(16).hex()
        self.agent = agent
        self.provider = resolve(agent.model)
        self.history = History(read_conversation(messages))
        self.usage = Usage()
        """What all requests of this session used."""
        self._observers = [observer] if observer else []
        self._failed: list[Callable[[Event], None]] = []
        tools = make_tools(agent.tools)
        self._tools = {tool.name: tool for tool in tools}
        self._specs = tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools)
        self._around = Surroundings(
            self._emit,
            store if store is not None else MemoryStore(),
            Threads(),
            agent.limits,
            Path(cwd or ".").resolve(),
        )
        self._memory: dict[str, Any] = {}
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = False

    @property
    def messages(self) -> list[Message]:
        """The conversation so far; a list of its own."""
        return self.history.messages

    @property
    def store(self) -> AttachmentStore:
        """Where the files of the conversation are."""
        return self._around.store

    # The verbs

    async def think(
        self, prompt: Prompt = (), *, tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] = ()
    ) -> Reply:
        """Ask the model once, after adding what is given. Calls in the reply are left to `act`."""

        async def work() -> Reply:
            await self._add(prompt, tool_results)
            self._check_answerable()
            return await self._think()

        return await self._work(work())

    async def act(self) -> Results:
        """Run the calls that wait for an answer, and add one user message with their results."""
        return await self._work(self._act())

    async def run(self, prompt: Prompt = ()) -> RunResult:
        """Think and act until the model calls no more tools, a result is final, or a limit is reached.

        Ends with a status, not with an exception, for all that a model or a tool can do.
        """
        progress = _Progress(self.agent.limits)
        status: RunStatus
        error = ""
        try:
            status = await self._work(self._run(prompt, progress))
        except ProviderError as failure:
            status, error = "error", str(failure)
        except TimeoutError:
            status = "max_seconds"
        except asyncio.CancelledError:
            if not self._cancelling:
                raise
            status = "cancelled"
        self._emit(RunFinished(status, progress.turns, progress.usage, progress.text, error))
        return RunResult(status, progress.text, progress.turns, progress.usage, self.messages, error)

    async def stream(self, prompt: Prompt = ()) -> AsyncIterator[Event]:
        """Run, and give each event as it happens; the last one is `RunFinished`. Leaving early cancels the run."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._observers.append(events.put_nowait)
        running = asyncio.ensure_future(self.run(prompt))
        running.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            running.result()
        finally:
            running.cancel()
            await asyncio.wait([running])  # not for its outcome: it may have been raised above already
            self._observers.remove(events.put_nowait)

    def cancel(self) -> None:
        """Stop what the session is doing. Every call is answered, and `run` returns with the status `cancelled`."""
        if self._task is not None:
            self._cancelling = True
            self._task.cancel()

    def observe(self, observer: Callable[[Event], None]) -> None:
        """Have each event from now on given to the observer, in order, as it happens."""
        self._observers.append(observer)

    # The loop

    async def _run(self, prompt: Prompt, progress: _Progress) -> RunStatus:
        async with asyncio.timeout(self.agent.limits.seconds):
            await self._add(prompt)
            final = await self._act_if_called()
            while not final:
                if answer := self._answer():
                    progress.text = answer.text
                    return "done"
                if reached := progress.limit_reached():
                    return reached
                progress.begin_turn()
                self._emit(TurnStarted(progress.turns, progress.on_last_turn))
                progress.count(await self._think(prompt_text("final_turn") if progress.on_last_turn else ""))
                final = await self._act_if_called()
            progress.text = final.result.text
            return "done"

    async def _think(self, reminder: str = "") -> Reply:
        request = Request(self.history.sendable(), self.store, self.agent.system, self._specs, reminder, self._memory)
        shown: list[str] = []
        try:
            reply = await self._receive(request, shown)
        except asyncio.CancelledError:
            # What the model had said stays, so that it knows; calls and thoughts that were cut off are of no use.
            self._append(Message.assistant("".join(shown)))
            raise
        except Exception as error:
            if shown:
                self._emit(ReplyDiscarded(str(error)))
            if isinstance(error, ProviderError):
                raise
            raise ProviderError(f"{self.provider.name} failed: {type(error).__name__}: {error}") from error
        reply = msgspec.structs.replace(reply, message=self.history.adopt(reply.message))
        self.usage += reply.usage
        self._append(reply.message, reply.usage)
        return reply

    async def _receive(self, request: Request, shown: list[str]) -> Reply:
        reply: Reply | None = None
        stream = self.provider.stream(request)
        try:
            async for item in stream:
                if isinstance(item, Reply):
                    reply = item
                else:
                    if isinstance(item, TextDelta):
                        shown.append(item.text)
                    self._emit(item)
        finally:
            if close := getattr(stream, "aclose", None):  # so that a connection is given up at once
                await close()
        if reply is None:
            raise TornStreamError(f"the reply of {self.provider.name} ended before it was complete")
        return reply

    async def _act_if_called(self) -> Answer | None:
        return (await self._act()).final if self.history.pending else None

    async def _act(self) -> Results:
        calls = [Call(use, self._tools.get(use.name), self._around) for use in self.history.pending]
        try:
            for concurrent, group in groupby(calls, lambda call: call.concurrent):
                for batch in [list(group)] if concurrent else [[call] for call in group]:
                    await self._carry_out(batch)
        except asyncio.CancelledError:
            await self._stop(calls)
            raise
        finally:
            answers = [call.answer for call in calls if call.answer]
            results = Message.user(*(answer.result for answer in answers))
            self._append(results)
        return Results(results, next((answer for answer in answers if answer.final), None))

    async def _carry_out(self, calls: Sequence[Call]) -> None:
        for call in calls:
            call.start(self._tools)
        for call in calls:
            await call.wait()

    async def _stop(self, calls: Sequence[Call]) -> None:
        for call in calls:
            call.stop("The call was cancelled before it finished.")
        try:
            for call in calls:
                await call.wait()
        finally:  # a second cancel cuts the wait short
            for call in calls:
                call.abandon()

    # The history

    async def _add(self, prompt: Prompt, tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] = ()) -> None:
        """One user message: results first, then what the person says; unanswered calls are answered with an error."""
        results = _read_results(tool_results)
        parts = [prompt] if isinstance(prompt, str | Attachment) else list(prompt)
        said = [await self._part(part) for part in parts if part != ""]
        if not results and not said:
            return
        pending = [call.id for call in self.history.pending]
        unknown = [call_id for call_id in results if call_id not in pending]
        if unknown:
            waiting = ", ".join(pending) or "none"
            raise ConversationError(f"no call waits for a result with the id {unknown[0]!r}; waiting: {waiting}")
        answers = (results.get(call_id) or _unanswered(call_id) for call_id in pending)
        self._append(Message.user(*answers, *said))

    async def _part(self, part: str | Attachment | TextBlock | AttachmentBlock) -> TextBlock | AttachmentBlock:
        if isinstance(part, Attachment):
            return await self._around.threads.run(self.store.put, part, self.agent.limits.attachment_bytes)
        if isinstance(part, str):
            return TextBlock(clean(part))
        if isinstance(part, TextBlock | AttachmentBlock):
            return part
        raise TypeError(f"a prompt is text, an Attachment, or a list of them; {type(part).__name__} is none of these")

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

    def _append(self, message: Message, usage: Usage | None = None) -> None:
        if message.content or usage is not None:
            self.history.append(message)
            self._emit(MessageAdded(message, usage))

    # Who watches, who works

    def _emit(self, event: Event) -> None:
        for observer in self._observers:
            try:
                observer(event)
            except Exception:
                if observer not in self._failed:  # said once: a broken observer breaks on every event
                    self._failed.append(observer)
                    logger.exception("an observer failed on %s; the session goes on", type(event).__name__)

    async def _work(self, work: Coroutine[Any, Any, T]) -> T:
        """Do one thing at a time, in a task of its own: `cancel` ends that task and not the caller's."""
        if self._task is not None:
            work.close()
            raise SessionBusyError("this session is still at work; wait for it, or cancel() it first")
        self._cancelling = False
        self._task = task = asyncio.ensure_future(work)
        try:
            return await task
        finally:
            self._task = None


class _Progress:
    """How far a run has come, against its limits."""

    def __init__(self, limits: Limits) -> None:
        self.turns = 0
        self.usage = Usage()
        self.text = ""
        self._limits = limits

    def begin_turn(self) -> None:
        self.turns += 1

    def count(self, reply: Reply) -> None:
        self.usage += reply.usage
        self.text = reply.text

    @property
    def on_last_turn(self) -> bool:
        return self.turns == self._limits.turns

    def limit_reached(self) -> RunStatus | None:
        limits = self._limits
        if limits.turns is not None and self.turns >= limits.turns:
            return "max_turns"
        if limits.tokens is not None and self.usage.total_tokens >= limits.tokens:
            return "max_tokens"
        if limits.cost is not None and (self.usage.cost or 0) >= limits.cost:
            return "max_cost"
        return None


def _read_results(values: Iterable[ToolResultBlock | Mapping[str, Any]]) -> dict[str, ToolResultBlock]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"tool_results is a list of results, not {type(values).__name__}")
    results: dict[str, ToolResultBlock] = {}
    for number, value in enumerate(values, 1):
        result = read_tool_result(value, f"result {number}")
        if result.tool_use_id in results:
            raise ConversationError(f"two results answer the call {result.tool_use_id!r}")
        results[result.tool_use_id] = result
    return results


def _unanswered(call_id: str) -> ToolResultBlock:
    return ToolResultBlock(call_id, (TextBlock(UNANSWERED),), is_error=True)
