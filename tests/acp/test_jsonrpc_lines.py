"""Bytes to lines: however they arrive, within a bound, each byte looked at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.jsonrpc import INVALID_REQUEST, LineSplitter
from tests.acp.conftest import Wired

LIMIT = 8


def expected(text: bytes) -> list[bytes | None]:
    *whole, rest = text.split(b"\n")
    lines = [line if len(line) <= LIMIT else None for line in whole]
    return lines + ([None] if len(rest) > LIMIT else [])


@given(st.lists(st.binary(max_size=12) | st.sampled_from([b"\n", b"a\nb\n", b"x" * 9, b"x" * 8]), max_size=12))
def test_the_lines_are_the_same_however_the_bytes_arrive(pieces: list[bytes]) -> None:
    whole, apart, single = LineSplitter(LIMIT), LineSplitter(LIMIT), LineSplitter(LIMIT)
    text = b"".join(pieces)
    assert list(whole.split(text)) == expected(text)
    assert [line for piece in pieces for line in apart.split(piece)] == expected(text)
    assert [line for byte in text for line in single.split(bytes([byte]))] == expected(text)


async def test_lines_may_end_as_on_windows_and_blank_ones_are_nothing(wired: Wired) -> None:
    wired.connection.feed(b'\n\r\n  \t\n{"jsonrpc":"2.0","id":1,"method":"nothing"}\r\n\n')
    assert (await wired.answer(1))["result"] == {}
    assert len(wired.written) == 1


async def test_a_line_that_is_too_long_is_refused_once_and_skipped_without_being_held() -> None:
    wired = Wired(max_line=1000)
    for _ in range(10_000):
        wired.connection.feed(b"x" * 999)
        assert len(wired.connection._lines._buffer) <= 1000
    wired.connection.feed(b'\n{"jsonrpc":"2.0","id":1,"method":"nothing"}\n')
    assert (await wired.answer(1))["result"] == {}
    refusal, _ = wired.messages
    assert (refusal["id"], refusal["error"]["code"]) == (None, INVALID_REQUEST)
    assert refusal["error"]["message"] == "A line is longer than 1000 bytes. It was skipped."


async def test_a_long_line_may_come_byte_by_byte(wired: Wired) -> None:
    text = "x" * 300_000
    for byte in b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"value":"%b"}}\n' % text.encode():
        wired.connection.feed(bytes([byte]))
    assert (await wired.answer(1))["result"] == {"value": text}
