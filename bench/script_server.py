"""A model on loopback that makes the calls of a script, one reply a request, and streams as a model does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Calls: TypeAlias = Sequence[tuple[str, dict[str, Any]]]
"""The tools that one reply calls, with their arguments."""
PIECE, PAUSE = 40, 0.01
"""Characters of arguments in one event, and seconds between two events: some 1,000 tokens a second."""


@contextmanager
def playing(script: Sequence[Calls]) -> Iterator[str]:
    """Serve the replies of a script, then "Done."; the name of the model for `--model`."""
    replies = iter([*script, ()])
    numbers = iter(range(1, 10_000))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Answer with the next reply."""
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for event in _events(next(replies, ()), numbers):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
                time.sleep(PAUSE)
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1#script"
        server.shutdown()


def _events(calls: Calls, numbers: Iterator[int]) -> Iterator[bytes]:
    """A reply of the OpenAI Chat API, event by event."""
    yield _event({"role": "assistant", "content": "I work on it." if calls else "Done."})
    for index, (name, arguments) in enumerate(calls):
        head = {"index": index, "id": f"call_{next(numbers):024}", "type": "function"}
        yield _event({"tool_calls": [head | {"function": {"name": name, "arguments": ""}}]})
        text = json.dumps(arguments)
        for start in range(0, len(text), max(PIECE, len(text) // 200)):
            piece = text[start : start + max(PIECE, len(text) // 200)]
            yield _event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _event({}, "tool_calls" if calls else "stop")
    yield b"data: [DONE]\n\n"


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "script",
        "choices": [choice],
    }
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"
