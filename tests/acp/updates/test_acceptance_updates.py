"""What the updates of tool calls promise, line by line."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from outrider.acp.updates.call_state import CallState, Diff, Location, Terminal, Text, Update
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.pacer import Delivery, UpdateTarget
from tests.acp.updates.observing import Clock, Observer, SlowReader, has_null, size, watched

STATE = CallState(
    "call_001",
    title="Reading configuration file",
    name="Read",
    kind="read",
    content=(Text("Progress: 0%"),),
    locations=(Location("/home/user/project/src/config.json", 10),),
    raw_input={"path": "/home/user/project/src/config.json"},
)
ID = STATE.id
EDIT = CallState(
    "edit",
    title="Edit src/server.py",
    kind="edit",
    content=(Diff("src/server.py", "    return a new line\n" * 30, "    return an old line\n" * 30),),
    locations=(Location("src/server.py", 12),),
)


def announced(**options: Any) -> Any:
    engine, observer, clock = watched(**options)
    engine.announce(STATE)
    engine.flush()
    observer.take()
    return engine, observer, clock


# 25: status only, content only, both, title, nothing


def test_an_announcement_has_every_field_that_has_a_value() -> None:
    engine, observer, _ = watched()
    engine.announce(CallState("c", title="Run", content=(Text("x"),)))
    engine.flush()
    [update] = observer.updates
    assert update.is_new
    assert update.changes == {"title": "Run", "kind": "other", "status": "pending", "content": (Text("x"),)}


def test_a_status_alone_is_an_id_and_a_status() -> None:
    engine, observer, clock = announced()
    engine.change(ID, status="in_progress")
    clock.advance(0.05)
    [update] = observer.updates
    assert msgspec.to_builtins(update) == {"id": ID, "is_new": False, "status": "in_progress"}


@pytest.mark.parametrize(
    "fields",
    [
        {"content": (Text("Progress: 50%"),)},
        {"title": "Reading"},
        {"locations": (Location("b"),)},
        {"status": "in_progress", "content": (Text("Progress: 50%"),)},
        {"raw_output": {"lines": 3}},
        {"content": ()},
        {"locations": ()},
    ],
    ids=str,
)
def test_what_changed_is_sent_and_nothing_else(fields: dict[str, Any]) -> None:
    engine, observer, clock = announced()
    engine.change(ID, **fields)
    clock.advance(1)
    assert observer.take() == [fields]


def test_nothing_changed_sends_nothing() -> None:
    engine, observer, clock = announced()
    same = msgspec.msgpack.decode(msgspec.msgpack.encode(STATE), type=CallState)
    assert same.content is not STATE.content
    engine.change(
        ID, **{name: getattr(same, name) for name in ("title", "content", "locations", "raw_input", "status")}
    )
    engine.change(ID)
    engine.announce(STATE)
    clock.advance(1)
    assert observer.take() == []
    assert engine.metrics.suppressed == 3


def test_there_and_back_before_it_was_sent_sends_nothing() -> None:
    engine, observer, clock = announced()
    engine.change(ID, title="Other")
    engine.change(ID, title=STATE.title)
    clock.advance(1)
    assert observer.take() == []


# 26: by value


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"content": (Text("aaaa"),)}, {"content": (Text("aaba"),)}),
        ({"content": (Diff("f", "one", "two"),)}, {"content": (Diff("f", "one", "owt"),)}),
        ({"content": (Text("x"),)}, {"content": (Terminal("x"),)}),
        ({"locations": (Location("f", 1),)}, {"locations": (Location("f", 2),)}),
        ({"raw_output": "A"}, {"raw_output": "B"}),
        ({"raw_output": {"n": 1}}, {"raw_output": {"n": True}}),
        ({"raw_output": [1]}, {"raw_output": [1.0]}),
    ],
    ids=str,
)
def test_a_change_of_the_same_length_is_sent(before: dict[str, Any], after: dict[str, Any]) -> None:
    engine, observer, clock = announced()
    engine.change(ID, **before)
    clock.advance(1)
    observer.take()
    engine.change(ID, **after)
    clock.advance(1)
    [sent] = observer.take()
    assert repr(sent) == repr(after)


def test_a_value_that_was_changed_in_place_is_sent() -> None:
    engine, observer, clock = announced()
    lines = [1]
    engine.change(ID, raw_output=lines)
    clock.advance(1)
    lines[0] = 2
    engine.change(ID, raw_output=lines)
    clock.advance(1)
    assert [update["raw_output"] for update in observer.take()][-1] == [2]
    assert observer.attempts == 3


def test_the_order_of_keys_is_no_difference() -> None:
    engine, observer, clock = announced(full=False)
    engine.change(ID, raw_output={"a": 1, "b": 2})
    clock.advance(1)
    observer.take()
    engine.change(ID, raw_output={"b": 2, "a": 1})
    clock.advance(1)
    assert observer.take() == []


# 27: failures, rapid changes, concurrent calls


def test_a_failed_send_is_sent_again_with_the_next_flush() -> None:
    engine, observer, _ = announced()
    observer.fails = True
    engine.change(ID, status="in_progress")
    engine.flush()
    engine.change(ID, title="Other")
    engine.flush()
    assert observer.take() == []
    observer.fails = False
    engine.flush()
    assert observer.take() == [{"status": "in_progress", "title": "Other"}]
    assert engine.metrics.failed == 2


def test_a_failed_send_is_tried_again_by_itself_and_less_often_each_time() -> None:
    engine, observer, clock = announced()
    observer.fails = True
    observer.attempts = 0
    engine.finish(ID, "completed")
    clock.advance(60)
    assert 5 < observer.attempts < 25
    observer.fails = False
    clock.advance(5)
    assert observer.states[ID].status == "completed"
    assert clock.pending == 0


@pytest.mark.parametrize("error", [OSError, ConnectionError, RuntimeError])
def test_one_call_that_cannot_be_sent_does_not_hold_up_the_others(error: type[Exception]) -> None:
    observer = Observer()

    def send(update: Update) -> int:
        if update.id == "broken":
            raise error("no")
        return observer.send(update)

    engine = Engine(UpdateTarget(send, clock=Clock().time, call_later=Clock().call_later))
    engine.announce(CallState("broken"))
    engine.announce(CallState("whole"))
    engine.finish("whole", "completed")
    assert observer.states["whole"].status == "completed"


def test_a_hundred_rapid_changes_become_a_few_messages() -> None:
    engine, observer, clock = announced()
    for number in range(100):
        engine.change(ID, content=(Text(f"Progress: {number}%"),), title=f"Step {number}")
        clock.advance(0.001)
    engine.finish(ID, "completed", raw_output={"done": True})
    sent = observer.take()
    assert len(sent) <= 4
    assert observer.states[ID] == msgspec.structs.replace(
        STATE, status="completed", content=(Text("Progress: 99%"),), title="Step 99", raw_output={"done": True}
    )
    assert engine.metrics.coalesced >= 95


async def test_fifty_concurrent_calls_end_each_in_its_own_state() -> None:
    observer = Observer()
    engine = Engine(UpdateTarget(observer.send), Delivery(interval=0.001))
    wanted: dict[str, CallState] = {}

    async def work(number: int) -> None:
        name = f"call_{number}"
        engine.announce(CallState(name, title=f"Call {number}"))
        engine.change(name, status="in_progress")
        for step in range(number % 7):
            engine.change(name, content=(Text(f"{number}: {step}"),), locations=[Location(f"f{number}", step + 1)])
            await asyncio.sleep(0.001 * (number % 3))
        status = ("completed", "failed")[number % 2]
        engine.finish(name, status, raw_output=number)
        steps = number % 7
        wanted[name] = CallState(
            name,
            f"Call {number}",
            status=status,
            content=(Text(f"{number}: {steps - 1}"),) if steps else (),
            locations=(Location(f"f{number}", steps),) if steps else (),
            raw_output=number,
        )

    await asyncio.gather(*map(work, range(50)))
    engine.close()
    assert observer.states == wanted


def test_what_waits_goes_first_and_in_the_order_in_which_it_first_changed() -> None:
    engine, observer, _ = watched()
    for name in "abc":
        engine.announce(CallState(name))
    engine.flush()
    assert [update.id for update in observer.updates] == ["a", "b", "c"]
    observer.updates.clear()
    engine.change("b", title="1")
    engine.change("a", title="2")
    engine.change("b", title="3")
    engine.change("c", status="in_progress")
    engine.flush()
    assert [update.id for update in observer.updates] == ["b", "a", "c"]
    engine.change("a", title="4")
    engine.announce(CallState("d"))
    engine.announce(CallState("e"))
    engine.finish("d", "completed")
    assert [update.id for update in observer.updates[3:]] == ["a", "d", "e", "d"], "announced in their order"
    engine.change("a", title="5")
    engine.change("b", title="6")
    engine.finish("a", "completed")
    assert [update.id for update in observer.updates[7:]] == ["b", "a"], "a ended after b had changed"


def test_a_slow_reader_is_spared_all_but_announcements_ends_and_flushes() -> None:
    receiver = SlowReader()
    receiver.read(slowly=True)
    engine, observer, clock = announced(receiver=receiver)
    engine.announce(CallState("second"))
    engine.change(ID, title="Other", status="in_progress")
    clock.advance(10)
    assert [update.id for update in observer.updates] == ["second"]
    engine.finish("second", "completed")
    assert [update.id for update in observer.updates] == ["second", "second"]
    assert (clock.pending, receiver.awaited) == (0, 1), "it is not asked again and again whether it has caught up"
    receiver.read(slowly=False)
    assert observer.take()[2:] == [{"title": "Other", "status": "in_progress"}]
    receiver.read(slowly=True)
    engine.change(ID, title="Another")
    engine.flush()
    assert observer.take() == [{"title": "Another"}]


# 28: the end


def test_completion_carries_content_and_locations_even_if_unchanged() -> None:
    engine, observer, _ = announced()
    engine.finish(ID, "completed")
    assert observer.take() == [{"status": "completed", "content": STATE.content, "locations": STATE.locations}]


LARGE = (Text("x" * 5_000),)


def test_large_content_is_not_sent_again_at_the_end() -> None:
    engine, observer, _ = announced()
    engine.change(ID, content=LARGE)
    engine.flush()
    observer.take()
    engine.finish(ID, "completed", content=LARGE)
    assert observer.take() == [{"status": "completed", "locations": STATE.locations}]
    assert observer.states[ID].content == LARGE


def test_large_content_is_sent_again_to_those_who_want_it() -> None:
    engine, observer, _ = announced(full=True)
    engine.change(ID, content=LARGE)
    engine.flush()
    observer.take()
    engine.finish(ID, "completed")
    assert observer.take()[0]["content"] == LARGE


def test_large_content_that_changed_is_sent_at_the_end() -> None:
    engine, observer, _ = announced()
    engine.change(ID, content=LARGE)
    engine.flush()
    observer.take()
    engine.finish(ID, "failed", content=(*LARGE, Text("why")))
    assert observer.take()[0]["content"] == (*LARGE, Text("why"))


def test_a_call_that_ends_at_once_is_announced_without_its_end() -> None:
    """Some editors show the content of updates alone."""
    engine, observer, _ = watched()
    engine.announce(STATE)
    engine.change(ID, status="in_progress")
    engine.finish(ID, "completed", content=LARGE)
    announcement, end = observer.updates
    assert (announcement.is_new, announcement.status, announcement.content) == (True, "in_progress", STATE.content)
    assert end.changes == {"status": "completed", "content": LARGE, "locations": STATE.locations}


def test_cancelled_calls_end_with_the_reason() -> None:
    engine, observer, clock = announced()
    engine.announce(CallState("over"))
    engine.finish("over", "completed")
    engine.announce(CallState("printing"))
    engine.append("printing", "half a line")
    engine.flush()
    observer.take()
    engine.end_open_calls("The person cancelled.", "cancelled")
    assert [(update.id, update.status) for update in observer.updates] == [(ID, "failed"), ("printing", "failed")]
    assert observer.states[ID].content == (*STATE.content, Text("The person cancelled."))
    assert observer.states["printing"].content == (Text("half a line"), Text("The person cancelled."))
    assert engine.state(ID) is None
    clock.advance(1)
    assert clock.pending == 0


def test_nothing_comes_after_a_final_state() -> None:
    engine, observer, clock = announced()
    engine.change(ID, title="waits")
    engine.finish(ID, "completed", title="Done")
    observer.take()
    assert not engine.change(ID, status="in_progress")
    assert not engine.change(ID, title="late")
    assert not engine.append(ID, "late")
    assert not engine.finish(ID, "failed")
    assert not engine.announce(STATE)
    engine.end_open_calls("crash")
    engine.flush()
    clock.advance(1)
    assert observer.take() == []
    assert engine.metrics.refused == 5


def test_a_backward_status_is_refused_and_the_rest_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    engine, observer, _ = announced()
    engine.change(ID, status="in_progress")
    engine.flush()
    observer.take()
    with caplog.at_level("DEBUG", "outrider.acp.updates"):
        assert not engine.change(ID, status="pending", title="Other")
    engine.flush()
    assert observer.take() == [{"title": "Other"}]
    assert engine.metrics.refused == 1
    assert "cannot go from in_progress back to pending" in caplog.text


# 29: full mode, no nulls


def test_in_full_mode_every_update_is_complete() -> None:
    engine, observer, _ = announced(full=True)
    engine.change(ID, status="in_progress")
    engine.flush()
    engine.finish(ID, "completed", raw_output="ok")
    assert len(observer.updates) == 2
    for update in observer.updates:
        assert set(update.changes) >= {"title", "name", "kind", "status", "content", "locations", "raw_input"}
    assert observer.last == observer.states
    assert observer.last[ID].raw_output == "ok"


def test_full_mode_clears_too_and_sends_nothing_for_nothing() -> None:
    engine, observer, clock = announced(full=True)
    engine.change(ID, title=STATE.title)
    clock.advance(1)
    assert observer.take() == []
    engine.change(ID, content=[])
    clock.advance(1)
    assert observer.take()[0]["content"] == ()


@pytest.mark.parametrize("full", [False, True])
def test_there_is_no_null_in_any_update(full: bool) -> None:
    engine, observer, _ = announced(full=full)
    engine.change(ID, title=None, status="in_progress", raw_output=None, raw_input=UNSET)
    engine.flush()
    engine.finish(ID, "completed", content=None, raw_output=None)
    assert len(observer.updates) == 2
    assert not any(has_null(update) or b"null" in msgspec.json.encode(update) for update in observer.updates)


# 30: bytes


def test_metrics_say_how_much_a_status_saves() -> None:
    engine, _, _ = announced()
    begun = engine.metrics.bytes_wanted, engine.metrics.bytes_sent
    engine.change(ID, status="in_progress")
    engine.flush()
    wanted, sent = engine.metrics.bytes_wanted - begun[0], engine.metrics.bytes_sent - begun[1]
    assert 0 < sent < wanted
    told = engine.metrics.as_dict()
    assert told["fields"]["content"]["saved"] > 0
    assert told["bytes"]["saved"] == told["bytes"]["wanted"] - told["bytes"]["sent"]


def test_a_status_of_an_edit_saves_85_percent() -> None:
    engine, _, _ = watched()
    engine.announce(EDIT)
    engine.flush()
    before = engine.metrics.bytes_wanted, engine.metrics.bytes_sent
    engine.change("edit", status="in_progress")
    engine.flush()
    assert engine.metrics.bytes_sent - before[1] <= 0.15 * (engine.metrics.bytes_wanted - before[0])


def test_a_typical_run_saves_two_thirds() -> None:
    engine, observer, clock = watched()
    engine.announce(EDIT)
    engine.change("edit", status="in_progress")
    engine.finish("edit", "completed")
    engine.announce(STATE)
    engine.change(ID, status="in_progress")
    engine.finish(ID, "completed", content=(Text("a line of the file\n" * 100),))
    engine.announce(CallState("test", title="make test", kind="execute", raw_input={"command": "make test"}))
    engine.change("test", status="in_progress")
    for number in range(50):
        engine.append("test", f"tests/test_{number}.py ....................\n")
        clock.advance(0.1)
    engine.finish("test", "completed")
    assert engine.metrics.share_saved >= 2 / 3
    assert observer.states["test"].content[0].text.count("\n") == 50  # type: ignore[union-attr]
    assert "% of what whole calls would have taken" in str(engine.metrics)


def test_a_flood_is_live_and_costs_its_size_and_4_kb_a_second() -> None:
    engine, observer, clock = watched()
    engine.announce(CallState(ID, status="in_progress"))
    engine.flush()
    lines = [f"{number:>79}\n" for number in range(2_000)]
    seen_after = 0.0
    for line in lines:
        engine.append(ID, line)
        clock.advance(0.01)
        if observer.states[ID].content and not seen_after:
            seen_after = clock.now
    assert seen_after < 0.1
    shown = observer.states[ID].content[0]
    assert isinstance(shown, Text)
    assert shown.text.startswith("… ")
    assert len(shown.text.encode()) <= 960
    assert " lines above\n" in shown.text
    assert int(shown.text.rsplit()[-1]) > 1_900
    assert len(observer.updates) > 30
    engine.finish(ID, "completed", content=(Text("".join(lines)),))
    assert observer.content_bytes[ID] <= size(observer.states[ID].content) + 4_096 * (clock.now + 1)


@pytest.mark.parametrize("gap", [1.0, 0.3, 0.1])
def test_each_line_of_a_slow_command_is_shown_within_half_a_second(gap: float) -> None:
    """However much was printed before: 40 kB here, in one moment."""
    engine, observer, clock = watched()
    engine.announce(CallState(ID, status="in_progress"))
    engine.append(ID, "a line of the flood before\n" * 1_500)
    waited, printed = [], {}
    for tick in range(round(30 / 0.05)):
        if tick % round(gap / 0.05) == 0:
            printed[f"step {tick}\n"] = clock.now
            engine.append(ID, f"step {tick}\n")
        clock.advance(0.05)
        shown = observer.states[ID].content[0].text if observer.states[ID].content else ""  # type: ignore[union-attr]
        waited += [clock.now - printed.pop(line) for line in list(printed) if line in shown]
    assert len(waited) >= 30 / gap - 5
    assert max(waited) < 0.401, "and 0.1 for the reader of its output"


def test_live_output_is_told_as_the_end_will_be() -> None:
    engine, observer, clock = watched(format_output=lambda text: f"<{text}>")
    engine.announce(CallState(ID))
    engine.append(ID, "# no title\n")
    clock.advance(0.1)
    assert observer.states[ID].content == (Text("<# no title\n>"),)
    engine.end_open_calls("Cancelled.")
    assert observer.states[ID].content == (Text("<# no title\n>"), Text("Cancelled."))


def test_the_last_words_before_a_silence_are_shown() -> None:
    engine, observer, clock = watched()
    engine.announce(CallState(ID, status="in_progress"))
    for number in range(40):
        engine.append(ID, f"{number:>79}\n")
        clock.advance(0.06)
    engine.append(ID, "Listening on port 8000\n")
    clock.advance(0.5)
    assert observer.states[ID].content[0].text.endswith("Listening on port 8000\n")  # type: ignore[union-attr]


def test_what_is_printed_is_sent_once_where_it_can_be_appended() -> None:
    engine, observer, clock = watched(appends=True)
    engine.announce(CallState(ID, content=(Terminal("t"),)))
    for number in range(100):
        engine.append(ID, f"{number}\n")
        clock.advance(0.01)
    engine.append(ID, "the end")
    engine.finish(ID, "completed", exit_code=3)
    assert observer.output[ID] == "".join(f"{number}\n" for number in range(100)) + "the end"
    *rest, before, end = observer.take()
    assert "output" in before
    assert end == {"status": "completed", "content": (Terminal("t"),), "exit_code": 3}
    assert len(rest) < 30


def test_a_flood_is_appended_in_pieces() -> None:
    engine, observer, _ = watched(appends=True)
    engine.announce(CallState(ID))
    engine.append(ID, "é" * 200_000)
    engine.flush()
    assert observer.output[ID] == "é" * 200_000
    assert max(len(update.get("output", "")) for update in observer.take()) == 65_536
