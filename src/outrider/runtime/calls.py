"""One tool call from its start to its one result, through failures, time-outs and cancels."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.json_text import indent_json, shorten_json
from outrider.conversation.messages import AttachmentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.store import AttachmentStore
from outrider.errors import AttachmentError, LogError, ValidationError
from outrider.log.entries import CallResult, Intent
from outrider.runtime.events import Event, Notice, ToolFinished, ToolProgress, ToolStarted
from outrider.runtime.limits import Limits
from outrider.text import clean, shorten
from outrider.tools.approval import Approver, FileApprover, denial_in, denial_of
from outrider.tools.context import OpenChild, ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.log.journal import Journal
    from outrider.log.pending_write import PendingWrite

CANCELLED = "The call was cancelled before it finished."
"""The first sentence of a cancelled call's result; front ends recognise it."""
CANCEL_GRACE = 1.0
"""Seconds that a cancelled tool has to clean up before its call gets a result without it."""


class CallEnvironment(msgspec.Struct, frozen=True):
    """What the calls of one session share."""

    session: str
    """The session's id."""
    emit: Callable[[Event], None]
    store: AttachmentStore
    threads: Threads
    limits: Limits
    cwd: Path
    journal: Journal | None = None
    """Stores intents and results, in a session with a log."""
    approve: Approver | None = None
    """Decides whether a call may run; without one, every call may."""
    open_child: OpenChild | None = None
    """Opens a session for a sub-agent; None in the session of a sub-agent."""
    deps: Any = None
    """The dependencies that tools receive."""


MOST_AT_ONCE = 64
"""Calls of one reply that run at the same time; a reply with more runs in batches."""


async def run_calls(calls: Sequence[Call], tools: Iterable[str]) -> None:
    """Run calls until each has its result: concurrently, but a tool that is not concurrent alone and in order.

    When the caller is cancelled, each call still gets a result before CancelledError is raised. When the log fails,
    running calls are stopped before LogError is raised.
    """
    try:
        for batch in _batches(calls):
            # With an approver each call starts once it is approved, so that it cannot change meanwhile.
            for together in [[call] for call in batch] if batch[0].around.approve else [batch]:
                await together[0].ask()
                await _record_intents(together)
                for call in together:
                    call.start(tools)
            for call in batch:
                await call.wait()
    except asyncio.CancelledError:
        await _stop(calls)
        raise
    except LogError:
        await _stop([call for call in calls if call.started])
        raise


def first_intents(calls: Sequence[Call]) -> list[Intent]:
    """Return the intents of the calls that start first: they are stored together with the reply.

    With an approver there are none: an intent says that the call is running.
    """
    for batch in _batches(calls):
        if batch[0].around.approve:
            break
        return [intent for call in batch if (intent := call.intent())]
    return []


async def _record_intents(calls: Sequence[Call]) -> None:
    """Store what is about to be done."""
    if journal := calls[0].around.journal:
        intents = [intent for call in calls if not call.begun and (intent := call.intent())]
        if intents:
            await journal.write(*intents).finished()


def _batches(calls: Sequence[Call]) -> Iterable[Sequence[Call]]:
    return [calls] if len(calls) == 1 else _batches_of_many(calls)


def _batches_of_many(calls: Sequence[Call]) -> Iterator[Sequence[Call]]:
    for concurrent, group in groupby(calls, lambda call: call.concurrent):
        together = list(group)
        size = MOST_AT_ONCE if concurrent else 1
        for start in range(0, len(together), size):
            yield together[start : start + size]


async def _stop(calls: Sequence[Call]) -> None:
    for call in calls:
        call.stop(CANCELLED)
    try:
        for call in calls:
            with contextlib.suppress(LogError):
                await call.wait()
    finally:  # a second cancel cuts the wait short
        for call in calls:
            call.abandon()
            if call.written:
                with contextlib.suppress(LogError):
                    await call.written.finished()


