"""Server-sent events: the same events however the bytes are split, within the limit."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from outrider.mcp.endpoint import EventReader

STREAM = (
    b': a comment\n\nevent: message\nid: 7\nretry: 1500\ndata: {"a":1}\n\n'
    b"data: two\r\ndata:  lines\r\n\r\nid: 8\ndata\n\nevent: endpoint\ndata: /messages\n\ndata: unfinished"
)


def read(reader: EventReader, *chunks: bytes) -> list[tuple[str, bytes]]:
    return [(event.name, event.data) for chunk in chunks for event in reader.feed(chunk)]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_do_not_depend_on_the_chunks(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    reader = EventReader(1000)
    found = read(reader, *(STREAM[start:end] for start, end in pairwise(places)))
    assert found == [
        ("message", b'{"a":1}'),
        ("message", b"two\n lines"),
        ("endpoint", b"/messages"),
    ]
    assert (reader.last_id, reader.retry) == ("8", 1.5)


def test_nothing_over_the_limit_is_kept() -> None:
    reader = EventReader(100)
    assert read(reader, b"data: " + b"x" * 5_000) == []
    assert reader.is_too_long
    assert read(reader, b"x\n\ndata: next\n\n") == [("message", b"next")]
    assert read(reader, b"data: 30 characters, more or less\n" * 4) == []
    assert reader.is_too_long


def test_ids_and_times_that_cannot_be_used_are_ignored() -> None:
    reader = EventReader(10_000)
    read(reader, b"id: fine\nretry: 100\n\nid: b\xc3\xa4d\nretry: soon\n\nid: " + b"9" * 2_000 + b"\nretry: 1e9\n\n")
    assert (reader.last_id, reader.retry) == ("fine", 0.1)
    read(reader, b"retry: 999999999\n\n")
    assert reader.retry == 60.0
