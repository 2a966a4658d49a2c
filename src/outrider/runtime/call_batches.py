"""The calls of one reply, run in batches: side by side where their tools allow it.

Each is approved, its intent is stored, it runs, and its result is stored (`calls.py`). After a kill, `SessionState`
knows from the intents which calls may have run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from outrider.conversation.messages import ToolUseBlock
from outrider.errors import LogError
from outrider.log.entries import Entry, Intent
from outrider.providers.catalogue.windows import window_of
from outrider.runtime.call_environment import CallEnvironment
from outrider.runtime.calls import CANCELLED, Call
from outrider.runtime.model_client import ModelClient
from outrider.runtime.record import SessionRecord
from outrider.runtime.refused_calls import refused_calls

MOST_AT_ONCE = 64
"""Calls of one reply that run at the same time; a reply with more runs in batches."""
_is_asked, _is_unstored, _ends_run = map(attrgetter, ("is_asked", "is_unstored", "ends_run"))


async def run_calls(calls: Sequence[Call], tools: Iterable[str]) -> None:
    """Run calls until each has its result: concurrently, but a tool that is not concurrent alone and in order.

    When the caller is cancelled, each call still gets a result before CancelledError is raised. When the log fails,
    running calls are stopped before LogError is raised. After a denial that ends the run, no further call starts.
    """
    for batch in _batches([call for call in calls if not call.is_parked]):
        if any(map(_ends_run, calls)):
            for call in batch:
                call.skip()
        try:
            await _run_batch(batch, tools)
        except asyncio.CancelledError:
            await _stop(calls)
            raise
        except LogError:
            if watch := batch[0].around.watch:
                watch.forget()
            await _stop([call for call in calls if call.started])
            raise
        finally:
            if watch := batch[0].around.watch:
                watch.end()


async def _run_batch(batch: Sequence[Call], tools: Iterable[str]) -> None:
    # With an approver or hooks each call starts once it is approved, so that it cannot change meanwhile.
    around = batch[0].around
    is_asked = any(map(_is_asked, batch))
    for together in [[call] for call in batch] if is_asked else [batch]:
        if is_asked:
            if any(map(_ends_run, batch)):
                together[0].skip()
            await together[0].ask()
        if around.watch or any(map(_is_unstored, together)):
            await _record_intents(together)
        for call in together:
            call.start(tools)
        await asyncio.sleep(0)  # a tool that does not wait for anything has returned then
        for call in together:
            call.limit_time()
    for call in batch:
        await call.wait()


def first_intents(calls: Sequence[Call]) -> list[Intent]:
    """Return the intents of the calls that start first: they are stored together with the reply, and not again.

    With an approver or hooks there are none: an intent says that the call is running. Nor with snapshots, which come
    before it.
    """
    for batch in _batches(calls):
        if batch[0].around.watch or any(map(_is_asked, batch)):
            break
        for call in batch:
            call.is_begun = True
        return [intent for call in batch if (intent := call.intent())]
    return []


async def _record_intents(calls: Sequence[Call]) -> None:
    """Store what is about to be done, after the state of the working folder before it."""
    around = calls[0].around
    watch = around.watch
    entries: list[Entry] = []
    for call in calls:
        if intent := call.intent():
            entries += call.take_decision()  # also one about a call that runs again
            entries += [] if call.is_begun else [intent]
    if watch and any(call.may_write for call in calls) and (snapshot := await watch.begin()):
        entries.insert(0, snapshot)
    if entries:
        await around.write(*entries).finished()
        for call in calls:
            call.is_begun = True


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


class ReplyCalls:
    """The calls of the newest reply: made when it comes, or after a restart, and run."""

    def __init__(self, record: SessionRecord, model: ModelClient) -> None:
        self._record, self._model = record, model
        self._prepared: list[Call] = []
        """Those that run next."""

    def prepare(self, uses: Sequence[ToolUseBlock], around: CallEnvironment, *, is_last: bool) -> list[Intent]:
        """Make the calls of a reply, which run next. Return the intents that are stored together with it.

        `is_last`: no reply can follow.
        """
        self._prepared = self._made(uses, around, is_last=is_last)
        return first_intents(self._prepared)

    async def run(self, uses: Sequence[ToolUseBlock], around: CallEnvironment, *, is_last: bool) -> None:
        """Run calls until each has a result. The last result completes the message with all of them."""
        calls, self._prepared = self._prepared, []
        if not calls or [call.use.id for call in calls] != [use.id for use in uses]:
            known = self._model.tools.callable
            if any(use.name not in known for use in uses):  # after a crash, their servers are just starting
                await self._model.join_servers()
            calls = self._made(uses, around, is_last=is_last)
        try:
            await run_calls(calls, self._model.tools.offered)
        except (asyncio.CancelledError, LogError):
            self._record.unsaved = {call.use.id: call.answer for call in calls if call.answer and not call.recorded}
            raise
        if around.waits and around.waits.kept:
            await around.waits.settle()

    def _made(self, uses: Sequence[ToolUseBlock], around: CallEnvironment, *, is_last: bool) -> list[Call]:
        """Make a Call of each request; one that has its result already keeps it."""
        if not uses:
            return []
        state, tools = self._record.state, self._model.tools.callable
        # Results are bounded by the model's context window, which the provider may have learned meanwhile.
        limits = self._model.agent.limits.within(window_of(self._model.provider))
        around = around if limits is around.limits else msgspec.structs.replace(around, limits=limits)
        refused = refused_calls(uses, tools, is_last=is_last)
        waiting = state.waiting_calls(is_attended=around.person is not None) if state.questions else ()
        calls = []
        for use in uses:  # ids are unique in a conversation, so the first call names the reply
            tool, intent = refused.get(use.id) or tools.get(use.name), state.intents.get(use.id)
            call = Call(use, tool, around, intent, uses[0].id)
            if answer := state.answers.get(use.id):
                call.recall(answer, recorded=True)
            elif answer := self._record.unsaved.get(use.id):
                call.recall(answer, recorded=False)
            call.is_parked = use.id in waiting and not call.answer
            call.is_begun = call.is_begun and not state.begins_again(use.id)
            calls.append(call)
        return calls
