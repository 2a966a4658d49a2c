"""Whatever happens to sub-agents in the background, and wherever replay begins: each end is told exactly once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.log.background import ended
from outrider.log.entries import BackgroundTask, Entry, MessageEntry
from outrider.log.pending_write import PendingWrite
from outrider.log.state import SessionState, start_of_tail
from outrider.runtime.journal import Journal
from outrider.runtime.limits import Limits
from outrider.runtime.record import KEPT_TASKS, SessionRecord
from outrider.runtime.step import Await, Deliver, Stop, Terms, next_step
from outrider.tools.threads import Threads
from tests.lengths import examples

TASKS = 2
steps = st.lists(
    st.tuples(st.sampled_from(["start", "end", "deliver", "reply", "say", "kill"]), st.integers(0, TASKS - 1)),
    max_size=40,
)


class Kept(Journal):
    """A journal that keeps the entries in a list."""

    def __init__(self) -> None:
        super().__init__("s", MemoryStore())
        self.entries: list[Entry] = []

    def write(self, *entries: Entry) -> PendingWrite:
        self.entries += entries
        return super().write(*entries)


def record_of(entries: list[Entry]) -> SessionRecord:
    """What a process that opens the session begins with: the tail from the newest reply on."""
    replies = [at for at, each in enumerate(entries) if start_of_tail([each]) is not None]
    record = SessionRecord((), Kept(), Threads(), lambda event: None, Path())
    assert isinstance(record.journal, Kept)
    record.journal.entries = entries
    record.state = SessionState(entries[replies[-1] if replies else 0 :])
    record.tasks = dict(record.state.background)
    return record


async def _play(chosen: list[tuple[str, int]]) -> None:
    record, ends = record_of([]), Counter[str]()
    await record.append(MessageEntry(Message.user("go")))
    for step, number in chosen:
        name = f"{number}" * 32
        known = record.tasks.get(name)
        if step == "start" and (known is None or known.status):
            report = known.report if known else ""
            await record.append(BackgroundTask(name, "c", "Helper", "a task", report=report))
        elif step == "end" and known and not known.status:
            ends[name] += 1
            await record.append(ended(known, "done", f"end {ends[name]} of {name}"))
        elif step == "deliver":
            await record.deliver()
        elif step == "reply":
            reply = MessageEntry(Message.assistant("Noted."))
            await record.append(reply, beside=record.restated())
        elif step == "say":
            await record.deliver(said=[Message.user("and?")])
        assert isinstance(record.journal, Kept)
        resumed = record_of(record.journal.entries)
        assert resumed.state.background == record.state.background
        if step == "kill":
            record = resumed
        _check_next(record.state)
    await record.deliver()
    assert isinstance(record.journal, Kept)
    said = "\n".join(each.message.text for each in record.journal.entries if isinstance(each, MessageEntry))
    for name, count in ends.items():
        for number in range(1, count + 1):
            assert said.count(f"end {number} of {name}") == 1
    assert record.state.reports == []


def _check_next(state: SessionState) -> None:
    """After an answer something is told, or waited for, if and only if there is something."""
    if state.history.last is None or state.history.last.role != "assistant":
        return
    for awaits in (True, False):
        step = next_step(state, Terms(Limits(), awaits=awaits))
        wanted = Deliver() if state.reports else Await() if awaits and state.working else Stop("done")
        assert step == wanted


@given(steps)
@settings(max_examples=examples(200), deadline=None)
def test_each_end_is_told_once(chosen: list[tuple[str, int]]) -> None:
    asyncio.run(_play(chosen))


async def test_only_the_newest_that_have_ended_are_stored_again() -> None:
    record = record_of([])
    for number in range(KEPT_TASKS + 5):
        await record.append(BackgroundTask(f"{number:032}", "c", "Helper", "a task", "done", is_told=True))
    await record.append(BackgroundTask("f" * 32, "c", "Helper", "a task"))
    stored = [each.session for each in record.restated() if isinstance(each, BackgroundTask)]
    assert len(stored) == KEPT_TASKS + 1
    assert stored[-2:] == [f"{KEPT_TASKS + 4:032}", "f" * 32]
