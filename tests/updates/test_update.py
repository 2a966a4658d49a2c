"""Updates: built with a check, merged so that nothing is lost, applied as the specification says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from outrider.updates.state import FINAL, CallState, Location, Text, is_step
from outrider.updates.update import Update, merged
from tests.updates.observing import applied

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "title": st.sampled_from(("", "one", "two")),
    "name": st.sampled_from(("", "Read")),
    "kind": st.sampled_from(("read", "other")),
    "status": st.sampled_from(("pending", "in_progress", "completed")),
    "content": st.lists(st.builds(Text, st.sampled_from("xyz")), max_size=2).map(tuple),
    "locations": st.lists(st.builds(Location, st.sampled_from("pq"), st.integers(1, 2)), max_size=2).map(tuple),
    "raw_input": st.sampled_from((1, {"a": 1}, None)),
    "raw_output": st.sampled_from((1, {"a": 1}, "text")),
}
UPDATES = st.builds(
    lambda new, fields, output: Update("c", new, **fields, **({"output": output} if output else {})),
    st.booleans(),
    st.fixed_dictionaries({}, optional=FIELDS),
    st.sampled_from(("", "printed", "more")),
)


def test_a_builder_has_what_was_set_and_nothing_else() -> None:
    update = Update.of("c").status("completed").append(Text("a")).append(Text("b")).locations([Location("f")]).build()
    assert update.changes == {"status": "completed", "content": (Text("a"), Text("b")), "locations": (Location("f"),)}
    assert not update.is_new


def test_every_field_can_be_built() -> None:
    update = Update.of("c").title("t").name("n").kind("read").raw_input({}).raw_output([]).content([]).build()
    assert update == Update("c", title="t", name="n", kind="read", raw_input={}, raw_output=[], content=())


def test_appending_to_a_known_state_keeps_what_it_shows() -> None:
    before = CallState("c", content=(Text("a"),))
    assert Update.of("c", before).append(Text("b")).build().content == (Text("a"), Text("b"))
    assert Update.of("c", before).content([]).append(Text("b")).build().content == (Text("b"),)


@pytest.mark.parametrize(
    ("builder", "sentence"),
    [
        (Update.of("").status("pending"), "needs the id of its call"),
        (Update.of("c"), "changes nothing"),
        (Update.of("c").status("done"), "there is no status 'done'; a call is one of: pending"),  # type: ignore[arg-type]
        (Update.of("c", "in_progress").status("pending"), "cannot go back from in_progress to pending"),
        (Update.of("c", "completed").status("failed"), "is completed, and nothing comes after"),
        (Update.of("c", CallState("c", status="failed")).title("late"), "is failed, and nothing comes after"),
        (Update.of("c").title(None), "title of call c has no value"),  # type: ignore[arg-type]
        (Update.of("c").content(["text"]), "content of call c has a str; allowed: Text, File, Diff, Terminal"),  # type: ignore[list-item]
        (Update.of("c").locations(["f"]), "locations of call c has a str; allowed: Location"),  # type: ignore[list-item]
    ],
)
def test_a_builder_says_what_is_wrong(builder: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        builder.build()


@given(UPDATES, UPDATES)
def test_merged_updates_do_what_both_did(first: Update, second: Update) -> None:
    state = CallState("c", "before", content=(Text("before"),), raw_input=0)
    together = merged(first, second)
    assert applied(state, together) == applied(applied(state, first), second)
    printed = "".join(update.output for update in (first, second) if update.output is not UNSET)
    assert (together.output or "") == printed


@given(UPDATES, UPDATES, UPDATES)
def test_it_does_not_matter_which_are_merged_first(first: Update, second: Update, third: Update) -> None:
    assert merged(merged(first, second), third) == merged(first, merged(second, third))


@given(UPDATES)
def test_an_update_merged_with_itself_changes_the_same(update: Update) -> None:
    assert applied(CallState("c"), merged(update, update)) == applied(CallState("c"), update)


def test_updates_of_two_calls_cannot_be_one() -> None:
    with pytest.raises(ValueError, match="a and b, cannot be one"):
        merged(Update("a", title="x"), Update("b", title="x"))


def test_an_update_of_a_call_that_was_never_announced_is_an_error() -> None:
    with pytest.raises(ValueError, match="announce the call first"):
        applied(None, Update("a", title="x"))
    with pytest.raises(ValueError, match="whoever knew call b"):
        applied(CallState("b"), Update("a", title="x"))


def test_text_that_no_encoding_knows_is_replaced_before_it_can_do_harm() -> None:
    assert Text("a\ud800").text == "a\ufffd"
    assert Location("caf\udce9").path == "caf\ufffd"


def test_a_status_goes_forward_and_nothing_comes_after_the_end() -> None:
    assert all(is_step("pending", after) for after in ("pending", "in_progress", *FINAL))
    assert not is_step("in_progress", "pending")
    assert not any(is_step(before, after) for before in FINAL for after in ("pending", "in_progress", *FINAL))
