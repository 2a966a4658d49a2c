"""Shortened JSON: still JSON, within the limit, and marked as shortened."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.conversation.json_text import MARK, shorten_json

NOTE = "Not all of {total}."
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**30, 10**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=60), inner, max_size=30),
    max_leaves=80,
)


def encoded(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def shortened(value: Any, limit: int) -> Any:
    """The data that is left of a value that is too long."""
    text = encoded(value)
    assert len(text) > limit
    result = shorten_json(text, limit, NOTE)
    assert len(result) <= limit
    decoded = json.loads(result)
    assert list(decoded) == ["shortened", "data"]
    assert decoded["shortened"] == f"Not all of {len(text):,}."
    return decoded["data"]


@given(JSON, st.integers(70, 3_000))
def test_any_value_is_json_within_any_sensible_limit_and_says_that_it_was_shortened(value: Any, limit: int) -> None:
    text = encoded(value)
    result = shorten_json(text, limit, NOTE)
    assert len(result) <= limit
    if len(text) <= limit:
        assert result == text
        return
    decoded = json.loads(result)
    assert decoded["shortened"] == f"Not all of {len(text):,}."
    assert MARK in encoded(decoded["data"]), "and at each place where something is missing"


@given(JSON, st.integers(-5, 70))
def test_below_that_it_is_json_still(value: Any, limit: int) -> None:
    text = encoded(value)
    result = shorten_json(text, limit, NOTE)
    json.loads(result)
    assert len(result) <= max(limit, 70)


@given(JSON)
def test_exactly_at_the_limit_it_is_unchanged_and_one_below_it_is_not(value: Any) -> None:
    text = encoded(value)
    assert shorten_json(text, len(text), NOTE) == text
    assert shorten_json(text, len(text) - 1, NOTE) != text


def test_a_long_string_keeps_head_and_tail_and_its_neighbours_are_whole() -> None:
    data = shortened({"who": "Ada" + "x" * 60_000 + "Eve", "age": 36}, 10_000)
    assert data["age"] == 36
    assert data["who"].startswith("Adaxxx")
    assert data["who"].endswith("xxxEve")
    assert 9_000 < len(data["who"]) < 10_000
    assert "characters left out" in data["who"]


def test_strings_are_cut_between_characters_however_long_they_are_in_json() -> None:
    for character in ("☂", '"', "\x00", "\U0001f600"):
        data = shortened([character * 5_000, "end"], 500)
        assert set(data[0].partition(f" {MARK} ")[0]) == {character}
        assert data[1] == "end"


def test_of_many_records_the_first_and_the_last_are_whole() -> None:
    records = [{"file": f"{number}.py", "lines": number} for number in range(5_000)]
    data = shortened(records, 2_000)
    kept = [each for each in data if isinstance(each, dict)]
    assert [each for each in data if isinstance(each, str)] == [f"{MARK} [5,000 items, not all shown] {MARK}"]
    assert len(kept) > 40
    assert all(each in records for each in kept)
    assert (kept[0], kept[-1]) == (records[0], records[-1])


def test_the_fields_of_an_object_are_kept_before_all_of_their_content() -> None:
    data = shortened({f"field{number}": "x" * 1_000 for number in range(10)}, 1_000)
    assert list(data) == [f"field{number}" for number in range(10)]


def test_a_mark_takes_no_field_of_the_data() -> None:
    data = shortened({MARK: 1, **{str(number): "x" * 100 for number in range(500)}}, 500)
    assert data[MARK] == 1
    assert data[MARK * 2] == "501 fields, not all shown"


def test_what_is_nested_two_hundred_levels_deep_is_shortened() -> None:
    value: Any = "x" * 500
    for _ in range(200):
        value = {"inside": value, "beside": [1, 2, 3]}
    shortened(value, 1_000)


def test_json_with_room_in_it_is_whole_without_it() -> None:
    value = {"a": [1, 2, 3]}
    assert shorten_json(json.dumps(value, indent=40), 20, NOTE) == encoded(value)


@pytest.mark.parametrize("text", ["{" + "x" * 100, "NaN" + " " * 100, "[1,2" + " " * 100])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        shorten_json(text, 50, NOTE)
