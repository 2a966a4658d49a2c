"""The HTTP client: what URLs say, connections that are kept and closed, and proxies with and without TLS."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from outrider.providers.transport import client as clients
from outrider.providers.transport.client import (
    Address,
    AddressInfo,
    Client,
    ProxyError,
    UrlError,
    address_of,
    reason_of,
)
from outrider.providers.transport.connection import HttpError
from outrider.providers.transport.network import CA_VARIABLES
from tests.modelserver import ModelServer, Status
from tests.providers.transport.test_http import certificate

OK = Status(200, body=b"fine")


@asynccontextmanager
async def new_client(**options: Any) -> AsyncIterator[Client]:
    client = await Client(10, **options).open()
    try:
        yield client
    finally:
        await client.close()


def server_context(folder: Path) -> ssl.SSLContext:
    """TLS for a server, whose certificate is in `certificate.pem`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(folder))
    return context


async def ask(client: Client, url: str, proxy: str | None = None, **headers: str) -> tuple[int, bytes]:
    async with client.request("GET", url, headers, read_seconds=10, proxy=proxy) as response:
        return response.status, await response.read()


# URLs


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://x.example", Address("http", "x.example", 80, "x.example", "/", "")),
        ("HTTPS://X.Example:443/a?b=c#d", Address("https", "x.example", 443, "x.example", "/a?b=c", "")),
        ("http://x.example:8080?b", Address("http", "x.example", 8080, "x.example:8080", "/?b", "")),
        ("http://[::1]:80/a b/ü%20?q=ü", Address("http", "::1", 80, "[::1]", "/a%20b/%C3%BC%20?q=%C3%BC", "")),
        ("https://bücher.example/", Address("https", "xn--bcher-kva.example", 443, "xn--bcher-kva.example", "/", "")),
        ("https://faß.example./", Address("https", "xn--fa-hia.example.", 443, "xn--fa-hia.example.", "/", "")),
        ("http://me:p%40ss@x.example/", Address("http", "x.example", 80, "x.example", "/", "Basic bWU6cEBzcw==")),
        ("http://x.example/a:b@c;d,e=f'(~)", Address("http", "x.example", 80, "x.example", "/a:b@c;d,e=f'(~)", "")),
    ],
)  # fmt: skip
def test_what_a_url_says(url: str, address: Address) -> None:
    assert address_of(url) == address


@pytest.mark.parametrize(
    "url",
    ["", "x", "/path", "http://", "http:///path", "ftp://x.example", "http://x:99999", "http://x:y", "http://[::1",
     "http://a b/", "http://" + "ü" * 90 + ".example", "//x.example", "file:///etc/passwd"],
)  # fmt: skip
def test_what_is_no_url_of_a_web_server(url: str) -> None:
    with pytest.raises(UrlError):
        address_of(url)


@pytest.mark.parametrize("value", ["a\r\nx: b", "a\nb", "a\rb", "a\0b"])
async def test_a_header_cannot_hold_another_one(value: str) -> None:
    async with new_client() as client, ModelServer([OK]) as server:
        with pytest.raises(ValueError, match="a header has a line break"):
            await ask(client, server.url, key=value)
        assert server.requests == []


async def test_headers_that_are_given_replace_those_of_the_client() -> None:
    async with new_client() as client, ModelServer([OK]) as server:
        headers = {"User-Agent": "mine", "Authorization": "Bearer 1", "X-Name": "ü"}
        await ask(client, server.url.replace("http://", "http://me:secret@"), **headers)
        found = server.requests[0].headers
        assert (found["user-agent"], found["authorization"]) == ("mine", "Bearer 1")
        assert found["accept-encoding"] == "gzip, deflate"


# Connections


async def test_a_kept_connection_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "KEEP_ALIVE", 0.05)
    async with new_client() as client, ModelServer([OK, OK]) as server:
        await ask(client, server.url)
        async with asyncio.timeout(10):
            while client._pool._routes:
                await asyncio.sleep(0.01)
        await ask(client, server.url)
        assert server.connections == 2


async def test_a_client_that_is_forgotten_closes_its_connections() -> None:
    async with ModelServer([OK]) as server:
        client = await Client(10).open()
        await ask(client, server.url)
        [connection] = client._pool._routes
        del client
        gc.collect()
        async with asyncio.timeout(10):
            await connection.lost


async def test_a_response_that_is_left_in_the_middle_costs_its_connection_only() -> None:
    async with new_client() as client, ModelServer([Status(200, body=bytes(5_000_000)), OK]) as server:
        async with client.request("GET", server.url, {}, read_seconds=10) as response:
            assert await response.read()
        assert (await ask(client, server.url), server.connections) == ((200, b"fine"), 2)


