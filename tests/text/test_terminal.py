"""Output as a terminal shows it: the same text whether it is rendered as a whole, in pieces, or live."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.text.terminal import LONGEST_LINE, LiveText, TerminalText, rendered

WORDS = ("a", "bc", "漢", "é", "100 %", "\n", "\r", "\r\n", "\b", "\t", "\0", "\x07", "\x1b", "[", "]0;t", "\\", " 0m")
SEQUENCES = ("\x1b[K", "\x1b[2K", "\x1b[1K", "\x1b[G", "\x1b[31m", "\x1b[0;1", "\x1b(B", "\x1b]8;;x\x1b\\", "\x1bP")
PIECES = st.lists(st.sampled_from(WORDS + SEQUENCES), max_size=40).map("".join)
CUTS = st.lists(st.integers(0, 60), max_size=12)


def cut(text: str, places: list[int]) -> list[str]:
    bounds = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


@pytest.mark.parametrize(
    ("printed", "read"),
    [
        ("10 %\r 50 %\r100 %\n", "100 %\n"),
        ("working hard\rdone", "doneing hard"),  # a terminal shows the same
        ("working hard\r\x1b[Kdone\n", "done\n"),
        ("working hard\x1b[2K\rdone\n", "done\n"),
        ("working hard\x1b[1Gdone\x1b[K\n", "done\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;no end\nnext", "\nnext"),
        ("\x1b(B\x1b=plain\x1bM", "plain"),
        ("cut off \x1b[3", "cut off "),
        ("\x1b", ""),
        ("b\x08bo\x08old", "bold"),
        ("tab\tline\r\n", "tab\tline\n"),
        ("nul\0bell\x07", "nul\ufffdbell\ufffd"),
        ("żółw 漢 😀", "żółw 漢 😀"),
    ],
)
def test_text_is_shown_as_in_a_terminal(printed: str, read: str) -> None:
    assert rendered(printed) == read


@given(PIECES, CUTS)
def test_any_cut_gives_the_same_text(text: str, places: list[int]) -> None:
    terminal = TerminalText()
    final = "".join(terminal.add(piece) for piece in cut(text, places))
    assert final + terminal.line == rendered(text)


@given(PIECES, CUTS)
def test_live_text_ends_as_the_whole_text(text: str, places: list[int]) -> None:
    live = LiveText()
    assert rendered("".join(live.add(piece) for piece in cut(text, places))) == rendered(text)


@given(PIECES)
def test_rendered_text_has_no_control_characters_and_does_not_change_again(text: str) -> None:
    once = rendered(text)
    assert not set(once) & set("\r\b\x1b\0\x07")
    assert rendered(once) == once


def test_a_line_without_an_end_is_not_kept() -> None:
    terminal = TerminalText()
    final = "".join(terminal.add("x" * 1_000_000) for _ in range(3))
    assert len(terminal.line) < LONGEST_LINE
    assert final + terminal.line == "x" * 3_000_000


@pytest.mark.sampled(2)
@pytest.mark.timeout(60)
@pytest.mark.parametrize("beginning", ["\x1b]", "\x1b[", "\x1b[0;", "\x1bP", "\x1b "])
def test_endless_beginnings_of_escapes_do_not_take_forever(beginning: str) -> None:
    assert rendered(beginning * 200_000 + "\x1b[0mend") == "end"


@pytest.mark.sampled(2)
@pytest.mark.timeout(60)
@pytest.mark.parametrize("step", ["\rx", "\b\bxy", "\x1b[Kx", "x\x1b[2K", "\r" + "x" * 100])
def test_the_time_grows_with_the_length(step: str) -> None:
    line = "y" * (LONGEST_LINE - 200)

    def seconds(count: int) -> float:
        began = time.process_time()
        rendered(line + step * count)
        return time.process_time() - began

    assert seconds(80_000) < 40 * max(seconds(8_000), 0.005)
