"""A kind that the protocol does not know is refused, and nothing of the change is sent."""

from __future__ import annotations

import pytest

from outrider.acp.updates.call_state import KINDS, CallState
from tests.acp.updates.observing import watched


def test_unknown_kinds_are_refused() -> None:
    engine, observer, _ = watched()
    engine.announce(CallState("c", title="a call"))
    engine.flush()
    sent = len(observer.updates)
    with pytest.raises(ValueError, match="unknown kind 'bogus'; use one of: read, edit"):
        engine.change("c", kind="bogus", title="other")
    with pytest.raises(ValueError, match="unknown kind"):
        engine.finish("c", "completed", kind="bogus")
    with pytest.raises(ValueError, match="unknown kind"):
        engine.announce(CallState("d", kind="bogus"))
    engine.flush()
    assert len(observer.updates) == sent
    state = engine.state("c")
    assert state
    assert state.title == "a call"
    for kind in KINDS:
        assert engine.change("c", kind=kind)
