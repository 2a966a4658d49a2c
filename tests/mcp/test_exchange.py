"""Requests under way, without a transport: time-outs, and messages that belong to no request."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import McpClosedError, McpError, McpTimeoutError
from outrider.jsonrpc import LineSplitter
from outrider.mcp.exchange import Exchange
from outrider.mcp.server_limits import Bounds


class Person:
    """A receiver whose answers wait until they are released."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.told: list[str] = []

    async def answer(self, method: str, params: msgspec.Raw) -> Any:
        await self.released.wait()
        return {"action": "decline"}

    def notified(self, method: str, params: msgspec.Raw) -> None:
        self.told.append(method)

    def closed(self, reason: Exception) -> None:
        raise AssertionError


def receive_often(exchange: Exchange, line: bytes, times: int) -> None:
    for _ in range(times):
        exchange.receive(line, lambda line: None)


async def test_the_time_of_a_request_stops_while_a_person_answers() -> None:
    person, sent = Person(), list[bytes]()
    exchange = Exchange("s", person, Bounds())
    pending = exchange.begin("tools/call", {}, timeout=1000)
    exchange.receive(b'{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}', sent.append)
    exchange._time_over(pending)
    assert not pending.future.done()
    person.released.set()
    while not sent:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert json.loads(sent[0]) == {"jsonrpc": "2.0", "id": "q", "result": {"action": "decline"}}
    exchange._time_over(pending)
    with pytest.raises(McpTimeoutError, match="within 1000 seconds"):
        await exchange.wait(pending, sent.append)
    assert json.loads(sent[1])["params"]["requestId"] == pending.id


async def test_the_server_may_cancel_its_own_request() -> None:
    person, sent = Person(), list[bytes]()
    exchange = Exchange("s", person, Bounds())
    exchange.receive(b'{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}', sent.append)
    for params in (b'{"requestId":"other"}', b'{"requestId":[]}', b"{}", b"7", b'{"requestId":"q"}'):
        assert exchange._answers
        exchange.receive(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":%b}' % params, sent.append)
    while exchange._answers:
        await asyncio.sleep(0)
    assert sent == []


async def test_a_failure_to_ask_is_told_to_the_server() -> None:
    class Broken(Person):
        async def answer(self, method: str, params: msgspec.Raw) -> Any:
            raise KeyError("a secret of the front end")

    sent: list[bytes] = []
    exchange = Exchange("s", Broken(), Bounds())
    exchange.receive(b'{"jsonrpc":"2.0","id":7,"method":"elicitation/create"}', sent.append)
    while not sent:
        await asyncio.sleep(0)
    assert json.loads(sent[0])["error"] == {"code": -32603, "message": "elicitation/create failed: KeyError"}


async def test_a_steady_trickle_of_messages_is_no_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    exchange = Exchange("s", Person(), Bounds(stray_messages=100, stray_rate=10))
    line = b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'
    for _ in range(1_000):
        now += 0.1
        exchange.receive(line, lambda line: None)
    with pytest.raises(McpError, match="too many messages"):
        receive_often(exchange, line, 101)


async def test_endless_pings_are_a_flood() -> None:
    sent: list[bytes] = []
    exchange = Exchange("s", Person(), Bounds(stray_messages=100))
    for number in range(100):
        exchange.receive(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number, sent.append)
    assert len(sent) == 100
    with pytest.raises(McpError, match="too many messages"):
        receive_often(exchange, b'{"jsonrpc":"2.0","id":1,"method":"ping"}', 10_000)


async def test_endless_progress_is_a_flood() -> None:
    exchange = Exchange("s", Person(), Bounds(stray_messages=100))
    pending = exchange.begin("tools/call", {}, None, lambda progress: None)
    line = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d}}' % pending.id
    with pytest.raises(McpError, match="too many messages"):
        receive_often(exchange, line, 100_000)
    exchange.forget(pending)


