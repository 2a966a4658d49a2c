"""A mock model server on loopback, in a process of its own: `python -m bench.mockserver --port 0`.

It speaks OpenAI Chat and Responses, Anthropic Messages and Gemini, streamed or whole as the request asks. The model
calls the tool `answer` until the request has as many tool results as the model's name says (`turns-20`), then it says
"done"; `fan-100` calls it so often in one reply. Nothing is decoded: tool results are counted by their marker, and
answers are bytes that were made beforehand.

A request with `drip` in its path, query or headers is streamed event by event, with a pause between. `GET /stats` tells
the requests so far and the CPU seconds of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench import mock_answers
from bench.mock_answers import PLACE, Api, Canned

PAUSE = 0.002
"""Seconds between two events of a dripping answer."""
EDGE = 16_384
"""What a request has beside its messages stands in so many bytes at either end."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TURNS = re.compile(rb"(turns|fan)-(\d+)")
_STREAM = re.compile(rb'"stream": ?true')
_ENDINGS = {b"/messages": mock_answers.ANTHROPIC, b"/responses": mock_answers.RESPONSES}
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description="A mock model server on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0: one that is free")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args().port))


@contextlib.contextmanager
def running(python: str = sys.executable) -> Iterator[str]:
    """A server in a process of its own; its URL."""
    process = subprocess.Popen(
        [python, "-m", "bench.mockserver"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
    finally:
        process.communicate()


async def _serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    model = Model()
    server = await loop.create_server(lambda: Connection(model), "127.0.0.1", port, backlog=1024)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


class Model:
    """The model that all connections ask."""

    def __init__(self) -> None:
        self.requests = 0

    def answer(self, path: bytes, request: bytearray, body_at: int) -> tuple[Canned, bool]:
        """The answer to a request, and whether it is to be streamed."""
        # The model's name and the switches stand before or after the messages, never among them.
        edges = request if len(request) < 2 * EDGE else request[:EDGE] + request[-EDGE:]
        api = _api(path, edges)
        wanted = _TURNS.search(edges)
        results = sum(request.count(marker, body_at) for marker in api.markers)
        self.requests += 1
        canned = api.text
        if wanted is not None:
            at_once, in_turn = (1, int(wanted[2])) if wanted[1] == b"turns" else (int(wanted[2]), 1)
            canned = api.calls(at_once) if results < in_turn else api.text
        return canned, b":streamGenerateContent" in path or _STREAM.search(edges) is not None

    def stats(self) -> bytes:
        """What has been answered so far, and what it cost."""
        return json.dumps({"requests": self.requests, "cpu_seconds": time.process_time()}).encode()


class Connection(asyncio.Protocol):
    """One keep-alive connection: as much of HTTP as clients that tell the length of a body need."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._buffer = bytearray()
        self._body_at = 0
        """Where the body of the request begins; 0 before its head has come."""
        self._end = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer as soon as a request is complete."""
        self._buffer += data
        if not self._body_at:
            head = self._buffer.find(b"\r\n\r\n")
            if head < 0:
                return
            length = _LENGTH.search(self._buffer, 0, head)
            self._body_at = head + 4
            self._end = self._body_at + (int(length[1]) if length else 0)
        if len(self._buffer) < self._end:
            return
        # Clients wait for an answer before they ask again, so this is all there is: it need not be copied.
        request, self._buffer = self._buffer, bytearray()
        body_at, self._body_at = self._body_at, 0
        self._answer(request, body_at)

    def _answer(self, request: bytearray, body_at: int) -> None:
        path = bytes(request[: request.index(b"\r\n")]).split(b" ")[1]
        if path == b"/stats":
            self._transport.write(_json(200, self._model.stats()))
            return
        if not request.startswith(b"POST"):
            self._transport.write(_json(404, b'{"error":{"message":"There is no such path."}}'))
            return
        canned, streamed = self._model.answer(path, request, body_at)
        number = b"%08d" % self._model.requests
        if not streamed:
            self._transport.write(_json(200, canned.whole.replace(PLACE, number)))
        elif request.find(b"drip", 0, body_at) >= 0:
            self._drip([event.replace(PLACE, number) for event in canned.events])
        else:
            body = canned.stream.replace(PLACE, number)
            self._transport.write(_STREAM_HEAD + b"content-length: %d\r\n\r\n%b" % (len(body), body))

    def _drip(self, events: list[bytes]) -> None:
        self._transport.write(_STREAM_HEAD + b"transfer-encoding: chunked\r\n\r\n")
        loop = asyncio.get_running_loop()
        for number, event in enumerate([*events, b""]):
            chunk = b"%x\r\n%b\r\n" % (len(event), event)
            loop.call_later(PAUSE * number, self._transport.write, chunk)


def _api(path: bytes, edges: bytearray) -> Api:
    path = path.partition(b"?")[0]
    if path.endswith(b"/chat/completions"):
        return mock_answers.CHAT_WITH_USAGE if b'"include_usage"' in edges else mock_answers.CHAT
    return _ENDINGS.get(path[path.rfind(b"/") :], mock_answers.GEMINI)


def _json(status: int, body: bytes) -> bytes:
    head = b"HTTP/1.1 %d OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body


if __name__ == "__main__":
    main()
