"""The update engine: bad input, a sender that calls back into it, and its metrics."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.acp.updates.call_state import CallState, Location, Text, Update
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.pacer import INTERVAL, UpdateTarget
from outrider.coding.config.settings import AcpSettings
from tests.acp.updates.observing import Clock, Observer, watched


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"titel": "x"}, "a call has no field 'titel'; it has: title, name, kind"),
        ({"title": "new", "content": ["text"]}, "content items must be Text, File, Diff or Terminal, not str"),
        ({"title": "new", "locations": ["f"]}, "locations must be Location, not str"),
        ({"title": 3}, "title of a call must be a string, not int"),
        ({"title": "new", "raw_output": object()}, "raw_output cannot be JSON"),
        ({"title": "new", "status": "done"}, "unknown status 'done'; use one of: pending, in_progress"),
    ],
)
def test_bad_input_is_told_and_changes_nothing(fields: dict[str, Any], sentence: str) -> None:
    engine, observer, _ = watched()
    engine.announce(CallState("c", "old"))
    engine.flush()
    observer.take()
    with pytest.raises((TypeError, ValueError), match=sentence):
        engine.change("c", **fields)
    engine.flush()
    assert observer.take() == []
    assert engine.state("c") == CallState("c", "old")


def test_a_call_needs_an_id_and_an_end_that_is_one() -> None:
    engine, observer, _ = watched()
    with pytest.raises(ValueError, match="a call needs an id"):
        engine.announce(CallState(""))
    with pytest.raises(TypeError, match="Terminal, not str"):
        engine.announce(CallState("c", content=("text",)))  # type: ignore[arg-type]
    engine.announce(CallState("c"))
    with pytest.raises(ValueError, match="a call cannot end as pending; use one of: cancelled, completed, failed"):
        engine.finish("c", "pending")
    engine.flush()
    assert len(observer.updates) == 1


def test_a_call_that_nobody_announced_is_refused() -> None:
    engine, observer, _ = watched()
    assert not engine.change("c", title="x")
    assert not engine.append("c", "x")
    assert not engine.finish("c", "failed")
    assert observer.attempts == 0
    assert engine.metrics.refused == 3


def test_text_that_cannot_be_encoded_is_sent_with_a_replacement() -> None:
    engine, observer, _ = watched()
    engine.announce(CallState("c", "\ud800", content=(Text("\ud800"),), raw_input={"\ud800": "\ud800"}))
    engine.append("c", "\udcff\n")
    engine.flush()
    assert observer.states["c"].title == "\ufffd"
    assert observer.states["c"].raw_input == {"\ufffd": "\ufffd"}
    assert observer.states["c"].content == (Text("\ufffd"), Text("\ufffd\n"))


def test_a_change_that_is_made_while_another_is_written_is_not_lost() -> None:
    observer, clock = Observer(), Clock()

    def send(update: Update) -> int:
        engine.flush()
        if update.title == "one":
            engine.change("c", title="two")
        return observer.send(update)

    engine = Engine(UpdateTarget(send, clock=clock.time, call_later=clock.call_later))
    engine.announce(CallState("c"))
    engine.flush()
    engine.change("c", title="one")
    engine.flush()
    clock.advance(0.05)
    assert observer.states["c"].title == "two"
    assert len(observer.updates) == 3


def test_an_announcement_that_failed_comes_before_anything_else_of_the_call() -> None:
    engine, observer, _ = watched(appends=True)
    observer.fails = True
    engine.announce(CallState("c", "Run", content=(Text("x"),)))
    engine.append("c", "printed")
    engine.finish("c", "completed", exit_code=0)
    observer.fails = False
    engine.flush()
    announcement, printed, end = observer.updates
    assert (announcement.is_new, announcement.status) == (True, "in_progress")
    assert printed.changes == {"output": "printed"}
    assert end.changes == {"status": "completed", "content": (Text("x"),), "exit_code": 0}


def test_calls_are_announced_in_their_order_after_a_failure_too() -> None:
    engine, observer, _ = watched()
    observer.fails = True
    for name in "ab":
        engine.announce(CallState(name))
    engine.finish("a", "completed")
    observer.fails = False
    engine.flush()
    assert [update.id for update in observer.updates if update.is_new] == ["a", "b"]


def test_a_call_may_be_announced_at_its_end() -> None:
    engine, observer, clock = watched()
    assert engine.announce(CallState("c", "Read", status="cancelled", content=(Text("x"),)))
    assert observer.states["c"] == CallState("c", "Read", status="failed", content=(Text("x"),))
    assert not engine.change("c", title="late")
    assert clock.pending == 0


def test_a_change_to_a_final_status_is_an_end() -> None:
    engine, observer, _ = watched()
    engine.announce(CallState("c", locations=(Location("f"),)))
    engine.flush()
    observer.take()
    assert engine.change("c", status="failed", content=[Text("why")])
    assert observer.take() == [{"status": "failed", "content": (Text("why"),), "locations": (Location("f"),)}]
    assert not engine.change("c", title="late")


def test_a_short_pause_in_the_output_does_not_cost_a_message_each() -> None:
    engine, observer, clock = watched(appends=True)
    engine.announce(CallState("c"))
    for _ in range(100):
        engine.append("c", ".")
        clock.advance(0.02)
    clock.advance(1)
    assert observer.output["c"] == "." * 100
    assert len(observer.updates) <= 12


def test_closing_ends_the_timer_and_keeps_what_waits_for_a_flush() -> None:
    engine, observer, clock = watched()
    engine.announce(CallState("c"))
    engine.change("c", title="waits")
    engine.close()
    assert clock.pending == 0
    engine.flush()
    assert observer.states["c"].title == "waits"


def test_with_an_interval_of_0_each_change_is_written_at_once() -> None:
    engine, observer, clock = watched(interval=0)
    engine.announce(CallState("c"))
    engine.change("c", title="one")
    engine.change("c", title="two", status="in_progress")
    assert observer.take()[1:] == [{"title": "one"}, {"title": "two", "status": "in_progress"}]
    assert engine.metrics.coalesced == 0
    observer.fails = True
    observer.attempts = 0
    engine.change("c", title="three")
    clock.advance(60)
    assert observer.attempts < 25, "what fails is not tried again without a pause"
    observer.fails = False
    clock.advance(5)
    assert observer.states["c"].title == "three"


@pytest.mark.parametrize("interval", [0.01, 0.05, 0.5])
def test_changes_wait_for_each_other_as_long_as_it_is_set(interval: float) -> None:
    engine, observer, clock = watched(interval=interval)
    engine.announce(CallState("c"))
    clock.advance(interval)
    observer.take()
    engine.change("c", title="one")
    clock.advance(interval * 0.6)
    engine.change("c", title="two", status="in_progress")
    assert observer.take() == []
    clock.advance(interval * 0.5)
    assert observer.take() == [{"title": "two", "status": "in_progress"}]


def test_the_interval_of_the_settings_is_that_of_the_engine() -> None:
    assert AcpSettings().update_interval == INTERVAL


def test_metrics_count_what_whole_calls_would_have_taken() -> None:
    engine, observer, _ = watched()
    engine.announce(CallState("c", "Read", content=(Text("x" * 500),)))
    engine.flush()
    for number in range(10):
        engine.change("c", title=f"Read {number}")
    engine.flush()
    engine.finish("c", "completed")
    told = engine.metrics.as_dict()
    assert told["updates"] == {"wanted": 12, "sent": 3}
    assert 12 * 500 < told["fields"]["content"]["wanted"] < 12 * 700
    assert 2 * 500 < told["fields"]["content"]["sent"] < 2 * 700
    assert told["coalesced"] == 9
    assert told["bytes"]["sent"] == engine.metrics.bytes_sent
    assert engine.metrics.as_dict() == told, "asking changes nothing"
    assert observer.updates


def test_metrics_tell_patterns_rates_and_the_time_that_detecting_took() -> None:
    engine, _, clock = watched()
    for name in "ab":
        engine.announce(CallState(name, content=(Text("x"),)))
    clock.advance(0.1)
    engine.change("a", status="in_progress")
    engine.change("b", content=(Text("y"),))
    clock.advance(3)
    engine.finish("a", "completed", content=(Text("z"),))
    told = engine.metrics.as_dict()
    assert told["patterns"] == {"call": 2, "status": 1, "content": 1, "status+content": 1}
    assert told["rate"] == {"busy_seconds": 2, "mean": 2.5, "most": 4}
    assert 0 < told["seconds_detecting"] < 1


def test_looking_for_a_change_and_for_a_difference_both_count_as_detecting() -> None:
    engine, _, _ = watched()
    engine.announce(CallState("c"))
    engine.flush()
    spent = [engine.metrics.detecting]
    engine.change("c", title="one")
    spent.append(engine.metrics.detecting)
    engine.flush()
    spent.append(engine.metrics.detecting)
    assert 0 < spent[0] < spent[1] < spent[2]
