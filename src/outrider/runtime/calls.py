"""One tool call from its start to its one result, through failures, time-outs and cancels."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from outrider.conversation.messages import TextBlock, ToolUseBlock
from outrider.errors import OutriderError, ValidationError
from outrider.log.answers import result_from
from outrider.log.entries import AttachmentStored, CallResult, Decided, Intent
from outrider.providers.debugging import logger
from outrider.runtime.asked_call import AskedCall
from outrider.runtime.call_environment import CallEnvironment
from outrider.runtime.call_results import (
    ResultBuilder,
    described,
    edited_result,
    error_result,
    result_block,
    stopped_result,
    unknown_result,
)
from outrider.runtime.entry_events import start_of
from outrider.runtime.events import Notice, ToolProgress
from outrider.runtime.hooks import AfterTool, run_hooks
from outrider.runtime.waits import Parked, result_of
from outrider.text import clean, shorten
from outrider.tools.approval import Defer
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool

CANCELLED = "The call was cancelled before it finished."
"""The first sentence of a cancelled call's result; front ends recognise it."""
SKIPPED = "It was not run: another call of this reply was denied, and the next message says what to do instead."
CHECK = "Part of it may have happened: check before you repeat it."
CANCEL_GRACE = 1.0
"""Seconds that a cancelled tool has to clean up before its call gets a result without it."""