async def test_the_time_of_a_request_stops_while_it_waits_for_a_person() -> None:
    exchange = Exchange("s", Person(), Bounds())
    pending = exchange.begin("tools/call", {}, 1000)
    pending.on_hold = True
    exchange._time_over(pending)
    assert not pending.future.done()
    pending.on_hold = False
    exchange._time_over(pending)
    with pytest.raises(McpTimeoutError):
        await exchange.wait(pending, lambda line: None)


async def test_progress_begins_the_time_again() -> None:
    exchange = Exchange("s", Person(), Bounds())
    pending = exchange.begin("tools/call", {}, 1000, lambda progress: None)
    before = pending.until
    told = {"progressToken": pending.id, "progress": 1}
    line = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
    exchange.receive(json.dumps(line).encode(), lambda line: None)
    assert before is not None
    assert pending.until is not None
    assert pending.until > before
    exchange.forget(pending)


async def test_each_request_has_its_own_time() -> None:
    exchange = Exchange("s", Person(), Bounds())
    long, short, endless, done = (exchange.begin("tools/call", {}, seconds) for seconds in (1000, 0.1, None, 0.01))
    exchange.receive(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % done.id, lambda line: None)
    assert bytes(await exchange.wait(done, lambda line: None)) == b"{}"
    with pytest.raises(McpTimeoutError, match=r"within 0\.1 seconds"):
        await exchange.wait(short, lambda line: None)
    assert not long.future.done()
    assert not endless.future.done()
    exchange.close(McpClosedError("gone"))
    for pending in (long, endless):
        with pytest.raises(McpClosedError):
            await exchange.wait(pending, lambda line: None)


async def test_the_first_requests_are_never_cancelled() -> None:
    sent: list[bytes] = []
    exchange = Exchange("s", Person(), Bounds())
    for method in ("initialize", "server/discover"):
        pending = exchange.begin(method, {}, timeout=1000)
        exchange._time_over(pending)
        with pytest.raises(McpTimeoutError, match="set its startup_timeout"):
            await exchange.wait(pending, sent.append)
    assert sent == []


async def test_a_message_over_the_limit_fails_the_request_that_it_answers() -> None:
    exchange = Exchange("s", Person(), Bounds())
    first, second = (exchange.begin("tools/call", {}, 1000) for _ in range(2))
    lines = LineSplitter(1_000)
    answer = b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [' % second.id
    assert list(lines.split(answer)) + list(lines.split(b"x" * 2_000)) == [None]
    exchange.skip(lines.skipped)
    assert (first.future.done(), second.future.done()) == (False, True)
    exchange.skip(b'{"result": {"content": [')  # the id comes last, and is not known
    assert first.future.done()
    for pending in (first, second):
        with pytest.raises(McpError, match=r"more than 32\.0 MiB"):
            await exchange.wait(pending, lambda line: None)


async def test_closing_fails_every_request() -> None:
    exchange = Exchange("s", Person(), Bounds())
    waiting = [exchange.begin("tools/list", {}, None) for _ in range(3)]
    exchange.close(McpClosedError("gone"))
    for pending in waiting:
        with pytest.raises(McpClosedError, match="gone"):
            await exchange.wait(pending, lambda line: None)
    assert not exchange._pending


TEXTS = st.text(alphabet='ab"\\{}[]:,\x00\x1b\u2028é', max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"])
MESSAGES = st.dictionaries(
    KEYS, JSON | st.sampled_from(["2.0", 1, "ping", "notifications/progress", {"progressToken": 1}]), max_size=6
).map(lambda value: json.dumps(value).encode())


@given(lines=st.lists(st.binary(max_size=60) | MESSAGES, max_size=30))
def test_any_lines_end_a_request_at_most_once_and_raise_nothing_else(lines: list[bytes]) -> None:
    async def feed() -> None:
        exchange = Exchange("s", Person(), Bounds(server_requests=2))
        pending = exchange.begin("tools/call", {}, 1000, lambda progress: None)
        for line in lines:
            exchange.receive(line.replace(b"\n", b" "), lambda line: None)
        exchange.close(McpClosedError("gone"))
        with contextlib.suppress(McpError):
            await exchange.wait(pending, lambda line: None)
        await asyncio.sleep(0)
        assert not exchange._pending

    asyncio.run(feed())
