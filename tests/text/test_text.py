"""Text that can be sent: cleaned, shortened between characters, sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.text import REPLACEMENT, clean, clean_value, counted, human_size, shorten

any_text = st.text(st.characters())  # lone surrogates included
NOTE = "[{left_out} of {total} left out]"


@given(any_text)
def test_cleaned_text_can_always_be_encoded(text: str) -> None:
    assert clean(text).encode().decode() == clean(text)


@given(st.text())
def test_text_that_can_be_encoded_is_passed_on_as_the_same_object(text: str) -> None:
    assert clean(text) is text


@given(any_text)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@given(st.text(), st.text())
def test_what_stands_around_a_lone_surrogate_is_kept(before: str, after: str) -> None:
    assert clean(f"{before}\ud800{after}") == f"{before}{REPLACEMENT}{after}"


def test_a_pair_of_surrogates_becomes_the_character_that_it_stands_for() -> None:
    assert clean("\ud83d\ude00") == "😀"


def test_a_pair_in_the_wrong_order_is_two_lone_surrogates() -> None:
    assert clean("\ude00\ud83d") == REPLACEMENT * 2


def test_a_clean_value_is_passed_on_as_the_same_object() -> None:
    value = {"a": ["b", {"c": ("d", 1, None, 2.5, True)}], "é": []}
    assert clean_value(value) is value


def test_every_string_of_a_value_is_cleaned_keys_included() -> None:
    value = {"a\ud800": ["\ud801", {"b": ("\udfff", 1)}], "c": None}
    assert clean_value(value) == {"a�": ["�", {"b": ["�", 1]}], "c": None}


def test_cleaning_a_value_does_not_change_the_one_given() -> None:
    value = {"a": ["\ud800"]}
    clean_value(value)
    assert value == {"a": ["\ud800"]}


def test_a_text_exactly_at_the_limit_is_unchanged() -> None:
    text = "é" * 100
    assert shorten(text, 100, NOTE) is text


def test_a_text_one_over_the_limit_loses_one_character_and_says_so() -> None:
    text = "".join(chr(0x4E00 + number) for number in range(101))
    assert shorten(text, 100, NOTE) == f"{text[:75]}\n[1 of 101 left out]\n{text[-25:]}"


@given(st.text(), st.integers(0, 50))
def test_a_shortened_text_is_its_head_a_note_and_its_tail(text: str, limit: int) -> None:
    if len(text) <= limit:
        assert shorten(text, limit, NOTE) == text
        return
    note = f"\n[{len(text) - limit} of {len(text)} left out]\n"
    head, found, tail = shorten(text, limit, NOTE).partition(note)
    assert found
    assert len(head) + len(tail) == limit
    assert text.startswith(head)
    assert text.endswith(tail)


def test_a_limit_of_nothing_leaves_only_the_note() -> None:
    assert shorten("abc", 0, NOTE) == "\n[3 of 3 left out]\n"


def test_braces_in_the_text_are_not_taken_for_a_format() -> None:
    assert shorten("{total}{left_out}{x}", 8, NOTE) == "{total\n[12 of 20 left out]\nx}"


def test_large_numbers_are_grouped() -> None:
    assert "[999,000 of 1,000,000 left out]" in shorten("x" * 1_000_000, 1000, NOTE)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2, "1.0 MiB"),
        (20 * 1024**2, "20.0 MiB"),
        (1024**3, "1.0 GiB"),
        (5000 * 1024**3, "5000.0 GiB"),
    ],
)
def test_a_size_reads_as_a_person_writes_it(size: int, said: str) -> None:
    assert human_size(size) == said


@pytest.mark.parametrize(("size", "said"), [(1024**2 - 1, "1.0 MiB"), (1024**3 - 1, "1.0 GiB")])
def test_a_size_that_rounds_up_to_the_next_unit_is_said_in_that_unit(size: int, said: str) -> None:
    assert human_size(size) == said


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1000, "1,000 files"), (1200, "1,200 files")]
)
def test_a_noun_is_in_the_plural_where_that_is_due(number: int, said: str) -> None:
    assert counted(number, "file") == said
