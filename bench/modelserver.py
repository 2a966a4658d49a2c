"""A model server on loopback, in a process of its own: canned answers, as fast as a socket allows.

It speaks Anthropic Messages and OpenAI Chat, streaming. A request with fewer than `turns` tool results gets a
tool call, any other a text. Paths that begin with /drip get one event after the other, with a pause between.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping

EVENTS = 24
"""Text deltas in an answer."""
PAUSE = 0.002


def main() -> None:
    """Serve until the parent goes away. The number of turns is the argument; the port is printed."""
    asyncio.run(_serve(int(sys.argv[1])))


@contextlib.contextmanager
def running(turns: int) -> Iterator[str]:
    """A server in a process of its own; its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.modelserver", str(turns)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.communicate()


async def _serve(turns: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(turns), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


class _Connection(asyncio.Protocol):
    """One keep-alive connection: just enough of HTTP for our own clients."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._buffer = bytearray()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end]).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self._buffer) < end + 4 + length:
            return
        body = self._buffer[end + 4 : end + 4 + length]
        path = bytes(self._buffer[: self._buffer.find(b"\r\n")]).split(b" ")[1]
        del self._buffer[: end + 4 + length]
        self._answer(path, body)

    def _answer(self, path: bytes, body: bytearray) -> None:
        if path.endswith(b"/messages"):
            done = body.count(b'"tool_result"')
            events = _ANTHROPIC_TEXT if done >= self._turns else _ANTHROPIC_CALL
        else:
            done = body.count(b'"role":"tool"') + body.count(b'"role": "tool"')
            events = _CHAT_TEXT if done >= self._turns else _CHAT_CALL
        if path.startswith(b"/drip"):
            self._drip(events)
        else:
            self._transport.write(_whole(b"".join(events)))

    def _drip(self, events: list[bytes]) -> None:
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        loop = asyncio.get_running_loop()
        for number, event in enumerate([*events, b""]):
            chunk = b"%x\r\n%b\r\n" % (len(event), event)
            loop.call_later(PAUSE * number, self._transport.write, chunk)


def _whole(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body


def _anthropic(*events: Mapping[str, object]) -> list[bytes]:
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def _chat(*chunks: Mapping[str, object]) -> list[bytes]:
    common = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    return [*(f"data: {json.dumps({**common, **chunk})}\n\n".encode() for chunk in chunks), b"data: [DONE]\n\n"]


def _choice(delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


_START = {
    "type": "message_start",
    "message": {"id": "m1", "type": "message", "role": "assistant", "model": "bench", "content": [],
                "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1}},
}  # fmt: skip


def _text_event(number: int) -> dict[str, object]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"word {number} "}}


def _stop(reason: str) -> tuple[dict[str, object], ...]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 30}}, {"type": "message_stop"}


_ANTHROPIC_TEXT = _anthropic(
    _START,
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    *map(_text_event, range(EVENTS)),
    {"type": "content_block_stop", "index": 0},
    *_stop("end_turn"),
)
_ANTHROPIC_CALL = _anthropic(
    _START,
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    *map(_text_event, range(EVENTS - 4)),
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1,
     "content_block": {"type": "tool_use", "id": "toolu_1", "name": "answer", "input": {}}},
    *({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": piece}}
      for piece in ('{"pa', 'th": ', '"src/', 'main.py"}')),
    {"type": "content_block_stop", "index": 1},
    *_stop("tool_use"),
)  # fmt: skip
_USAGE = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 30, "total_tokens": 39}}
_CHAT_TEXT = _chat(
    _choice({"role": "assistant", "content": ""}),
    *(_choice({"content": f"word {number} "}) for number in range(EVENTS)),
    _choice({}, "stop"),
    _USAGE,
)
_CHAT_CALL = _chat(
    _choice({"role": "assistant", "content": ""}),
    *(_choice({"content": f"word {number} "}) for number in range(EVENTS - 4)),
    _choice({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                             "function": {"name": "answer", "arguments": ""}}]}),
    *(_choice({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
      for piece in ('{"pa', 'th": ', '"src/', 'main.py"}')),
    _choice({}, "tool_calls"),
    _USAGE,
)  # fmt: skip

if __name__ == "__main__":
    main()