class Call:
    """One call. It gets exactly one result: from the tool, a time-out or a cancel."""

    def __init__(
        self,
        use: ToolUseBlock,
        tool: Tool | None,
        around: CallEnvironment,
        begun: Intent | None = None,
        reply: str = "",
    ) -> None:
        self.use = use
        self.around = around
        self.begun = begun
        """The intent that is stored already."""
        self.answer: CallResult | None = None
        self.written: PendingWrite | None = None
        """The write of the result; None without a log."""
        self._loop = asyncio.get_running_loop()
        self._answered: asyncio.Future[None] | None = None
        self._announced = False
        self._tool = tool
        self._key = begun.key if begun else f"{around.session}/{use.id}"
        self._context = ToolContext(
            use.id,
            around.cwd,
            around.threads,
            self._progress,
            self._key,
            around.store,
            around.open_child,
            around.deps,
            session=around.session,
            reply=reply,
            result_characters=self._limit,
        )
        self._task: asyncio.Task[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._stopped = ""
        """Why the call was stopped, if it was."""
        self._came_through = False
        """Whether the tool itself has returned."""
        self._loop_thread = threading.get_ident()

    @property
    def concurrent(self) -> bool:
        """Whether the call may run beside others."""
        return self._tool is None or self._tool.concurrent

    @property
    def _limit(self) -> int:
        """The most characters of the result that the model reads."""
        own = self._tool.result_characters if self._tool else None
        limit = self.around.limits.result_characters
        return limit if own is None else min(own, limit)

    @property
    def recorded(self) -> bool:
        """Whether the result is stored."""
        return self._announced and not (self.written and self.written.error)

    @property
    def started(self) -> bool:
        """Whether the call has started or has a result."""
        return self._task is not None or self.answer is not None

    def intent(self) -> Intent | None:
        """Return the intent to store before the call starts, or None if it will not run."""
        tool, use = self._tool, self.use
        if tool is None or use.invalid_input is not None or self.answer:
            return None
        return Intent(use.id, tool.name, tool.effect, self._key, use.input)

    async def ask(self) -> None:
        """Ask the approver. A denial becomes the result."""
        approve, tool = self.around.approve, self._tool
        if approve is None or tool is None or self.intent() is None:
            return
        try:
            tool.check(self.use.input)
        except ValidationError:
            return  # the call will not run: its error result names the violations
        try:
            reason = await denial_of(approve, self.use, tool, self.around.threads)
        except Exception as error:  # noqa: BLE001 - whatever keeps the approver from deciding, the call does not run
            reason = f"the approver failed: {_said_by(error)}"
        if reason and not self.answer:
            self._finish(_error(self.use.id, f"{tool.name} was not run: {clean(reason)}"))

    def recall(self, answer: CallResult, *, recorded: bool) -> None:
        """Take a result from before: from another process, or one that could not be stored."""
        if recorded:
            self.answer, self._announced = answer, True
        else:
            self._finish(answer)

    def start(self, known: Iterable[str]) -> None:
        """Start the call. `known` are the tool names to list if this tool does not exist."""
        use, tool = self.use, self._tool
        if self.answer:
            return
        if tool is None:
            names = ", ".join(known) or "none"
            self._finish(_error(use.id, f"There is no tool named {use.name!r}. The tools are: {names}."))
        elif use.invalid_input is not None:
            raw = shorten(use.invalid_input, 500, "[{left_out} of {total} characters left out]")
            self._finish(_error(use.id, f"The arguments of {use.name} are not a JSON object, so it was not run: {raw}"))
        else:
            self.around.emit(ToolStarted(use.id, use.name, use.input, tool.effect))
            self._task = self._loop.create_task(self._run(tool))
            self._task.add_done_callback(self._done)
            seconds = self.around.limits.tool_seconds if tool.timeout is None else tool.timeout
            if seconds is not None:
                self._after(seconds, lambda: self.stop(f"{use.name} did not finish within {seconds:g} seconds."))

    def stop(self, reason: str) -> None:
        """Stop the call. The tool has a moment to clean up; one that has returned keeps its result."""
        if self.answer or self._context.cancelled:
            return
        self._context.cancel()
        if not self._came_through:
            self._stopped = reason
        if self._task is None:
            self._finish(_error(self.use.id, reason))
        else:
            self._task.cancel()
            # A sub-agent needs the same time to stop its own calls.
            self._after(CANCEL_GRACE * (2 if self._context.has_spawned else 1), self.abandon)

    def abandon(self) -> None:
        """Set a result now, without the tool."""
        self._finish(_error(self.use.id, self._stopped or "The call was given up."))

    async def wait(self) -> None:
        """Wait until the result is stored. Cancelling the wait does not harm the call."""
        if not self._announced:
            self._answered = self._loop.create_future()
            await self._answered
        if self.written and self.written.error:
            raise self.written.error

    async def _run(self, tool: Tool) -> None:
        answer = await self._work(tool)
        self._finish(_stopped_answer(answer, self._stopped) if self._stopped else answer)

    async def _work(self, tool: Tool) -> CallResult:
        try:
            result = await tool.invoke(self.use.input, self._context)
            self._came_through = True
        except ValidationError as error:
            faults = "\n".join(f"- {violation}" for violation in error.violations)
            result = _failure(f"The arguments of {tool.name} are not valid, so it was not run:\n{faults}")
        except asyncio.CancelledError:
            if self._stopped:
                raise
            result = _failure(f"{tool.name} was cancelled from within.")
        except BaseException as error:  # noqa: BLE001 - sys.exit() in a tool must not end the loop either
            result = _failure(f"{tool.name} failed: {_said_by(error)}")
        try:
            return await self._answer(result)
        except asyncio.CancelledError:
            # The tool has done its work; only storing a long text or a file was interrupted.
            why = "it was cancelled before all of it could be stored"
            text = self._cut(clean(result.text), why, result.is_json) or f"[{why}]"
            return CallResult(_block(self.use.id, [TextBlock(text)], result.is_error), result.final, result.details)

    def _done(self, task: asyncio.Task[None]) -> None:
        """Set a result for a call that ended without one."""
        if task.cancelled():
            self.abandon()
        elif error := task.exception():
            self._finish(_error(self.use.id, f"{self.use.name} failed: {_said_by(error)}"))

    def _finish(self, answer: CallResult) -> None:
        if self.answer:
            return
        for timer in self._timers:
            timer.cancel()
        self.answer = answer
        self._context.close()
        if self.around.journal:
            self.written = self.around.journal.write(answer)
            self.written.then(self._announce)
        else:
            self._announce()

    def _announce(self) -> None:
        """Announce the result, once it is stored."""
        self._announced = True
        if self._answered and not self._answered.done():
            self._answered.set_result(None)
        answer = self.answer
        if answer and self.recorded:
            self.around.emit(ToolFinished(self.use.id, self.use.name, answer.result, answer.details))

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(seconds, action))

    def _progress(self, content: Any) -> None:
        if threading.get_ident() == self._loop_thread:
            self._show(content)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._show, content)

    def _show(self, content: Any) -> None:
        if not self.answer:
            self.around.emit(ToolProgress(self.use.id, clean(content) if isinstance(content, str) else content))

    async def _answer(self, result: ToolResult) -> CallResult:
        """Return the result as a block: its text within the limit, its files in the store."""
        text, whole = clean(result.text), None
        if result.whole is not None:
            text, whole = await self._completed(text, result.whole)
        elif len(text) > self._limit:
            text, whole = await self._shortened(text, result.is_json)
        content: list[TextBlock | AttachmentBlock] = [TextBlock(text)] if text else []
        files = [await self._stored(attachment) for attachment in result.attachments]
        nothing_left = not text.strip() and bool(files) and all(isinstance(file, TextBlock) for file in files)
        block = _block(self.use.id, [*content, *files], result.is_error or nothing_left, whole)
        return CallResult(block, result.final, result.details)

    async def _shortened(self, text: str, is_json: bool) -> tuple[str, AttachmentBlock | None]:
        data = (indent_json(text) if is_json else text).encode()
        mime_type, ending = ("application/json", "json") if is_json else ("", "txt")
        file = Attachment(data, mime_type, f"{self.use.name}-{self.use.id}.{ending}")
        where, kept = await self._keep_whole(file, len(data))
        if is_json:  # shortening long JSON takes a while
            return await self.around.threads.run(self._cut, text, where, is_json), kept
        return self._cut(text, where, is_json), kept

    def _cut(self, text: str, where: str, is_json: bool) -> str:
        """Shorten a text to the limit and say where the rest is; JSON stays JSON."""
        where = where.replace("{", "{{").replace("}", "}}")
        if is_json:
            note = f"This is not all of it: {{total}} characters, of which some are left out here. {where}"
            with contextlib.suppress(ValueError, RecursionError):  # not JSON after all: shorten it as text
                return clean(shorten_json(text, self._limit, note))
        return shorten(text, self._limit, f"[{{left_out}} of {{total}} characters left out here. {where}]")

    async def _completed(self, text: str, file: Attachment) -> tuple[str, AttachmentBlock | None]:
        """Return a partial text with a note on where the whole is."""
        where, kept = await self._keep_whole(file, self.around.limits.attachment_bytes, file.description or "The whole")
        note = "[{left_out} of {total} characters left out here.]"
        return f"{shorten(text, self._limit, note)}\n[{where}]", kept

    async def _keep_whole(
        self, file: Attachment, limit: int, what: str = "The whole"
    ) -> tuple[str, AttachmentBlock | None]:
        """Store the whole of a result; return a sentence on where it is, and its reference if it could be stored."""
        whole = await self._put(file, limit)
        if isinstance(whole, str):
            return f"{what} could not be stored: {whole}", None
        return f"{what} is stored as attachment:{whole.sha256}", whole

    async def _stored(self, attachment: Attachment) -> TextBlock | AttachmentBlock:
        """Store a file; return its reference, or a note for the model if that fails."""
        stored = await self._put(attachment, self.around.limits.attachment_bytes)
        return TextBlock(f"\n[A file could not be attached: {stored}.]") if isinstance(stored, str) else stored

    async def _put(self, attachment: Attachment, limit: int) -> AttachmentBlock | str:
        """Store a file; return its reference, or the reason why it failed, which observers see as a notice."""
        try:
            approve: object = self.around.approve
            if isinstance(approve, FileApprover) and isinstance(attachment.source, Path):
                return await self._put_judged(approve, attachment, limit)
            return await self.around.threads.run(self.around.store.put, attachment, limit)
        except Exception as error:  # noqa: BLE001 - a user's store may break the contract, and the turn goes on
            said = clean(str(error)) if isinstance(error, AttachmentError) else _said_by(error)
            if not self.answer:
                self.around.emit(Notice(f"{self.use.name}: {said}"))
            return said

    async def _put_judged(self, approver: FileApprover, attachment: Attachment, limit: int) -> AttachmentBlock:
        """Store a file by path if the approver allows it. It is opened once, then approved, then read."""
        file = await self.around.threads.run(attachment.held, limit)
        try:
            for timer in self._timers:  # the tool has returned, and a person who is asked may take their time
                timer.cancel()
            given = os.path.join(os.getcwd(), str(attachment.source))  # as the system has just resolved it
            if refusal := denial_in(await approver.attach(self.use, given, file.real)):
                raise AttachmentError(f"{attachment.label}: {refusal}")
            return await self.around.threads.run(self.around.store.put, file, limit)
        finally:
            if file.file:
                file.file.close()


def _failure(text: str) -> ToolResult:
    return ToolResult(text, is_error=True)


def _error(call_id: str, text: str) -> CallResult:
    return CallResult(_block(call_id, [TextBlock(text)], is_error=True))


def _block(
    call_id: str,
    content: Iterable[TextBlock | AttachmentBlock],
    is_error: bool,
    whole: AttachmentBlock | None = None,
) -> ToolResultBlock:
    return ToolResultBlock(call_id, tuple(content), is_error, whole)


def _stopped_answer(answer: CallResult, reason: str) -> CallResult:
    """Return the result of a stopped tool, flagged as an error and with the reason before it."""
    result = answer.result
    return CallResult(_block(result.tool_use_id, [TextBlock(f"{reason}\n"), *result.content], True, result.whole))


def _said_by(error: BaseException) -> str:
    """Describe an exception; its own `__str__` may fail as well."""
    try:
        said = clean(str(error))
    except Exception:  # noqa: BLE001 - then only its type is named
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
