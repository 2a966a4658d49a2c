"""What the mock server can answer: a trivial client that sends the same request on some sockets, and reads."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from typing import Any
from urllib.parse import urlsplit

SOCKETS = 16
ROUNDS = 300


def measure(url: str) -> dict[str, float]:
    """Requests per second, and CPU seconds of the server for each."""
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    sockets = [socket.create_connection((address.hostname, address.port)) for _ in range(SOCKETS)]
    _ask_all(sockets, 20)
    before, started = _stats(url), time.perf_counter()
    _ask_all(sockets, ROUNDS)
    seconds, after = time.perf_counter() - started, _stats(url)
    for each in sockets:
        each.close()
    asked = after["requests"] - before["requests"]
    return {"per_second": asked / seconds, "cpu_seconds": (after["cpu_seconds"] - before["cpu_seconds"]) / asked}


def _ask_all(sockets: list[socket.socket], rounds: int) -> None:
    body = b'{"model":"turns-20","stream":true,"messages":[{"role":"user","content":"%b"}]}' % (b"x" * 2000)
    request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: l\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    for _ in range(rounds):
        for each in sockets:
            each.sendall(request)
        for each in sockets:
            received = b""
            while not received.endswith(b"[DONE]\n\n"):
                received += each.recv(65_536)


def _stats(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/stats") as response:
        stats: dict[str, Any] = json.load(response)
    return stats
