"""One tool call on its way to its one answer, whatever happens to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from outrider.agent import Limits
from outrider.attachments import Attachment
from outrider.errors import AttachmentError, ValidationError
from outrider.events import Event, Notice, ToolFinished, ToolProgress, ToolStarted
from outrider.messages import AttachmentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from outrider.store import AttachmentStore
from outrider.text import clean, shorten
from outrider.threads import Threads
from outrider.tools import Tool, ToolContext, ToolResult

CANCEL_GRACE = 1.0
"""Seconds that a cancelled tool has to clean up before its call is answered without it."""


class Answer(msgspec.Struct, frozen=True):
    """What a call came to."""

    result: ToolResultBlock
    final: bool = False
    details: Any = None


class Surroundings(msgspec.Struct, frozen=True):
    """What the calls of one session share."""

    emit: Callable[[Event], None]
    store: AttachmentStore
    threads: Threads
    limits: Limits
    cwd: Path


class Call:
    """A call from its start to its answer. The answer comes exactly once: by the tool, a time-out or a cancel."""

    def __init__(self, use: ToolUseBlock, tool: Tool | None, around: Surroundings) -> None:
        self.use = use
        self.answer: Answer | None = None
        self._loop = asyncio.get_running_loop()
        self._answered: asyncio.Future[None] | None = None
        self._tool = tool
        self._around = around
        self._context = ToolContext(use.id, around.cwd, around.threads, self._progress)
        self._task: asyncio.Task[Answer] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._stopped = ""
        """Why the call was given up, if it was."""
        self._loop_thread = threading.get_ident()

    @property
    def concurrent(self) -> bool:
        """Whether it may run beside others."""
        return self._tool is None or self._tool.concurrent

    def start(self, known: Iterable[str]) -> None:
        """Begin. `known` are the names to suggest if the tool is not one of them."""
        use, tool = self.use, self._tool
        if tool is None:
            names = ", ".join(known) or "none"
            self._finish(_error(use.id, f"There is no tool named {use.name!r}. The tools are: {names}."))
        elif use.invalid_input is not None:
            raw = shorten(use.invalid_input, 500, "[{left_out} of {total} characters left out]")
            self._finish(_error(use.id, f"The arguments of {use.name} are not a JSON object, so it was not run: {raw}"))
        else:
            self._around.emit(ToolStarted(use.id, use.name, use.input, tool.effect))
            self._task = self._loop.create_task(self._work(tool))
            self._task.add_done_callback(self._done)
            seconds = self._around.limits.tool_seconds if tool.timeout is None else tool.timeout
            if seconds is not None:
                self._after(seconds, lambda: self.stop(f"{use.name} did not finish within {seconds:g} seconds."))

    def stop(self, reason: str) -> None:
        """Give the call up. A tool that cleans up is waited for, for a moment."""
        if self.answer or self._stopped:
            return
        self._stopped = reason
        self._context.cancel()
        if self._task is None:
            self._finish(_error(self.use.id, reason))
        else:
            self._task.cancel()
            self._after(CANCEL_GRACE, self.abandon)

    def abandon(self) -> None:
        """Answer now, without the tool."""
        self._finish(_error(self.use.id, self._stopped or "The call was given up."))

    async def wait(self) -> None:
        """Wait for the answer. Whoever waits may be cancelled without harm to the call."""
        if not self.answer:
            self._answered = self._loop.create_future()
            await self._answered

    async def _work(self, tool: Tool) -> Answer:
        try:
            result = await tool.invoke(self.use.input, self._context)
        except ValidationError as error:
            faults = "\n".join(f"- {violation}" for violation in error.violations)
            return _error(self.use.id, f"The arguments of {tool.name} are not valid, so it was not run:\n{faults}")
        except asyncio.CancelledError:
            if self._stopped:
                raise
            return _error(self.use.id, f"{tool.name} was cancelled from within.")
        except BaseException as error:  # noqa: BLE001 - also sys.exit() in a tool must not end the loop
            said = clean(str(error))
            return _error(self.use.id, f"{tool.name} failed: {type(error).__name__}{': ' if said else ''}{said}")
        return await self._answer(result)

    def _done(self, task: asyncio.Task[Answer]) -> None:
        if task.cancelled():
            self.abandon()
        elif error := task.exception():
            self._finish(_error(self.use.id, f"{self.use.name} failed: {type(error).__name__}: {error}"))
        elif self._stopped:
            said = f"{self._stopped} {task.result().result.text}".strip()
            self._finish(_error(self.use.id, said))
        else:
            self._finish(task.result())

    def _finish(self, answer: Answer) -> None:
        if self.answer:
            return
        for timer in self._timers:
            timer.cancel()
        self.answer = answer
        if self._answered and not self._answered.done():
            self._answered.set_result(None)
        self._around.emit(ToolFinished(self.use.id, self.use.name, answer.result, answer.details))

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(seconds, action))

    def _progress(self, content: Any) -> None:
        if threading.get_ident() == self._loop_thread:
            self._show(content)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._show, content)

    def _show(self, content: Any) -> None:
        if not self.answer:
            self._around.emit(ToolProgress(self.use.id, clean(content) if isinstance(content, str) else content))

    async def _answer(self, result: ToolResult) -> Answer:
        """The result as a block: its text within the limit, its files in the store."""
        text, whole = clean(result.text), None
        if len(text) > self._around.limits.result_characters:
            text, whole = await self._shortened(text)
        content: list[TextBlock | AttachmentBlock] = [TextBlock(text)] if text else []
        for attachment in result.attachments:
            content.append(await self._stored(attachment))
        block = ToolResultBlock(self.use.id, tuple(content), result.is_error, whole)
        return Answer(block, result.final, result.details)

    async def _shortened(self, text: str) -> tuple[str, AttachmentBlock | None]:
        data = text.encode()
        file = Attachment(data, "text/plain", f"{self.use.name}-{self.use.id}.txt")
        try:
            whole = await self._around.threads.run(self._around.store.put, file, len(data))
            where = f"The whole is stored as attachment:{whole.sha256}"
        except AttachmentError as error:
            whole, where = None, f"The whole could not be stored: {error}"
            self._around.emit(Notice(f"The result of {self.use.name} was cut. {where}"))
        limit = self._around.limits.result_characters
        return shorten(
            text, limit, "[{left_out} of {total} characters left out here. " + where.replace("{", "{{") + "]"
        ), whole

    async def _stored(self, attachment: Attachment) -> TextBlock | AttachmentBlock:
        """The file's reference, or a note to the model where there can be none; the turn goes on."""
        try:
            limit = self._around.limits.attachment_bytes
            return await self._around.threads.run(self._around.store.put, attachment, limit)
        except AttachmentError as error:
            self._around.emit(Notice(f"{self.use.name}: {error}"))
            return TextBlock(f"\n[A file could not be attached: {error}.]")


def _error(call_id: str, text: str) -> Answer:
    return Answer(ToolResultBlock(call_id, (TextBlock(text),), is_error=True))
