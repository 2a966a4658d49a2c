"""A session and its calls are freed with their last user: many short ones would otherwise wait for the collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from outrider.runtime.agent import Agent
from outrider.runtime.calls import Call
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, call


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def look() -> str:
    """Look."""
    return "seen"


def _calls() -> int:
    return sum(type(each) is Call for each in gc.get_objects())


async def test_a_session_and_its_calls_leave_no_cycle() -> None:
    before = _calls()
    session = Session(Agent(ScriptedModel([call("look"), "Done."]), tools=[look]))
    kept = weakref.ref(session)
    assert (await session.run("go")).text == "Done."
    assert _calls() == before
    del session
    assert kept() is None
