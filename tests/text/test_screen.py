"""The screen of a terminal: what is drawn, and what is new."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.text.screen import KEPT, Screen

WORDS = ["hello", "a b", "x" * 23, "日本", "\r", "\n", "\b", "\t", "\x1b[31m", "\x1b]0;t\x07", "\x1b[7G", "\x1b[4d"]
MOVES = ["\x1b[A", "\x1b[3B", "\x1b[5C", "\x1b[2D", "\x1b[H", "\x1b[5;7H", "\x1bD", "\x1bM"]
CHANGES = ["\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[J", "\x1b[1J", "\x1b[2J", "\x1b[3P", "\x1b[2@", "\x1b[4X", "\x1b[4h"]


class OtherScreen(pyte.Screen):
    """The other terminal, without two faults of it."""

    def draw(self, data: str) -> None:
        """Wrap a wide character that does not fit, as terminals do, instead of drawing half of it."""
        for character in data:
            if character in "日本" and self.cursor.x == self.columns - 1:
                self.cursor.x = self.columns
            super().draw(character)

    def delete_characters(self, count: int | None = None) -> None:
        """Bring nothing back that an insertion had pushed over the edge."""
        self.buffer[self.cursor.y].pop(self.columns, None)
        super().delete_characters(count)


@given(st.lists(st.sampled_from([*WORDS, *MOVES, *CHANGES, "\x1b[4l"]), max_size=30), st.integers(0, 200))
def test_it_draws_what_another_terminal_draws(parts: list[str], cut: int) -> None:
    text = "".join(parts)
    other = OtherScreen(20, 10)
    pyte.Stream(other).feed(text)
    screen = Screen(20, 10)
    screen.add(text[:cut])
    screen.add(text[cut:])
    shown = ["".join(other.buffer[row][column].data for column in range(20)) for row in range(10)]
    assert ["".join(row) for row in screen._cells] == shown
    assert (screen.row, screen.column) == (other.cursor.y, other.cursor.x)


def test_a_wide_character_is_not_divided() -> None:
    screen = Screen(4, 4)
    screen.add("abc日本")
    assert screen.take() == "abc\n日本"
    screen = Screen(4, 4)
    screen.add("abcか\u3099")
    assert screen.take() == "abc\nか\u3099"
    narrow = Screen(1, 3)
    narrow.add("日a")
    assert (narrow.row, narrow.column) == (2, 1)


def test_only_what_is_new_is_taken() -> None:
    screen = Screen(20, 4)
    screen.add("$ python\r\n>>> ")
    assert screen.take() == "$ python\n>>>"
    screen.add("1+1\r\n2\r\n>>> ")
    assert screen.take() == ">>> 1+1\n2\n>>>"
    assert screen.take() == ""
    screen.add("\r\n".join(map(str, range(10))))
    assert screen.take() == ">>> 0\n1\n2\n3\n4\n5\n6\n7\n8\n9"
    screen.add("\r\x1b[Kdone")
    assert screen.take() == "done"


def test_a_full_screen_program_shows_its_screen_and_leaves_nothing() -> None:
    screen = Screen(20, 4)
    screen.add("$ vi\r\n")
    screen.take()
    screen.add("\x1b[?1049h\x1b[H\x1b[2Jtext\x1b[2;1H~\x1b[4;1H-- INSERT --")
    assert screen.is_full
    assert screen.take() == "text\n~\n\n-- INSERT --"
    screen.add("\x1b[2;3H!")
    assert screen.take() == "text\n~ !\n\n-- INSERT --"
    screen.add("\x1b[?1049l$ ")
    assert (screen.is_full, screen.take()) == (False, "$")


def test_lines_are_inserted_deleted_and_scrolled_within_margins() -> None:
    screen = Screen(10, 5)
    screen.add("a\r\nb\r\nc\r\nd\r\ne\x1b[2;4r\x1b[2;1H\x1b[L")
    assert screen.take() == "a\n\nb\nc\ne"
    screen.add("\x1b[3;1H\x1b[M\x1b[r")
    screen.add("\x1b[1;1H\x1b[2S")
    assert ["".join(row).strip() for row in screen._cells] == ["c", "", "e", "", ""]
    screen.add("\x1b(0lqk\x1b(B q\x1b[3b")
    assert "┌─┐ qqqq" in screen.take()


def test_a_flood_is_bounded_and_says_what_is_left_out() -> None:
    screen = Screen(80, 24)
    screen.add("".join(f"{number:079}\r\n" for number in range(2000)))
    taken = screen.take()
    assert len(taken) < KEPT + 24 * 81 + 60
    assert taken.startswith("[1,")
    assert " lines are left out here.]" in taken.partition("\n")[0]
    assert taken.endswith(f"{1999:079}")


def test_the_place_of_the_cursor_is_answered_and_what_is_unknown_dropped() -> None:
    screen = Screen(20, 4)
    screen.add("abc\x1b[6n\x1b[c\x1b[>c\x1b[?25l\x1b[999999999999;1Hx\x1b]unfinished")
    assert screen.answers == "\x1b[1;4R\x1b[?6c"
    assert screen.take() == "abc\n\n\nx"
    screen.add("\x07\u202ez")
    assert screen.take() == "x⟨U+202E⟩z"


@pytest.mark.parametrize("size", [(10, 2), (40, 8)])
def test_a_new_size_keeps_the_end(size: tuple[int, int]) -> None:
    screen = Screen(20, 4)
    screen.add("one\r\ntwo\r\nthree\r\nfour")
    screen.resize(*size)
    screen.add("!")
    assert screen.take() == "one\ntwo\nthree\nfour!"