async def test_a_request_that_is_cancelled_while_it_waits_costs_its_connection_only() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        async with new_client() as client, ModelServer([OK]) as server:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await ask(client, f"http://127.0.0.1:{silent.getsockname()[1]}")
            assert await ask(client, server.url) == (200, b"fine")
            assert len(client._pool._routes) == 1


@asynccontextmanager
async def scripted(answer: Callable[[int], bytes]) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that answers the requests of a connection by their number; it closes after b"". And the connections."""
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            for number in count():
                head = await reader.readuntil(b"\r\n\r\n")
                if length := re.search(rb"content-length: (\d+)", head):
                    await reader.readexactly(int(length[1]))
                connections[-1] += 1
                if not (said := answer(number)):
                    break
                writer.write(said)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", connections


FINE = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine"


async def test_what_changes_nothing_is_asked_again_if_the_connection_was_closed_meanwhile() -> None:
    async with scripted(lambda number: b"" if number else FINE) as (url, connections), new_client() as client:
        assert [await ask(client, url) for _ in range(3)] == [(200, b"fine")] * 3
        assert connections == [2, 2, 1]
        with pytest.raises(HttpError, match="without an answer"):
            async with client.request("POST", url, {}, b"x", read_seconds=10):
                raise AssertionError
        assert len(connections) == 3


async def test_a_new_connection_that_is_closed_is_an_error_at_once() -> None:
    async with scripted(lambda number: b"") as (url, connections), new_client() as client:
        with pytest.raises(HttpError, match="without an answer"):
            await ask(client, url)
        assert connections == [1]


async def test_a_request_that_the_server_has_not_read_ends_its_connection() -> None:
    """An early refusal that would keep the connection: what was not read would become a part of the next request."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(FINE if b"GET" in head else b"HTTP/1.1 413 Too much\r\ncontent-length: 0\r\n\r\n")
        await ended.wait()
        writer.close()

    ended = asyncio.Event()
    server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1024)
    async with server, new_client() as client:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with client.request("POST", url, {}, bytes(30_000_000), read_seconds=10) as response:
            assert (response.status, await response.read()) == (413, b"")
        assert await ask(client, url) == (200, b"fine")
        ended.set()


async def test_an_upload_ends_when_its_connection_does(caplog: pytest.LogCaptureFixture) -> None:
    taken = []

    def pieces() -> Iterator[memoryview]:
        for number in range(500):
            taken.append(number)
            time.sleep(0.002)
            yield memoryview(bytes(100))

    with ThreadPoolExecutor(1) as threads, socket.create_server(("127.0.0.1", 0)) as listening:

        def leave() -> None:
            connection, _ = listening.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            connection.recv(65536)
            connection.close()

        leaving = threads.submit(leave)
        async with new_client() as client:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            with pytest.raises((OSError, HttpError)):
                async with client.request("POST", url, {}, pieces(), 50_000, read_seconds=10):
                    raise AssertionError
        leaving.result(10)
    assert len(taken) < 500
    assert "socket.send() raised" not in caplog.text


async def test_an_answer_that_came_in_time_counts_though_the_program_was_busy() -> None:
    asked, busy, begun = threading.Event(), threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as threads, socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                asked.set()
                busy.wait(10)
                connection.sendall(FINE[:-2])
                begun.wait(10)
                connection.sendall(FINE[-2:])

        async def be_busy() -> None:
            while not asked.is_set():
                await asyncio.sleep(0)
            busy.set()
            time.sleep(0.8)  # noqa: ASYNC251 - longer than the limit

        serving = threads.submit(serve)
        async with new_client() as client:
            working = asyncio.ensure_future(be_busy())
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            async with client.request("GET", url, {}, read_seconds=0.5) as response:
                begun.set()
                assert await response.read() + await response.read() == b"fine"
            await working
        serving.result(10)


