"""The tail of command output: whole lines, within a limit, with a count of the lines above."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.acp.updates.call_state import CallState, Text
from outrider.acp.updates.tracked_call import KEPT_CHARACTERS, SHOWN_BYTES, OutputTail
from tests.acp.updates.observing import size, watched

LINES = st.lists(st.text(st.sampled_from('aé"\\'), max_size=120).map(lambda line: f"{line}\n"), min_size=1, max_size=80)


def printed(*texts: str) -> OutputTail:
    tail = OutputTail()
    for text in texts:
        tail.append(text)
    return tail


@given(LINES, st.integers(64, 5_000))
def test_whole_lines_within_the_limit_and_all_others_counted(lines: list[str], limit: int) -> None:
    shown = printed(*lines).text(limit)
    whole = "".join(lines)
    assert len(shown.encode()) <= limit or shown == whole
    if shown == whole:
        assert len(whole.encode()) <= limit
    elif note := re.match(r"… ([\d,]+) lines? above\n", shown):
        kept = shown[note.end() :]
        assert whole.endswith(kept)
        assert int(note[1].replace(",", "")) + kept.count("\n") == len(lines)
        assert kept.splitlines()[0] == lines[-kept.count("\n")].rstrip("\n") or kept.count("\n") == 1
    else:
        assert shown.startswith("…")
        assert whole.endswith(shown[1:])


def test_one_endless_line_is_cut_between_characters() -> None:
    shown = printed("é" * 10_000).text(1_000)
    assert re.fullmatch("…é+", shown)
    assert 900 < len(shown.encode()) <= 1_000


def test_a_progress_bar_is_one_line() -> None:
    tail = printed("begin\n", *(f"\r\x1b[32m{tick} of 600\x1b[0m" for tick in range(601)), "\0")
    assert tail.text(SHOWN_BYTES) == "begin\n600 of 600\ufffd"
    assert tail.text(30) == "begin\n600 of 600\ufffd"


def test_a_flood_is_not_kept() -> None:
    tail = OutputTail()
    for _ in range(100):
        tail.append("a line of the flood\n" * 5_000)
    assert tail.total_bytes == 100 * 20 * 5_000
    assert sum(map(len, tail._pieces)) <= 2 * KEPT_CHARACTERS
    text = tail.text()
    note = re.match(r"… ([\d,]+) lines above\n", text)
    assert note
    assert int(note[1].replace(",", "")) + text.count("\n") - 1 == 500_000


STEPS = st.lists(
    st.tuples(
        st.text(st.sampled_from('xé\n"'), min_size=1, max_size=40).flatmap(
            lambda text: st.integers(1, 40).map(lambda times: text * times)
        ),
        st.sampled_from((0.0, 0.05, 0.6, 3.0)),
        st.booleans(),
    ),
    max_size=60,
)


@given(STEPS, st.sampled_from(("", "what the call showed before " * 20)), st.booleans())
def test_what_is_shown_while_it_runs_costs_no_more_than_4_kb_a_second(steps: Any, before: str, full: bool) -> None:
    engine, observer, clock = watched(full=full)
    base = (Text(before),) if before else ()
    engine.announce(CallState("c", content=base))
    engine.flush()
    whole = ""
    for text, seconds, flush in steps:
        engine.append("c", text)
        whole += text
        clock.advance(seconds)
        if flush:
            engine.flush()
    engine.finish("c", "completed", content=(*base, Text(whole)))
    assert observer.states["c"].content == (*base, Text(whole))
    one = size(base) + SHOWN_BYTES
    assert observer.content_bytes["c"] <= size((*base, Text(whole))) + size(base) + one + 4_096 * clock.now


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.1, 0.6, 3.0])
def test_a_long_output_is_bounded_at_any_speed(seconds: float) -> None:
    engine, observer, clock = watched()
    engine.announce(CallState("c"))
    for number in range(500):
        engine.append("c", f"{number:>79}\n")
        clock.advance(seconds)
        if not seconds:
            engine.flush()
    engine.finish("c", "completed")
    assert observer.content_bytes["c"] <= 500 * 80 + SHOWN_BYTES + 4_096 * clock.now
    assert len(observer.updates) > min(500, clock.now * 2)
