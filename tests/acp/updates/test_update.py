"""Updates: applied as the specification says; text that can always be sent; statuses that go forward."""

from __future__ import annotations

import pytest

from outrider.acp.updates.call_state import FINAL, CallState, Location, Text, Update, is_transition
from tests.acp.updates.observing import applied


def test_an_update_of_a_call_that_was_never_announced_is_an_error() -> None:
    with pytest.raises(ValueError, match="announce the call first"):
        applied(None, Update("a", title="x"))
    with pytest.raises(ValueError, match="whoever knew call b"):
        applied(CallState("b"), Update("a", title="x"))


def test_text_that_no_encoding_knows_is_replaced_before_it_can_do_harm() -> None:
    assert Text("a\ud800").text == "a\ufffd"
    assert Location("caf\udce9").path == "caf\ufffd"


def test_a_status_goes_forward_and_nothing_comes_after_the_end() -> None:
    assert all(is_transition("pending", after) for after in ("pending", "in_progress", *FINAL))
    assert not is_transition("in_progress", "pending")
    assert not any(is_transition(before, after) for before in FINAL for after in ("pending", "in_progress", *FINAL))
