"""A run that may not take a single turn is a mistake, and is told so before anything is sent."""

from __future__ import annotations

import pytest

from outrider.runtime.limits import Limits
from outrider.sync import run
from outrider.testing import ScriptedModel


@pytest.mark.parametrize("turns", [0, -1])
def test_max_turns_of_nothing_is_refused(turns: int) -> None:
    model = ScriptedModel(["never asked"])
    with pytest.raises(ValueError, match=f"max_turns is {turns}; it must be a whole number, at least 1"):
        run("hi", max_turns=turns, model=model)
    assert model.requests == []


def test_so_is_a_limit_of_no_turns() -> None:
    with pytest.raises(ValueError, match="the limit max_turns is 0"):
        Limits(max_turns=0)
