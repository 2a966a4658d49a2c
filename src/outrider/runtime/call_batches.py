"""The calls of one reply, run in batches: side by side where their tools allow it.

Each is approved, its intent is stored, it runs, and its result is stored (`calls.py`). After a kill, `SessionState`
knows from the intents which calls may have run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from outrider.errors import LogError
from outrider.log.entries import Entry, Intent
from outrider.runtime.calls import CANCELLED, Call

MOST_AT_ONCE = 64
"""Calls of one reply that run at the same time; a reply with more runs in batches."""


async def run_calls(calls: Sequence[Call], tools: Iterable[str]) -> None:
    """Run calls until each has its result: concurrently, but a tool that is not concurrent alone and in order.

    When the caller is cancelled, each call still gets a result before CancelledError is raised. When the log fails,
    running calls are stopped before LogError is raised. After a denial that ends the run, no further call starts.
    """
    for batch in _batches([call for call in calls if not call.is_parked]):
        if any(call.ends_run for call in calls):
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
    is_asked = any(call.is_asked for call in batch)
    for together in [[call] for call in batch] if is_asked else [batch]:
        if is_asked:
            if any(call.ends_run for call in batch):
                together[0].skip()
            await together[0].ask()
        if around.watch or not all(call.is_begun and call.decided is None for call in together):
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
        if batch[0].around.watch or any(call.is_asked for call in batch):
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
