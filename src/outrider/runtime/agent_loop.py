"""The agent loop: a reply of the model, the calls of the reply, and again, until no calls are left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from outrider.conversation.messages import Message, ToolResultBlock, ToolUseBlock
from outrider.conversation.prompt import Prompt, parts_of
from outrider.errors import ContextExceededError, LogError, ProviderError, ValidationError
from outrider.log.entries import CallResult, Intent
from outrider.log.pending_write import deliver_cancel
from outrider.prompts import prompt as prompt_text
from outrider.providers.base import REMARKABLE, Reply, StopReason
from outrider.providers.windows import window_of
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.call_batches import first_intents, run_calls
from outrider.runtime.call_environment import CallEnvironment
from outrider.runtime.calls import Call
from outrider.runtime.compactor import Compactor
from outrider.runtime.events import Compacted, MessageAdded, Notice, ReplyDiscarded, RunStatus, TurnStarted
from outrider.runtime.hook_points import HookPoints
from outrider.runtime.hooks import NO_HOOKS
from outrider.runtime.model_client import ModelClient
from outrider.runtime.prompt_files import stored_message, stored_results
from outrider.runtime.record import SessionRecord
from outrider.runtime.run import Progress

MAX_PAUSES = 20
"""Requests of one turn, if the model pauses its reply again and again."""
_REFUSALS = (StopReason.REFUSAL, StopReason.CONTENT_FILTER)


class Results(msgspec.Struct, frozen=True):
    """The results of the calls of one reply."""

    message: Message
    """One user message with each result, in call order."""
    final: CallResult | None = None
    """The first result that ends the run."""


class AgentLoop:
    """Works on the conversation of one session with its model and tools. It does one thing at a time."""

    def __init__(self, agent: AgentSpec, record: SessionRecord, environment: CallEnvironment) -> None:
        self._record = record
        self.environment = environment
        """What the calls share."""
        self.model = ModelClient(agent, record)
        self.compactor = Compactor(record, self.model, environment.cwd)
        self.hook_points = HookPoints()

    def use(self, agent: AgentSpec) -> None:
        """Take the model, the tools, the prompt and the limits of an agent."""
        self.model.use(agent)
        self.compactor.use_model()
        self.environment = msgspec.structs.replace(
            self.environment, limits=agent.limits, deps=agent.deps, hooks=agent.hooks
        )

    def resume(self) -> None:
        """Take the conversation from the log."""
        measured = self._record.resume()
        self.model.restart()
        self.compactor.restart(measured)

    async def think(self, prompt: Prompt, tool_results: Iterable[ToolResultBlock | Mapping[str, Any]]) -> Reply:
        """Add the prompt and results, and request one reply."""
        await self._add(await self.submitted(prompt), tool_results)
        self._record.check_answerable()
        return await self._reply()

    async def act(self) -> Results:
        """Run the pending calls, and add their results."""
        return await self._act(self._record.history.pending)

    async def compact(self, focus: str) -> Compacted:
        """Summarise the conversation."""
        await self._record.load()
        return await self.compactor.compact("manual", focus)

    async def run(
        self, prompt: Prompt, progress: Progress, seconds: float | None, before: Callable[[], Awaitable[None]]
    ) -> RunStatus:
        """Think and act until the conversation has an answer, or a limit is reached. Return which.

        `before` is called once the prompt is in the history. Raises TimeoutError after so many seconds.
        """
        self._record.progress = progress
        try:
            async with asyncio.timeout(seconds):
                await self._begin(prompt, before)
                status = await self._turns(progress)
                await deliver_cancel()  # still inside the time-out, which it may be
                return status
        finally:
            self._record.progress = None

    async def _begin(self, prompt: Prompt, before: Callable[[], Awaitable[None]]) -> None:
        """Add the prompt, and run the calls that an earlier run left open."""
        await self._add(await self.submitted(prompt))
        await before()
        self.model.take_results(self._record.history.tail)
        if uses := self._record.history.pending:
            await self._act(uses)

    async def _turns(self, progress: Progress) -> RunStatus:
        while True:
            reached = progress.limit_reached()
            if not reached and self._record.steering.has_any:
                await self._record.deliver()
            correction = self._correction(progress)
            if not correction and self._has_ended(progress):
                correction = "" if reached else await self._stop_hooks(progress)
                if not correction:
                    return "done"
            if reached:
                return reached
            if correction:
                await self._add(correction)
            progress.begin_turn()
            self._record.emit(TurnStarted(progress.turns, progress.on_last_turn))
            reply = await self._whole_reply(progress)
            if progress.cost_is_unknown:
                self._record.emit(
                    Notice(f"the price of {self.model.provider.name} is not known: the cost limit cannot be kept")
                )
            if uses := self._record.history.pending:
                await self._act(uses)
            if (last := self._record.history.last) is not None:
                progress.count_calls(reply.message, last)

    async def submitted(self, prompt: Prompt) -> Prompt:
        """Return the prompt with what hooks add to it. Raises HookBlockedError if one refuses it."""
        if self.environment.hooks is NO_HOOKS:
            return prompt
        is_resumed = self._record.history.last is not None
        return await self.hook_points.submit(prompt, self.environment, is_resumed=is_resumed)

    async def _stop_hooks(self, progress: Progress) -> str:
        """Return what hooks say if they want the run to go on. A final result ends it all the same."""
        if self.environment.hooks is NO_HOOKS or self._record.calls.final:
            return ""
        name = self.model.agent.name
        said = await self.hook_points.stop(progress.text, self.environment, name, progress.continued)
        progress.continued += bool(said)
        return said

    def _correction(self, progress: Progress) -> str:
        """Return what to say about an answer that does not satisfy its schema. A refusal is not corrected."""
        schema = self.model.agent.answer
        if schema is None or self._record.calls.final or not self._record.final_answer():
            return ""
        return "" if progress.stop_reason in _REFUSALS else schema.correction(self._record.history.tail)

    def _has_ended(self, progress: Progress) -> bool:
        """Take the final result or the model's answer, if the conversation ends with one."""
        if final := self._record.calls.final:
            progress.end_with(final)
        elif answer := self._record.final_answer():
            progress.text = answer.text
            self._read_answer(answer, progress)
        else:
            return False
        return True

    def _read_answer(self, message: Message, progress: Progress) -> None:
        """Take the data of the answer, if it has a schema and satisfies it."""
        if schema := self.model.agent.answer:
            with suppress(ValidationError):
                answer = schema.read(message)
                progress.text = answer.text
                progress.structured_output, progress.has_structured_output = answer.data, True

    async def _whole_reply(self, progress: Progress) -> Reply:
        """Request replies until one ends its turn: a pause is continued; an empty reply after a failure is not one."""
        reminder, first, was_empty = self.model.reminder(progress), progress.turns == 1, False
        for _ in range(MAX_PAUSES):
            before = self._record.history.last
            reply = await self._reply(reminder, acting=True, first=first)
            progress.count(reply)
            if reply.message.has_tool_calls:
                return reply
            if reply.stop_reason is StopReason.PAUSE:
                progress.check_budget()
                continue
            if reply.stop_reason is not StopReason.END or progress.text or not (was_empty or _has_failed(before)):
                return reply
            if was_empty:
                raise ProviderError(f"{self.model.provider.name} replied with nothing, twice, after a call had failed")
            was_empty, reminder = True, prompt_text("empty_reply")
        raise ProviderError(
            f"{self.model.provider.name} paused its reply {MAX_PAUSES} times; send another prompt to go on"
        )

    async def _reply(self, reminder: str = "", *, acting: bool = False, first: bool = True) -> Reply:
        """Request one reply. If its calls run next, their intents are stored in the same commit."""
        record, model = self._record, self.model
        if not record.history.is_ready:
            await record.load()
        if model.tools.servers:
            await model.join_servers()
        if self.compactor.may_be_full:
            await self.compactor.make_room()
        settings = model.agent.settings
        settings = self.compactor.bounded(settings if first else settings.after_first)
        try:
            reply = await model.reply(reminder, settings)
        except ContextExceededError as error:
            await self.compactor.after_refusal(error)
            reply = await model.reply(reminder, settings)
        if (normalized := record.history.normalized(reply.message)) is not reply.message:
            reply = msgspec.structs.replace(reply, message=normalized)
        record.usage += reply.usage
        record.calls.forget()
        try:
            if record.journal:
                await record.store_reply(reply, model.provider.name, self._intents(reply) if acting else ())
        except LogError as error:
            record.emit(ReplyDiscarded(str(error)))
            raise
        record.history.append(reply.message)
        self.compactor.measure(reply.message, reply.usage)
        record.emit(MessageAdded(reply.message, reply.usage))
        if remark := REMARKABLE.get(reply.stop_reason):
            record.emit(Notice(f"{remark}: {reply.stop_detail}" if reply.stop_detail else remark))
        return reply

    def _intents(self, reply: Reply) -> Sequence[Intent]:
        """Return the intents of the calls that start at once."""
        return first_intents(self._make_calls(reply.message.tool_calls))

    def _make_calls(self, uses: Sequence[ToolUseBlock]) -> list[Call]:
        return self._record.calls.make(uses, self.model.tools.callable, self.environment)

    async def _act(self, uses: Sequence[ToolUseBlock]) -> Results:
        known = self.model.tools.callable
        for use in uses:
            if use.name not in known:  # after a crash, their servers are just starting
                await self.model.join_servers()
                break
        if uses:
            self._fit_results()
        calls = self._make_calls(uses)
        try:
            await run_calls(calls, self.model.tools.offered)
        except (asyncio.CancelledError, LogError):
            if all(call.recorded for call in calls):
                self._record.add_results(calls)
            else:
                self._record.calls.keep(calls)
            raise
        results = Results(*self._record.add_results(calls))
        self.model.take_results([results.message])
        return results

    def _fit_results(self) -> None:
        """Bound the results by the model's context window, which the provider may have learned meanwhile."""
        limits, window = self.model.agent.limits, window_of(self.model.provider)
        if window is not None:
            limits = limits.within(window)
        if limits is not self.environment.limits and limits != self.environment.limits:
            self.environment = msgspec.structs.replace(self.environment, limits=limits)

    async def _add(self, prompt: Prompt, tool_results: Iterable[ToolResultBlock | Mapping[str, Any]] = ()) -> None:
        """Add results and a prompt, whose files are stored first."""
        results = await stored_results(tool_results, self.environment) if tool_results != () else {}
        message = await stored_message(parts_of(prompt), self.environment)
        await self._record.add(message.content, results)


def _has_failed(results: Message | None) -> bool:
    return results is not None and any(result.is_error for result in results.tool_results)
