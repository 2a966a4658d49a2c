"""Whatever happens to calls, in whatever order and with whatever failures, an observer ends with what it should see."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from outrider.acp.updates.call_state import (
    FINAL,
    CallState,
    Diff,
    File,
    Location,
    Terminal,
    Text,
    Update,
    is_transition,
)
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.pacer import Delivery, UpdateTarget
from outrider.acp.updates.tracked_call import SHOWN_BYTES
from outrider.conversation.messages import AttachmentBlock
from outrider.text.terminal import rendered
from tests.acp.updates.observing import Clock, Observer, SlowReader, size
from tests.lengths import examples

IDS = ("a", "b", "c")
WORDS = st.sampled_from(("", "x", "y", "ä\n", "two\nlines\n"))
ITEMS = st.sampled_from(
    (
        Text("one"),
        Text("two"),
        Text("ö" * 300),
        Diff("a.py", "new", "old"),
        Diff("a.py", "new"),
        Terminal("t"),
        File(AttachmentBlock("0" * 64, "image/png", 9)),
    )
)
CONTENTS = st.lists(ITEMS, max_size=2).map(tuple)
LOCATIONS = st.lists(st.builds(Location, st.sampled_from(("a", "b")), st.none() | st.integers(1, 2)), max_size=2)
VALUES = st.sampled_from((1, True, "1", [], [1], {"a": 1}, {"a": True}, {"a": {"b": None}}))
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "title": WORDS,
    "name": WORDS,
    "kind": st.sampled_from(("read", "other")),
    "content": CONTENTS,
    "locations": LOCATIONS.map(tuple),
    "raw_input": VALUES,
    "raw_output": VALUES,
}
CHANGES = st.fixed_dictionaries({}, optional=FIELDS)
PRINTED = st.sampled_from(("one line\n", "no end", "é" * 90 + "\n", "\x00" * 50, "80 characters\n" * 40, "z" * 3_000))
STATUSES = st.sampled_from(("pending", "in_progress"))
ENDS = st.sampled_from(tuple(sorted(FINAL)))


class Calls(RuleBasedStateMachine):
    """Three calls at once. `wanted` is what an observer should see of each, kept by the rules alone."""

    @initialize(
        appends=st.booleans(),
        full=st.booleans(),
        interval=st.sampled_from((0, 0.01, 0.05, 0.5)),
        repeat_limit=st.sampled_from((0, 300)),
    )
    def begin(self, appends: bool, full: bool, interval: float, repeat_limit: int) -> None:
        self.clock, self.observer = Clock(), Observer()
        self.appends, self.full = appends, full
        self.receiver = SlowReader()
        self.is_flushing = False
        self.engine = Engine(
            UpdateTarget(self.send, self.receiver, self.clock.time, self.clock.call_later),
            Delivery(appends, full, repeat_limit, interval),
        )
        self.wanted: dict[str, CallState] = {}
        self.printed: dict[str, str] = {}
        self.exits: dict[str, int | None] = {}
        self.bounded: set[str] = set()
        """Calls whose content was only printed, and ends as what was printed."""

    def send(self, update: Update) -> int:
        if self.receiver.is_congested and not self.is_flushing:
            assert update.is_new or self.wanted[update.id].status in FINAL, "who reads slowly is spared all but these"
        return self.observer.send(update)

    def is_live(self, call: str) -> bool:
        return call in self.wanted and self.wanted[call].status not in FINAL

    @rule(call=st.sampled_from(IDS), fields=CHANGES, status=STATUSES)
    def announce(self, call: str, fields: dict[str, Any], status: Any) -> None:
        state = CallState(call, status=status, **fields)
        before = self.wanted.get(call)
        if before is None:
            self.wanted[call] = state
            self.bounded.add(call)
            assert self.engine.announce(state)
            return
        taken = self.is_live(call) and is_transition(before.status, status)
        if self.is_live(call):
            self.bounded.discard(call)
            kept = {"raw_input": before.raw_input, "raw_output": before.raw_output} | fields
            self.wanted[call] = replace(state, **kept, status=status if taken else before.status)
        assert self.engine.announce(state) == taken

    @rule(call=st.sampled_from(IDS), fields=CHANGES, status=st.none() | STATUSES)
    def change(self, call: str, fields: dict[str, Any], status: Any) -> None:
        if self.is_live(call):
            if "content" in fields or self.full:
                self.bounded.discard(call)
            before = self.wanted[call].status
            reached = status if status and is_transition(before, status) else before
            self.wanted[call] = replace(self.wanted[call], **fields, status=reached)
            accepted = self.engine.change(call, **fields, status=status)
            assert accepted == (status is None or reached == status)
        else:
            refused = self.engine.metrics.refused
            assert not self.engine.change(call, **fields, status=status)
            assert self.engine.metrics.refused == refused + 1

    @rule(call=st.sampled_from(IDS), text=PRINTED)
    def prints(self, call: str, text: str) -> None:
        accepted = self.engine.append(call, text)
        assert accepted == self.is_live(call)
        if accepted:
            self.printed[call] = self.printed.get(call, "") + text

    @rule(call=st.sampled_from(IDS), status=ENDS, fields=CHANGES, code=st.none() | st.integers(0, 1))
    def finish(self, call: str, status: Any, fields: dict[str, Any], code: int | None) -> None:
        if not self.is_live(call):
            assert not self.engine.finish(call, status, exit_code=code, **fields)
            return
        if "content" in fields:
            self.bounded.discard(call)
        end = self.end_of(call) | fields | {"status": self.sayable(status)}
        self.wanted[call] = replace(self.wanted[call], **end)
        if self.appends and (call in self.printed or code is not None):
            self.exits[call] = code
        assert self.engine.finish(call, status, exit_code=code, **fields)
        if not self.observer.fails:
            assert self.observer.states[call] == self.wanted[call], "an end is never delayed"
            self.check_bound(call)

    @precondition(lambda self: sum(map(self.is_live, IDS)) > 1)
    @rule(status=ENDS)
    def end_open_calls(self, status: Any) -> None:
        for call in filter(self.is_live, IDS):
            content = (*self.end_of(call)["content"], Text("because"))
            self.wanted[call] = replace(self.wanted[call], status=self.sayable(status), content=content)
            if call in self.printed and self.appends:
                self.exits[call] = None
        self.engine.end_open_calls("because", status)

    @rule(seconds=st.sampled_from((0.01, 0.05, 0.6, 6.0)))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        if seconds > 5 and not self.observer.fails and not self.receiver.is_congested:
            self.check_fields()

    @rule(fails=st.booleans())
    def reachable(self, fails: bool) -> None:
        self.observer.fails = fails

    @rule(congested=st.booleans())
    def reads_slowly(self, congested: bool) -> None:
        self.receiver.read(slowly=congested)
        assert self.receiver.awaited <= 1

    @rule()
    def flush(self) -> None:
        self.is_flushing = True
        self.engine.flush()
        self.is_flushing = False
        if not self.observer.fails:
            self.check_fields()

    @invariant()
    def nothing_is_sent_that_the_metrics_do_not_know(self) -> None:
        if hasattr(self, "engine"):
            assert self.engine.metrics.updates_sent == len(self.observer.updates)
            assert self.clock.pending <= 1, "one timer for all"

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.observer.fails = False
            self.receiver.read(slowly=False)
            self.flush()
            self.end_open_calls("cancelled")
            self.check_fields()
            assert self.observer.exits == self.exits
            for call in self.wanted:
                self.check_bound(call)
            self.engine.close()
            assert not self.clock.pending

    def sayable(self, status: str) -> str:
        return "failed" if status == "cancelled" else status

    def end_of(self, call: str) -> dict[str, Any]:
        content = self.wanted[call].content
        if not self.appends and call in self.printed:
            content += (Text(rendered(self.printed[call])),)
        return {"content": content}

    def check_fields(self) -> None:
        """The observer knows what it should, of every call; of live output in content, some end of it."""
        assert self.observer.states.keys() == self.wanted.keys()
        for call, wanted in self.wanted.items():
            self.check_state(self.observer.states[call], wanted)
            if self.full:
                self.check_state(self.observer.last[call], wanted)
        if self.appends:
            assert self.observer.output == self.printed

    def check_state(self, seen: CallState, wanted: CallState) -> None:
        if self.is_live(wanted.id) and not self.appends and wanted.id in self.printed:
            extra = seen.content[len(wanted.content) :]
            assert len(extra) <= 1
            assert all(isinstance(item, Text) and is_end(item.text, rendered(self.printed[seen.id])) for item in extra)
            seen = replace(seen, content=seen.content[: len(wanted.content)])
        assert repr(seen) == repr(wanted), "as values: 1 is not true"

    def check_bound(self, call: str) -> None:
        if call in self.bounded:
            final = size(self.wanted[call].content)
            assert self.observer.content_bytes.get(call, 0) <= 3 * final + SHOWN_BYTES + 4_096 * self.clock.now


def is_end(shown: str, printed: str) -> bool:
    """Whether a text is an end of what was printed until some moment, after a note of what is above it."""
    if not shown.startswith("…"):
        return printed.startswith(shown)
    note, _, rest = shown.partition(" above\n")
    text = rest if note.endswith(("line", "lines")) else shown[1:]
    return text in printed


Calls.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40)
TestCalls = Calls.TestCase
