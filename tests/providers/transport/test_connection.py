"""One HTTP connection: responses in any pieces, broken ones, floods, and requests that a server does not read."""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.providers.transport.connection import HIGH_WATER, PIECE, Connection, HttpError, Incoming
from tests.lengths import examples

MEGABYTE = 1024 * 1024
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, socket.socket]]:
    """A connection, and the socket of its server."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with theirs:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, sock=ours)
        try:
            async with asyncio.timeout(30):
                yield connection, theirs
        finally:
            connection.abort()
            await connection.lost


async def serve(server: socket.socket, pieces: Sequence[bytes], *, closes: bool) -> None:
    for piece in pieces:
        await asyncio.get_running_loop().sock_sendall(server, piece)
        await asyncio.sleep(0)
    if closes:
        server.shutdown(socket.SHUT_WR)


async def body_of(incoming: Incoming) -> bytes:
    pieces = []
    while piece := await incoming.read():
        pieces.append(piece)
    return b"".join(pieces)


def chunked(body: bytes, size: int) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\nx-twice: 3\r\n\r\n"


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda body: body,
    "identity": lambda body: body,
    "gzip": gzip.compress,
    "GZip": lambda body: gzip.compress(body[:3]) + gzip.compress(body[3:]),
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
}


@st.composite
def responses(draw: st.DrawFn) -> tuple[list[bytes], bytes, str]:
    """The pieces of a response, its body, and what ends it."""
    body = draw(st.binary(min_size=1, max_size=300))
    encoding = draw(st.sampled_from(sorted(ENCODINGS)))
    sent = ENCODINGS[encoding](body)
    ending = draw(st.sampled_from(["length", "chunks", "close", "length, close"]))
    head = [b"HTTP/1.1 200 All right", b"x-twice: 1", b"X-Twice:  2 "]
    head += [b"content-encoding: " + encoding.encode()] if encoding else []
    head += [b"content-length: %d" % len(sent)] if "length" in ending else []
    head += [b"Transfer-Encoding: Chunked"] if ending == "chunks" else []
    head += [b"Connection: close"] if "close" in ending else []
    whole = b"\r\n".join([*head, b"", b""]) + (chunked(sent, draw(st.integers(1, 400))) if ending == "chunks" else sent)
    if draw(st.booleans()):
        whole = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nx-twice: 0\r\n\r\n" + whole
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if a < b], body, ending


@settings(max_examples=examples(400))
@given(response=responses())
def test_a_response_is_the_same_in_whatever_pieces_it_arrives(response: tuple[list[bytes], bytes, str]) -> None:
    pieces, body, ending = response

    async def run() -> None:
        async with connected() as (connection, server):
            sending = asyncio.create_task(serve(server, pieces, closes="close" in ending))
            incoming = await connection.send(GET, b"", 20)
            assert (incoming.status, incoming.reason) == (200, "All right")
            assert [value for name, value in incoming.headers if name.lower() == "x-twice"] == ["1", "2"]
            assert await body_of(incoming) == body
            await sending
            assert connection.end_response() == ("close" not in ending)

    asyncio.run(run())


@settings(max_examples=examples(400))
@given(response=responses(), share=st.floats(0, 1, exclude_max=True))
def test_a_response_that_breaks_off_is_never_taken_for_a_whole_one(
    response: tuple[list[bytes], bytes, str], share: float
) -> None:
    pieces, _, ending = response
    whole = b"".join(pieces)
    if ending == "close":  # nothing says where it ends: only headers can be missing
        whole = whole[: whole.rindex(b"\r\n\r\n") + 4] if whole.count(b"\r\n\r\n") == 1 else b"HTTP/1.1 200"
        whole = whole[:-1]

    async def run() -> None:
        async with connected() as (connection, server):
            await serve(server, [whole[: int(len(whole) * share)]], closes=True)
            with pytest.raises(HttpError, match=r"it is not complete|closed the connection"):
                await body_of(await connection.send(GET, b"", 20))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it is not HTTP"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "it is not HTTP"),
        (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "it is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000, "headers are too long"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000, "headers are too long"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, "headers are too long"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"e" * 200_000, "headers are too long"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 20_000, "headers are too long"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 4\r\n\r\nabcd", "compressed as br"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nabcd", "is damaged"),
    ],
)
async def test_what_is_no_response_is_refused(answer: bytes, why: str) -> None:
    async with connected() as (connection, server):
        sending = asyncio.create_task(serve(server, [answer], closes=False))
        with pytest.raises(HttpError, match=why):
            await body_of(await connection.send(GET, b"", 20))
        connection.abort()
        await asyncio.gather(sending, return_exceptions=True)


async def test_a_second_response_spoils_the_connection_and_not_the_first() -> None:
    async with connected() as (connection, server):
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
        await serve(server, [answer + b"ok" + answer + b"no"], closes=False)
        assert await body_of(await connection.send(GET, b"", 20)) == b"ok"
        assert not connection.end_response()


async def test_bytes_that_no_one_asked_for_close_an_idle_connection() -> None:
    async with connected() as (connection, server):
        await serve(server, [b"HTTP/1.1 204 No Content\r\n\r\n"], closes=False)
        await connection.send(GET, b"", 20)
        assert connection.end_response()
        await serve(server, [b"HTTP/1.1 200 OK\r\n\r\n"], closes=False)
        await connection.lost


async def test_a_connection_that_was_closed_before_the_request_is_no_wait() -> None:
    async with connected() as (connection, server):
        server.close()
        await connection.lost
        with pytest.raises(HttpError, match="without an answer"):
            await connection.send(GET, b"", 20)


async def test_a_response_that_was_given_back_cannot_be_read() -> None:
    async with connected() as (connection, server):
        await serve(server, [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"], closes=False)
        incoming = await connection.send(GET, b"", 20)
        assert not connection.end_response()
        with pytest.raises(HttpError):
            await incoming.read()


async def test_a_server_that_sends_faster_than_we_read_is_held_back() -> None:
    async with connected() as (connection, server):
        total, sent = 30 * MEGABYTE, 0

        async def flood() -> None:
            nonlocal sent
            await serve(server, [b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total], closes=False)
            while sent < total:
                await serve(server, [bytes(MEGABYTE // 8)], closes=False)
                sent += MEGABYTE // 8

        sending = asyncio.create_task(flood())
        incoming = await connection.send(GET, b"", 20)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert sent < 5 * MEGABYTE
        assert len(await body_of(incoming)) == total
        await sending


async def test_a_small_body_that_becomes_a_large_one_comes_in_pieces() -> None:
    packed = gzip.compress(bytes(60 * MEGABYTE))
    async with connected() as (connection, server):
        head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
        sending = asyncio.create_task(serve(server, [head + packed], closes=False))
        incoming = await connection.send(GET, b"", 20)
        sizes = []
        while piece := await incoming.read():
            sizes.append(len(piece))
        assert (sum(sizes), max(sizes)) == (60 * MEGABYTE, PIECE)
        await sending


def slices(megabytes: int, made: list[int]) -> Iterator[memoryview]:
    for _ in range(4 * megabytes):
        made.append(1)
        yield memoryview(bytes(MEGABYTE // 4))


async def test_a_refusal_ends_the_upload() -> None:
    async with connected() as (connection, server):
        made: list[int] = []
        sending = asyncio.create_task(connection.send(GET, slices(64, made), 20))
        while not made:
            await asyncio.sleep(0)
        await serve(server, [b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n"], closes=False)
        incoming = await sending
        assert (incoming.status, await body_of(incoming)) == (413, b"")
        assert len(made) < 16
        assert not connection.end_response()


async def test_a_server_that_reads_no_more_is_given_up() -> None:
    async with connected() as (connection, _):
        made: list[int] = []
        with pytest.raises(TimeoutError):
            await connection.send(GET, slices(64, made), 0.05)
        assert len(made) < 16


async def test_a_server_that_says_nothing_more_is_given_up_and_one_that_does_is_not() -> None:
    async with connected() as (connection, server):
        await serve(server, [b"HTTP/1.1 200 OK\r\n\r\n"], closes=False)
        incoming = await connection.send(GET, b"", 0.3)
        for _ in range(8):
            reading = asyncio.create_task(incoming.read())
            await asyncio.sleep(0.05)
            await serve(server, [b"x"], closes=False)
            assert await reading == b"x"
        with pytest.raises(TimeoutError):
            await incoming.read()


async def test_a_body_of_any_size_arrives_whole() -> None:
    for size in (0, 1, HIGH_WATER - 1, HIGH_WATER, 5 * MEGABYTE):
        async with connected() as (connection, server):
            body = bytes(range(256)) * (size // 256) + bytes(size % 256)
            sending = asyncio.create_task(connection.send(GET, body, 20))
            arrived = bytearray()
            while len(arrived) < len(GET) + size:
                arrived += await asyncio.get_running_loop().sock_recv(server, MEGABYTE)
            assert arrived == GET + body
            await serve(server, [b"HTTP/1.1 204 OK\r\n\r\n"], closes=False)
            await sending


@pytest.mark.parametrize("encoding", ["utf-8", "none", "aws-chunked", "binary"])
async def test_an_encoding_that_is_none_is_a_body_as_it_is(encoding: str) -> None:
    async with connected() as (connection, server):
        head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: 4\r\n\r\nfine"
        serving = asyncio.ensure_future(serve(server, [head.encode()], closes=False))
        incoming = await connection.send(GET, b"", 10)
        assert await body_of(incoming) == b"fine"
        await serving


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("gzip, identity", "fine"), ("identity, GZip", "fine"), ("gzip,", "fine"), ("utf-8, gzip", "fine")]
    + [(each, "which was not asked for") for each in ("gzip, gzip", "gzip, br", "br", "zstd", "lzma")],
)
async def test_a_list_of_encodings_is_undone_or_refused(encoding: str, text: str) -> None:
    body = gzip.compress(b"fine")
    async with connected() as (connection, server):
        head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        serving = asyncio.ensure_future(serve(server, [head + body], closes=False))
        incoming = await connection.send(GET, b"", 10)
        if text == "fine":
            assert await body_of(incoming) == b"fine"
        else:
            with pytest.raises(HttpError, match=text):
                await body_of(incoming)
        await serving


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "Deflate"])
async def test_a_body_of_a_little_more_than_a_piece_is_whole(encoding: str) -> None:
    for size in range(2 * PIECE - 4, 2 * PIECE + 260, 8):
        body = ENCODINGS[encoding](bytes(size))
        async with connected() as (connection, server):
            head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            serving = asyncio.ensure_future(serve(server, [head + body], closes=False))
            incoming = await connection.send(GET, b"", 10)
            assert len(await body_of(incoming)) == size
            await serving


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_body_that_is_cut_off_is_not_taken_for_whole(encoding: str) -> None:
    body = ENCODINGS[encoding](bytes(range(256)) * 100)
    async with connected() as (connection, server):
        head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\n\r\n".encode()
        serving = asyncio.ensure_future(serve(server, [head + body[:-20]], closes=True))
        incoming = await connection.send(GET, b"", 10)
        with pytest.raises(HttpError, match="it is not complete"):
            await body_of(incoming)
        await serving


@pytest.mark.parametrize("rest", [b"\0" * 600, b"\n", b"garbage", b"\x1f", b"\x1fx"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_what_stands_behind_a_compressed_body_counts_for_nothing(rest: bytes, size: int) -> None:
    body = gzip.compress(b"one, ") + gzip.compress(b"two") + rest
    async with connected() as (connection, server):
        head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        serving = asyncio.ensure_future(serve(server, [head, *pieces], closes=False))
        incoming = await connection.send(GET, b"", 10)
        assert await body_of(incoming) == b"one, two"
        await serving
