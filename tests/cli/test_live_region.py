"""The live region on a real screen: committed lines stay, live lines are drawn once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.cli.chat.session_view import SessionView
from outrider.cli.live_region import LiveRegion
from outrider.runtime.events import TextDelta

COLUMNS, LINES = 40, 10


class Screen:
    """A terminal that keeps what scrolls away."""

    def __init__(self, columns: int = COLUMNS, lines: int = LINES) -> None:
        self.screen = pyte.HistoryScreen(columns, lines, history=10_000, ratio=0.5)
        self._stream = pyte.Stream(self.screen)

    def write(self, text: str) -> None:
        self._stream.feed(text.replace("\n", "\r\n"))

    def flush(self) -> None:
        pass

    def wrap_anew(self, columns: int) -> None:
        """Become narrower, as terminals do that keep lines whole."""
        written = self.written
        self.screen = pyte.HistoryScreen(columns, self.screen.lines, history=10_000, ratio=0.5)
        self._stream = pyte.Stream(self.screen)
        self.write("".join(f"{line}\n" for line in written))

    @property
    def size(self) -> tuple[int, int]:
        return self.screen.columns, self.screen.lines

    @property
    def all_lines(self) -> list[str]:
        width = self.screen.columns
        above = ["".join(line[column].data for column in range(width)).rstrip() for line in self.screen.history.top]
        return [*above, *(line.rstrip() for line in self.screen.display)]

    @property
    def written(self) -> list[str]:
        """All lines down to the cursor."""
        return self.all_lines[: len(self.screen.history.top) + self.screen.cursor.y]


def region_on(screen: Screen, size: Callable[[], tuple[int, int]] | None = None) -> LiveRegion:
    return LiveRegion(screen, size or (lambda: screen.size))  # type: ignore[arg-type]


TEXT = st.text("abcdefghij ", max_size=COLUMNS - 1).map(str.rstrip)
SOME = st.lists(TEXT, max_size=25)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("draw"), SOME), st.tuples(st.just("commit"), SOME), st.tuples(st.just("clear"), st.just([]))
    ),
    max_size=15,
)


@given(ACTIONS)
def test_what_is_committed_stands_in_order_and_the_last_drawing_below_it(actions: list[tuple[str, list[str]]]) -> None:
    screen = Screen()
    region = region_on(screen)
    committed: list[str] = []
    drawn: list[str] = []
    for name, lines in actions:
        if name == "commit":
            region.commit(lines)
            committed += lines
        elif name == "draw":
            region.draw(lines)
            drawn = lines[-(LINES - 1) :]
        else:
            region.clear()
            drawn = []
    assert screen.written == [*committed, *drawn]
    assert not any(screen.all_lines[len(screen.written) :]), "nothing is left over below"


def test_what_did_not_change_is_not_drawn_again() -> None:
    screen = Screen()
    writes: list[str] = []
    screen.write = writes.append  # type: ignore[method-assign]
    region = region_on(screen)
    region.draw(["a"])
    region.draw(["a"])
    region.clear()
    region.clear()
    assert len(writes) == 2


@pytest.mark.parametrize("size", [(0, 0), (1, 1), (20, 2), (10_000, 10_000)])
def test_no_size_breaks_it(size: tuple[int, int]) -> None:
    screen = Screen()
    region = region_on(screen, lambda: size)
    region.draw(["a"] * 30)
    region.commit(["b"] * 30)
    region.clear()


def test_a_window_that_becomes_narrower_keeps_no_part_of_the_old_drawing() -> None:
    screen = Screen(40, 12)
    region = region_on(screen)
    region.commit(["said"])
    region.draw(["old one", "old two", "the status line, which is about as wide"])
    screen.wrap_anew(30)
    region.draw(["new one", "new two", "the status line, which is …"])
    assert [line for line in screen.all_lines if line] == ["said", "new one", "new two", "the status line, which is …"]


def test_a_very_narrow_window_is_drawn_in_its_own_width() -> None:
    screen = Screen(12, 10)
    assert region_on(screen).width < 12


async def test_a_long_end_that_is_finished_between_two_drawings_does_not_push_the_words_off_the_screen() -> None:
    screen = Screen()
    view = SessionView(region_on(screen), Path("/work"))
    view.start()
    view.show(TextDelta("```\n" + "".join(f"line {number}\n" for number in range(30))))
    view.draw()
    view.show(TextDelta("```\n\nDone."))
    assert [line for line in screen.written if line.strip()][-2:] == ["line 29", "Done."]
    view.stop()
    assert "Done." in [line.rstrip() for line in screen.screen.display]
    assert [line.strip() for line in screen.written if "line" in line] == [f"line {number}" for number in range(30)]
