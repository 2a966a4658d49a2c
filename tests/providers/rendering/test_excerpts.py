"""How much of a text file a model gets to read, and what it is told of the rest."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.providers.catalogue.windows import TOKEN_BYTES, UNKNOWN_WINDOW, room_for_file
from outrider.providers.rendering.file_forms import SMALLEST, excerpt

LINES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), max_size=200).map("\n".join)
WHERE = "The whole is stored as attachment:0123"


def split(shown: str) -> tuple[str, str, str]:
    found = re.fullmatch(r"(?s)(.*)\n\[([^\n]* left out here[^\n]*)\]\n(.*)", shown)
    assert found, shown[:200]
    return found[1], found[2], found[3]


@given(LINES, st.integers(SMALLEST, 4000))
def test_a_text_is_whole_or_has_its_head_and_tail_within_the_limit(text: str, room: int) -> None:
    shown = excerpt(text, room, WHERE)
    assert (shown is text) is (len(text.encode()) <= room)
    if shown is not text:
        head, note, tail = split(shown)
        assert text.startswith(head)
        assert text.endswith(tail)
        assert room // 3 < len((head + tail).encode()) <= room, "most of the room is used"
        assert note.endswith(WHERE)


@pytest.mark.parametrize("size", [SMALLEST, 5000, 5001])
def test_exactly_at_the_limit_nothing_is_left_out(size: int) -> None:
    text = "x" * size
    assert (excerpt(text, 5000, WHERE) == text) is (size <= 5000)


def test_the_limit_is_in_bytes_so_that_every_script_has_its_share() -> None:
    shown = excerpt("語" * 9000, 3000, WHERE)
    head, note, tail = split(shown)
    assert 2990 <= len((head + tail).encode()) <= 3000
    assert set(head + tail) == {"語"}, "no character is cut in two"
    assert "23.4 KiB of 26.4 KiB left out here" in note


def test_a_table_is_cut_between_lines_and_the_note_says_which_are_missing() -> None:
    lines = [f"{number},{number * number}" for number in range(1, 10_001)]
    head, note, tail = split(excerpt("\n".join(lines) + "\n", 8000, WHERE))
    first, last, total = (
        int(number.replace(",", "")) for number in re.findall(r"line ([\d,]+) to line ([\d,]+) of ([\d,]+)", note)[0]
    )
    assert total == 10_000
    assert head.split("\n") == lines[: first - 1]
    assert tail.rstrip("\n").split("\n") == lines[last:]


@pytest.mark.parametrize("room", [0, SMALLEST - 1])
def test_where_there_is_no_room_a_small_file_is_shown_and_of_a_larger_one_only_where_it_is(room: int) -> None:
    small, large = "a" * SMALLEST, "a" * (SMALLEST + 1)
    assert excerpt(small, room, WHERE) is small
    said = excerpt(large, room, WHERE)
    assert said == f"[None of its 1001 bytes are shown: earlier files have taken the room. {WHERE}]"


@given(st.one_of(st.none(), st.integers(4_000, 2_000_000)), st.lists(st.integers(0, 30_000_000), max_size=40))
def test_any_number_of_files_takes_no_more_than_half_of_the_window(window: int | None, sizes: list[int]) -> None:
    taken = 0
    for size in sizes:
        taken += min(size, room_for_file(window, taken))
    assert taken <= (window or UNKNOWN_WINDOW) * TOKEN_BYTES // 2
