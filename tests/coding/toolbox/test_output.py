"""The output of a command: what is held of it, shown of it and stored of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.coding.toolbox.shell.output import HEAD, NEW_TEXT_BYTES, RING, TAIL, Output
from outrider.conversation.attachments import MAX_BYTES
from tests.lengths import examples


def taken(data: bytes, spool: Path, pieces: int = 65536) -> Output:
    """An output that read the data through a pipe, piece by piece."""
    output = Output(spool)
    source, sink = os.pipe()
    os.set_blocking(source, False)
    try:
        for start in range(0, len(data), min(pieces, 65536)):
            os.write(sink, data[start : start + min(pieces, 65536)])
            while True:
                try:
                    output.read_from(source)
                except BlockingIOError:
                    break
    finally:
        os.close(source)
        os.close(sink)
    output.close()
    return output


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def test_a_short_output_is_all_there_and_needs_no_file(spool: Path) -> None:
    output = taken(b"one\ntwo\n", spool)
    assert output.text() == ("one\ntwo\n", True)
    assert not spool.exists()


def test_an_output_of_exactly_the_limit_is_whole(spool: Path) -> None:
    assert taken(b"x" * (HEAD + TAIL), spool).text() == ("x" * (HEAD + TAIL), True)


def test_one_character_more_is_cut_and_the_note_has_the_true_figures(spool: Path) -> None:
    text, whole = taken(b"x" * (HEAD + TAIL + 1), spool).text()
    assert not whole
    assert text == f"{'x' * HEAD}\n[1 of 30,001 bytes left out here.]\n{'x' * TAIL}"


def test_characters_count_and_not_their_bytes(spool: Path) -> None:
    words = "漢" * (HEAD + TAIL)
    assert taken(words.encode(), spool).text() == (words, True)


@pytest.mark.parametrize("character", ["é", "漢", "😀"])
@pytest.mark.parametrize("shift", range(4))
def test_no_character_is_broken_where_the_middle_is_left_out(character: str, shift: int, spool: Path) -> None:
    data = b"a" * shift + character.encode() * 400_000
    text, _ = taken(data, spool).text()
    head, note, tail = text.split("\n")
    assert set(head) <= {"a", character}
    assert set(tail) == {character}
    left_out = int(note.split()[0].strip("[").replace(",", ""))
    assert left_out + len(head.encode()) + len(tail.encode()) == len(data)


def test_head_and_tail_of_what_went_around_the_ring_many_times(spool: Path) -> None:
    data = b"".join(b"%09d\n" % number for number in range(500_000))
    text, _ = taken(data, spool).text()
    assert text.startswith("000000000\n000000001\n")
    assert text.endswith("000499998\n000499999\n")
    assert text.count("\n") == (HEAD + TAIL) // 10 + 2
    assert spool.read_bytes() == data


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.sampled_from(["a", "é", "漢", "😀", "\n"]), min_size=1, max_size=50),
    pieces=st.integers(1, 65536),
    size=st.sampled_from([1, 29_999, 30_001, RING - 1, RING, RING + 1, 2 * RING + 5]),
)
def test_whatever_the_pieces_the_result_is_the_same(words: list[str], pieces: int, size: int, tmp_path: Path) -> None:
    data = ("".join(words).encode() * (size // len("".join(words).encode()) + 1))[:size]
    spool = tmp_path / os.urandom(4).hex()
    text, whole = taken(data, spool, max(pieces, size // 200)).text()
    if whole:
        assert text == data.decode(errors="replace")
    else:
        head, tail = text.split(" bytes left out here.]\n")
        assert data.decode(errors="replace").endswith(tail)
        assert data.decode(errors="replace").startswith(head.rpartition("\n[")[0])
        assert spool.read_bytes() == data
    spool.unlink(missing_ok=True)


def test_the_file_is_for_the_owner_alone_and_no_larger_than_an_attachment(spool: Path) -> None:
    output = taken(b"0123456789abcde\n" * (MAX_BYTES // 16 + 10_000), spool)
    assert output.stored == spool.stat().st_size == MAX_BYTES
    assert spool.stat().st_mode & 0o777 == 0o600
    assert output.total == MAX_BYTES + 160_000


def test_a_file_that_cannot_be_written_is_a_fault_and_the_text_is_there(tmp_path: Path) -> None:
    output = taken(b"x" * 100_000, tmp_path / "missing" / "spool")
    assert output.error == "No such file or directory"
    assert output.text()[0].startswith("x" * HEAD)


# What observers see


def test_news_come_once_and_never_with_half_a_character(spool: Path) -> None:
    output, (source, sink) = Output(spool), os.pipe()
    shown = []
    for byte in "né漢😀!".encode():
        os.write(sink, bytes([byte]))
        output.read_from(source)
        shown.append(output.new_text())
    os.close(source)
    os.close(sink)
    assert [piece for piece in shown if piece] == ["n", "é", "漢", "😀", "!"]


def test_much_at_once_is_shown_by_its_end_with_a_mark(spool: Path) -> None:
    output = taken("漢".encode() * 100_000, spool)
    news = output.new_text()
    assert news.startswith(f"\n[{300_000 - NEW_TEXT_BYTES:,} bytes are not shown here]\n漢")
    assert set(news.rpartition("]\n")[2]) == {"漢"}
    assert len(news.encode()) < NEW_TEXT_BYTES + 100
    assert output.new_text() == ""


# For the model


def ticks(count: int) -> bytes:
    return b"".join(b"\r\x1b[32m%5d of %d\x1b[0m" % (tick, count) for tick in range(1, count + 1)) + b"\n"


@pytest.mark.parametrize("count", [600, 30_000])
def test_a_progress_bar_is_one_line_for_the_model(count: int, spool: Path) -> None:
    assert taken(ticks(count), spool).text() == (f"{count:5} of {count}\n", True)


def test_a_progress_bar_is_one_line_while_it_runs(spool: Path) -> None:
    news = taken(ticks(600), spool).new_text()
    assert news == "  600 of 600\n"


def test_bytes_that_are_no_text_are_marked(spool: Path) -> None:
    assert taken(b"a\xff\0b", spool).text() == ("a\ufffd\ufffdb", True)
