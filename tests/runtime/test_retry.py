"""The policy for retries refuses values that are no seconds."""

from __future__ import annotations

import math
from typing import Any

import pytest

from outrider.runtime.retry import Retry


@pytest.mark.parametrize("value", [-1, math.inf, math.nan, "long", None])
@pytest.mark.parametrize("name", ["seconds", "idle_seconds"])
def test_a_value_that_is_no_number_of_seconds_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"retry\.{name} is .*; it must be a number of seconds"):
        Retry(**{name: value})


def test_no_retry_is_allowed_and_no_wait_for_a_stream_is_not() -> None:
    assert Retry(seconds=0).seconds == 0
    with pytest.raises(ValueError, match=r"retry\.idle_seconds is 0"):
        Retry(idle_seconds=0)