@pytest.mark.parametrize("is_secure", [False, True])
async def test_a_cancel_at_any_step_of_a_connection_leaves_nothing(
    is_secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = server_context(tmp_path)
    monkeypatch.setenv(CA_VARIABLES[0], str(tmp_path / "certificate.pem"))
    async with ModelServer(lambda request: OK, tls=context if is_secure else None) as server:
        for steps in range(40):
            async with new_client() as client:
                asking = asyncio.ensure_future(ask(client, server.url))
                for _ in range(steps):
                    await asyncio.sleep(0)
                asking.cancel()
                assert await ask(client, server.url) == (200, b"fine")
                await asyncio.wait([asking])


async def test_a_client_that_was_closed_keeps_no_connection_that_comes_late() -> None:
    reached = asyncio.Event()

    async def lookup(host: str, port: int) -> Sequence[AddressInfo]:
        reached.set()
        await asyncio.sleep(0.01)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

    async with ModelServer([OK, OK]) as server:
        client = await Client(10, lookup=lookup).open()
        asking = asyncio.ensure_future(ask(client, server.url.replace("127.0.0.1", "late.example")))
        await reached.wait()
        await client.close()
        with pytest.raises(HttpError, match="the client was closed"):
            await asking
        assert not client._pool._routes


def test_a_reason_names_no_addresses() -> None:
    several = "Multiple exceptions: [Errno 111] Connect call failed ('::1', 9, 0, 0), [Errno 111] Connect call failed"
    for text in (several, "Connect call failed ('127.0.0.1', 9)"):
        assert reason_of(ConnectionRefusedError(errno.ECONNREFUSED, text)) == os.strerror(errno.ECONNREFUSED)


async def test_requests_at_the_same_time_share_a_lookup_and_its_failure() -> None:
    asked: list[str] = []

    async def lookup(host: str, port: int) -> Sequence[AddressInfo]:
        asked.append(host)
        await asyncio.sleep(0)
        if host == "nowhere.example":
            raise OSError("no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

    async with new_client(lookup=lookup) as client, ModelServer([OK] * 5) as server:
        url = server.url.replace("127.0.0.1", "here.example")
        assert await asyncio.gather(*(ask(client, url) for _ in range(5))) == [(200, b"fine")] * 5
        failed = await asyncio.gather(
            *(ask(client, "http://nowhere.example") for _ in range(5)), return_exceptions=True
        )
        assert {str(each) for each in failed} == {"no such name"}
        assert asked == ["here.example", "nowhere.example"]


async def test_the_next_address_is_tried_where_one_refuses() -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))

    async def lookup(host: str, port: int) -> Sequence[AddressInfo]:
        addresses = ("::1", port), ("127.0.0.2", port), ("127.0.0.1", port)
        families = socket.AF_INET6, socket.AF_INET, socket.AF_INET
        return [
            (family, socket.SOCK_STREAM, 0, "", address) for family, address in zip(families, addresses, strict=True)
        ]

    async with new_client(lookup=lookup) as client, ModelServer([OK]) as server:
        assert await ask(client, server.url.replace("127.0.0.1", "many.example")) == (200, b"fine")


# Proxies


class Tunnel:
    """A proxy that connects, and counts what it was asked for."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self.heads: list[str] = []

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        port = self._server.sockets[0].getsockname()[1]
        return f"{'https' if self._tls else 'http'}://me:pass%20word@127.0.0.1:{port}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        there, back = await asyncio.open_connection("127.0.0.1", int(head.split()[1].rpartition(":")[2]))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        finally:
            writer.close()
            back.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    writer.close()


@pytest.mark.parametrize("is_secure", [False, True], ids=["http proxy", "https proxy"])
async def test_a_request_with_tls_through_a_proxy(
    is_secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = server_context(tmp_path)
    monkeypatch.setenv(CA_VARIABLES[0], str(tmp_path / "certificate.pem"))
    tunnel = Tunnel(context if is_secure else None)
    async with ModelServer([OK, OK], tls=context) as server, tunnel as proxy, new_client() as client:
        for _ in range(2):
            assert await ask(client, server.url, proxy) == (200, b"fine")
        [head] = tunnel.heads  # the connection is used again
        assert head.startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\n")
        assert "proxy-authorization: Basic bWU6cGFzcyB3b3Jk\r\n" in head
        assert all("proxy-authorization" not in request.headers for request in server.requests)


async def test_a_proxy_that_is_given_no_trusted_server_says_so(tmp_path: Path) -> None:
    context = server_context(tmp_path)
    async with ModelServer([OK], tls=context) as server, Tunnel(None) as proxy, new_client() as client:
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(client, server.url, proxy)
        assert server.requests == []


async def test_a_proxy_that_forwards_gets_its_own_password_and_the_whole_url() -> None:
    async with ModelServer([OK]) as proxy, new_client() as client:
        via = proxy.url.replace("http://", "http://me:secret@")
        assert await ask(client, "http://x.example:8080/a?b", via) == (200, b"fine")
        request = proxy.requests[0]
        assert (request.path, request.headers["host"]) == ("http://x.example:8080/a?b", "x.example:8080")
        assert request.headers["proxy-authorization"].startswith("Basic ")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n", b"SSH-2.0-x\r\n", b""])
async def test_a_proxy_that_does_not_connect_is_the_reason(answer: bytes) -> None:
    left = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if not answer:
            writer.close()
        await reader.read()
        left.set()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server, new_client() as client:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ProxyError, match=r"403 No|not HTTP|closed the connection"):
            await ask(client, "https://x.example", f"http://127.0.0.1:{port}")
        async with asyncio.timeout(10):
            await left.wait()