class Call(AskedCall):
    """One call. It gets exactly one result: from the tool, from outside, from a time-out or a cancel."""

    _is_shown = False
    """Whether observers know that it has started."""
    _has_begun = False
    """Whether the tool was called."""
    _came_through = False
    """Whether the tool itself has returned."""
    _stopped = ""
    """Why the call was stopped, if it was."""
    _announced = False
    _answered: asyncio.Future[None] | None = None
    _task: asyncio.Task[None] | None = None
    _intent: Intent | None = None

    def __init__(
        self,
        use: ToolUseBlock,
        tool: Tool | None,
        around: CallEnvironment,
        begun: Intent | None = None,
        reply: str = "",
    ) -> None:
        self.use, tool = _real_call(use, tool) if tool and tool.stands_for else (use, tool)
        self.around = around
        self.is_begun = begun is not None
        """Whether its intent is stored: together with the reply, or by a process that ended."""
        self._loop = asyncio.get_running_loop()
        self._tool = tool
        self._is_edited = begun is not None and begun.is_edited
        """Whether the approver changed the arguments."""
        if begun and begun.is_edited:  # it runs again as it was approved
            self.use = msgspec.structs.replace(self.use, input=begun.input)
        self._key = begun.key if begun else f"{around.session}/{use.id}"
        own, most = tool.result_characters if tool else None, around.limits.result_characters
        self._limit = most if own is None else min(own, most)
        """The most characters of the result that the model reads."""
        self._timers: list[asyncio.TimerHandle] = []
        self._loop_thread = threading.get_ident()
        self._context = ToolContext(
            CallRef(self.use.id, self._key, around.session, reply),
            around.cwd,
            around.threads,
            self._progress,
            around.store,
            around.open_child,
            around.deps,
            result_characters=self._limit,
        ).asking(self)

    @property
    def concurrent(self) -> bool:
        """Whether the call may run beside others."""
        return self._tool is None or self._tool.concurrent

    @property
    def recorded(self) -> bool:
        """Whether the result is stored."""
        return self._announced and not (self.written and self.written.error)

    @property
    def started(self) -> bool:
        """Whether the call has started or has a result."""
        return self._task is not None or self.answer is not None

    @property
    def is_unstored(self) -> bool:
        """Whether its intent, or the decision that allowed it, is not stored yet."""
        return not self.is_begun or self.decided is not None

    @property
    def may_write(self) -> bool:
        """Whether the call will run, and may change something."""
        return self._tool is not None and self._tool.effect != "read" and self.intent() is not None

    def intent(self) -> Intent | None:
        """Return the intent to store before the call starts, or None if it will not run."""
        tool, use = self._tool, self.use
        if tool is None or use.invalid_input is not None or self.answer or self.is_parked:
            return None
        if self._result_from_outside:
            return None
        if self._intent is None or self._intent.input is not use.input:
            self._intent = Intent(use.id, tool.name, tool.effect, self._key, use.input, self._is_edited)
        return self._intent

    async def _after_hooks(self, tool: Tool, answer: CallResult) -> CallResult:
        """Return the result with what the hooks before and after the call add to it."""
        around, use, result = self.around, self.use, answer.result
        said = [self._hook_context] if self._hook_context else []
        if around.hooks.after_tool:
            event = AfterTool(
                session=around.session,
                cwd=around.cwd,
                call_id=use.id,
                tool=tool.name,
                input=use.input,
                result=result.text,
                is_error=result.is_error,
            )
            wanted = await run_hooks(around.hooks.after_tool, event, self._report)
            said += [clean(text) for text in (wanted.block, wanted.context) if text]
        if not said:
            return answer
        blocks = (*result.content, *(TextBlock(f"[A hook says:]\n{text}") for text in said))
        return msgspec.structs.replace(answer, result=msgspec.structs.replace(result, content=blocks))

    def recall(self, answer: CallResult, *, recorded: bool) -> None:
        """Take a result from before: from another process, or one that could not be stored."""
        if recorded:
            self.answer, self._announced = answer, True
        else:
            self._finish(answer)

    def start(self, known: Iterable[str]) -> None:
        """Start the call. `known` are the tool names to list if this tool does not exist."""
        use, tool = self.use, self._tool
        if self.answer or self.is_parked:
            return
        if tool is None:
            from outrider.tools.near_names import nearest_name  # few models misspell a tool

            names = list(known)
            near = nearest_name(use.name, names)
            guess = f"Did you mean {near}? " if near else ""
            text = f"There is no tool named {use.name!r}. {guess}The tools are: {', '.join(names) or 'none'}."
            self._finish(error_result(use.id, text))
        elif use.invalid_input is not None:
            raw = shorten(use.invalid_input, 500, "[{left_out} of {total} characters left out]")
            text = f"The arguments of {use.name} are not a JSON object, so it was not run: {raw}"
            self._finish(error_result(use.id, text))
        else:
            self._show_start()
            self._task = self._loop.create_task(self._run(tool))

    def skip(self) -> None:
        """Give a call that has not started a result without running it: another was denied, and ends the run."""
        if not self.started and not self.is_parked:
            self._finish(error_result(self.use.id, SKIPPED))

    def _show_start(self) -> None:
        """Show the start of a call whose intent is stored. Telemetry opens its span in the current context."""
        if self.is_begun and (intent := self.intent()):
            self._is_shown = True
            self.around.emit(start_of(intent))

    def limit_time(self) -> None:
        """Stop the call when its time is up, if it still runs."""
        tool, name = self._tool, self.use.name
        if tool is None or self.answer or self.is_parked:
            return
        seconds = self.around.limits.tool_seconds if tool.timeout is None else tool.timeout
        if seconds is not None:
            self._after(seconds, lambda: self.stop(f"{name} did not finish within {seconds:g} seconds."))

    def stop(self, reason: str) -> None:
        """Stop the call. The tool has a moment to clean up; one that has returned keeps its result."""
        if self.answer or self._context.cancelled:
            return
        self._context.cancel()
        if not self._came_through:
            self._stopped = f"{reason} {CHECK}" if self._may_have_written else reason
        if self._task is None or self.is_parked:
            self._finish(error_result(self.use.id, reason))
        else:
            self._task.add_done_callback(lambda _: self.abandon())  # it may end without a result
            self._task.cancel()
            # A sub-agent needs the same time to stop its own calls.
            self._after(CANCEL_GRACE * (2 if self._context.has_spawned else 1), self.abandon)

    def abandon(self) -> None:
        """Set a result now, without the tool."""
        answer = error_result(self.use.id, self._stopped or "The call was given up.")
        self._finish(unknown_result(answer) if self._may_have_written else answer)

    @property
    def _may_have_written(self) -> bool:
        """Whether the tool runs, or ran and did not return, and may change something."""
        return self._has_begun and not self._came_through and self.may_write

    async def wait(self) -> None:
        """Wait until the result is stored. Cancelling the wait does not harm the call."""
        if not self._announced:
            self._answered = self._loop.create_future()
            await self._answered
        if self.written and self.written.error:
            raise self.written.error

    async def _run(self, tool: Tool) -> None:
        try:
            answer = await self._work(tool)
            if (self.around.hooks.after_tool or self._hook_context) and not self._stopped:
                self._cancel_timers()  # the tool has done its work
                with contextlib.suppress(asyncio.CancelledError):  # a cancel must not lose the result
                    answer = await self._after_hooks(tool, answer)
        except Parked as parked:
            if not self._stopped:
                await self._park(parked.questions)
                return
            answer = error_result(self.use.id, self._stopped)
        except Exception as error:  # noqa: BLE001 - every call gets a result
            _log_failure(tool, error)
            answer = error_result(self.use.id, f"{self.use.name} failed: {described(error)}")
        if self._stopped:
            answer = stopped_result(answer, self._stopped)
            answer = unknown_result(answer) if self._has_begun and self.may_write else answer
        self._finish(answer)

    async def _work(self, tool: Tool) -> CallResult:
        self._has_begun = True
        if given := self._result_from_outside:
            return await self._given_result(given)
        try:
            result = await tool.invoke(self.use.input, self._context)
            self._came_through = True
        except (Defer, Parked) as later:
            if isinstance(later, Parked):
                raise
            if self.around.waits:
                raise Parked([result_of(self.use, self._key, later)]) from None
            result = _failure(f"The result of {tool.name} comes later, and this call is not part of a session.")
        except ValidationError as error:
            faults = "\n".join(f"- {violation}" for violation in error.violations)
            result = _failure(f"The arguments of {tool.name} are not valid, so it was not run:\n{faults}")
        except asyncio.CancelledError:
            if self._stopped:
                raise
            result = _failure(f"{tool.name} was cancelled from within.")
        except BaseException as error:  # noqa: BLE001 - sys.exit() in a tool must not end the loop either
            _log_failure(tool, error)
            result = _failure(f"{tool.name} failed: {described(error)}")
        return await self._built(result)

    async def _given_result(self, given: Decided) -> CallResult:
        """Return the result that came from outside. Its files are stored, and from now on those of the session."""
        if not given.allowed:
            return await self._built(_failure(f"The result of {self.use.name} did not come in time."))
        result, files = result_from(given.content)
        answer = await self._built(result)
        block = msgspec.structs.replace(answer.result, content=(*answer.result.content, *files))
        if files:
            self.around.write(*map(AttachmentStored, files))
        return msgspec.structs.replace(answer, result=block)

    async def _built(self, result: ToolResult) -> CallResult:
        builder = ResultBuilder(self.use, self.around, self._limit, self._report, self._cancel_timers)
        try:
            return await builder.build(result)
        except asyncio.CancelledError:
            # The tool has done its work; only storing a long text or a file was interrupted.
            why = "it was cancelled before all of it could be stored"
            text = builder.cut(clean(result.text), why, result.is_json) or f"[{why}]"
            block = result_block(self.use.id, [TextBlock(text)], result.is_error)
            return CallResult(block, result.final, result.details)

    def _finish(self, answer: CallResult) -> None:
        if self.answer:
            return
        self._cancel_timers()
        if not self._is_shown:
            self._show_start()
        if self._is_edited and self._has_begun:
            answer = edited_result(answer, self.use.input)
        self.answer = answer
        self._context.close()
        self.written = self.around.write(*self.take_decision(), answer)
        self.written.then(self._announce)

    def _announce(self) -> None:
        """Wake who waits for the result, once it is stored."""
        self._announced = True
        if self._answered and not self._answered.done():
            self._answered.set_result(None)

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(seconds, action))

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()

    def _report(self, text: str) -> None:
        if not self.answer:
            self.around.emit(Notice(text))

    def _progress(self, content: Any) -> None:
        if threading.get_ident() == self._loop_thread:
            self._show(content)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._show, content)

    def _show(self, content: Any) -> None:
        if not self.answer:
            self.around.emit(ToolProgress(self.use.id, clean(content) if isinstance(content, str) else content))


def _real_call(use: ToolUseBlock, tool: Tool) -> tuple[ToolUseBlock, Tool]:
    """Return the call that is approved, recorded and run. Its result answers the call of the model."""
    real = tool.stands_for(use.input) if tool.stands_for and use.invalid_input is None else None
    if real is None:
        return use, tool
    return msgspec.structs.replace(use, name=real[0].name, input=real[1]), real[0]


def _log_failure(tool: Tool, error: BaseException) -> None:
    """Log the traceback of an exception in a tool, which may be a bug. The model reads only what it says.

    Arguments are not logged, and keys are masked. An error of ours explains itself, and an interrupt is none of the
    tool.
    """
    if not isinstance(error, OutriderError | GeneratorExit | KeyboardInterrupt):
        logger.warning("the tool %s failed; the model reads the error", tool.name, exc_info=error)


def _failure(text: str) -> ToolResult:
    return ToolResult(text, is_error=True)
