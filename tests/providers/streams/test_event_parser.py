"""Server-sent events from bytes: whatever way they are cut up and ended, the events are the same."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import ProviderError
from outrider.providers.streams import stream
from outrider.providers.streams.stream import EventParser, finished_call

LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
LINES = st.lists(st.one_of(LINE, LINE.map("data: {}".format), LINE.map("event:{}".format), LINE.map(": {}".format)))


def parsed(chunks: Iterable[bytes]) -> list[bytes]:
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def finished(data: bytes) -> list[bytes]:
    parser = EventParser()
    return [*parser.feed(data), *parser.finish()]


def plainly(lines: Iterable[str]) -> list[bytes]:
    """The rules of the standard, one line at a time."""
    events, data = list[bytes](), list[str]()
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if said := "\n".join(data):
                events.append(said.encode())
            data = []
        elif field.removeprefix("\ufeff") == "data":
            data.append(value)
    return events


@given(LINES, st.lists(st.sampled_from(["\n", "\r", "\r\n"]), min_size=1), st.lists(st.integers(0, 400)))
def test_any_lines_with_any_ends_in_any_pieces_give_the_same_events(
    lines: list[str], ends: list[str], places: list[int]
) -> None:
    # Not to be taken for plain JSON, nor to have halves of characters in it: those are replaced.
    lines = [":", *(line.replace("\\", "/") for line in lines)]
    # A carriage return before a line feed would make one end of two: then both are of the same kind.
    kinds = ends if "\r" not in ends or "\n" not in ends else ["\r\n"]
    text = "".join(line + kinds[index % len(kinds)] for index, line in enumerate(lines))
    whole = text.encode()
    bounds = sorted({0, len(whole), *(place for place in places if place < len(whole))})
    pieces = [whole[start:end] for start, end in pairwise(bounds)]
    expected = plainly(lines)
    assert parsed([whole]) == expected
    assert parsed(pieces) == expected
    assert parsed(bytes([byte]) for byte in whole) == expected


def test_a_character_that_is_cut_in_two_is_put_together() -> None:
    whole = 'data: {"text": "日本語 👋"}\n\n'.encode()
    for place in range(len(whole)):
        assert parsed([whole[:place], whole[place:]]) == ['{"text": "日本語 👋"}'.encode()]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_end_that_is_cut_in_two_counts_once(end: bytes) -> None:
    whole = b"event: a" + end + b"data: 1" + end + b"data: 2" + end + end + b"data: 3" + end + end
    expected = [b"1\n2", b"3"]
    for place in range(len(whole) + 1):
        assert parsed([whole[:place], b"", whole[place:]]) == expected


def test_spaces_at_the_end_of_a_line_are_part_of_the_data_and_one_at_its_beginning_is_not() -> None:
    assert parsed([b'data:  {"a": 1}   \n\n', b"data:x\n\n"]) == [
        b' {"a": 1}   ',
        b"x",
    ]


def test_comments_and_unknown_fields_say_nothing() -> None:
    assert parsed([b": keep-alive\n\n:\n\nid: 7\nretry: 100\ndata: x\nnonsense\n\n"]) == [b"x"]


def test_an_event_without_data_is_none() -> None:
    assert parsed([b"event: ping\n\nevent: open\ndata\n\ndata:\n\ndata: x\n\n"]) == [b"x"]


def test_a_byte_order_mark_at_the_beginning_is_passed_over() -> None:
    whole = b"\xef\xbb\xbfdata: x\n\n"
    for place in range(len(whole)):
        assert parsed([whole[:place], whole[place:]]) == [b"x"]


def test_a_byte_order_mark_before_plain_json_is_passed_over() -> None:
    parser = EventParser()
    assert [*parser.feed(b'\xef\xbb\xbf{"choices": []}'), *parser.finish()] == [b'{"choices": []}']


@given(
    st.recursive(st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)), st.integers(0, 200)
)
def test_an_answer_that_is_plain_json_is_one_event_however_it_is_cut_up(value: object, place: int) -> None:
    whole = b"\n" + json.dumps({"value": value}, indent=1).encode() + b"\n\n"
    parser = EventParser()
    events = [*parser.feed(whole[:place]), *parser.feed(whole[place:]), *parser.finish()]
    assert list(map(json.loads, events)) == [{"value": value}]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("data", [b'{"a": 1}', b"[DONE]"])
def test_the_end_of_the_stream_ends_the_last_event(data: bytes, end: bytes) -> None:
    assert finished(b"data: " + data + end) == [data]


def test_half_an_event_at_the_end_of_the_stream_is_none() -> None:
    whole = 'data: {"a": "ü"}'.encode()
    for place in range(len(whole)):
        assert finished(whole[:place]) == []
    assert finished(b"event: message_stop\n") == []


def test_half_a_character_is_replaced_where_it_stands() -> None:
    assert parsed([b'data: {"a": "x\xf0\x9f", "b": 1}\n\n']) == ['{"a": "x\ufffd", "b": 1}'.encode()]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"\ud83d\ude00", rb"\ud83d\ude00"),
        (rb"\ud83d", rb"\ufffd"),
        (rb"\ude00", rb"\ufffd"),
        (rb"\uD83D\uD83D\uDE00", rb"\ufffd\uD83D\uDE00"),
        (rb"\\ud83d", rb"\\ud83d"),
        (rb"\\\ud83d", rb"\\\ufffd"),
        (rb"\u00e9", rb"\u00e9"),
    ],
)
def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_is_kept(written: bytes, read: bytes) -> None:
    assert parsed([b'data: "%b"\n\n' % written]) == [b'"%b"' % read]


def test_a_line_that_never_ends_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_EVENT_BYTES", 1000)
    parser = EventParser()
    for _ in range(10):
        assert list(parser.feed(b"x" * 100)) == []
    with pytest.raises(ProviderError, match="too large"):
        list(parser.feed(b"x"))


def test_lines_that_end_do_not_add_up_to_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_EVENT_BYTES", 1000)
    parser = EventParser()
    assert len([event for _ in range(50) for event in parser.feed(b"data: " + b"x" * 100 + b"\n\n")]) == 50


@pytest.mark.parametrize(
    ("text", "arguments", "invalid"),
    [
        ("", {}, None),
        (" \n", {}, None),
        ('{"a": [1, "ü"]}', {"a": [1, "ü"]}, None),
        ('{"a": "\\ud83d"}', {"a": "\ufffd"}, None),
        ('{"a": ', {}, '{"a": '),
        ("[1]", {}, "[1]"),
        ("null", {}, "null"),
        ("[" * 100_000, {}, "[" * 100_000),
    ],
    ids=lambda value: str(value)[:12],
)
def test_a_call_has_its_arguments_or_what_was_written_instead(
    text: str, arguments: dict[str, object], invalid: str | None
) -> None:
    call = finished_call("c1", "read", text)
    assert (call.id, call.name, call.input, call.invalid_input) == ("c1", "read", arguments, invalid)
