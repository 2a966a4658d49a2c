"""A connection with a few real handlers, and what it has written."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from outrider.acp.connection import Connection
from outrider.acp.handlers import Method


class Add(msgspec.Struct):
    a: int
    b: int = 0


class Named(msgspec.Struct):
    name: str


class Anything(msgspec.Struct):
    value: Any = None


class Wired:
    """Both ends of a connection: feed it with `send`, read what it wrote from `written`."""

    def __init__(self, **options: Any) -> None:
        self.written: list[bytes] = []
        self.trace: list[str] = []
        """What the handlers did, in order."""
        self.gates: dict[str, asyncio.Event] = {}
        """What `wait` waits for, by name."""
        self.broken: OSError | None = None
        requests = {
            "add": Method(Add, lambda params: {"sum": params.a + params.b}),
            "echo": Method(Anything, lambda params: params),
            "nothing": Method(Anything, lambda _: None),
            "wait": Method(Named, self._wait),
            "stubborn": Method(Named, self._stubborn),
            "deaf": Method(Named, self._deaf),
            "fail": Method(Anything, self._fail),
        }
        notifications = {
            "note": Method(Named, lambda params: self.trace.append(params.name)),
            "slow": Method(Named, self._slow),
            "bad": Method(Anything, self._fail),
        }
        self.connection = Connection(self._write, requests, notifications, **options)

    def send(self, *messages: Any) -> None:
        for message in messages:
            if not isinstance(message, bytes):
                message = json.dumps({"jsonrpc": "2.0", **message}).encode()
            self.connection.feed(message + b"\n")

    def ask(self, id: Any, method: str, **params: Any) -> None:
        self.send({"id": id, "method": method, "params": params})

    def tell(self, method: str, **params: Any) -> None:
        self.send({"method": method, "params": params})

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.written]

    def answers(self, id: Any) -> list[dict[str, Any]]:
        return [each for each in self.messages if "method" not in each and each["id"] == id]

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not true():
                await asyncio.sleep(0)

    async def answer(self, id: Any) -> dict[str, Any]:
        """The one answer to a request."""
        await self.until(lambda: self.answers(id))
        (answer,) = self.answers(id)
        assert answer["jsonrpc"] == "2.0"
        return answer

    async def refusal(self, line: Any) -> dict[str, Any]:
        """The error that a line is answered with at once."""
        before = len(self.written)
        self.send(line)
        (answer,) = self.messages[before:]
        return answer

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    def _write(self, data: bytes) -> None:
        if self.broken:
            raise self.broken
        assert data.endswith(b"\n")
        assert data.count(b"\n") == 1
        self.written.append(data)

    async def _wait(self, params: Named) -> dict[str, str]:
        self.trace.append(f"{params.name} begins")
        try:
            await self.gate(params.name).wait()
        finally:
            self.trace.append(f"{params.name} ends")
        return {"name": params.name}

    async def _stubborn(self, params: Named) -> dict[str, str]:
        try:
            await self._wait(params)
        except asyncio.CancelledError:
            return {"name": params.name, "stopped": "yes"}
        return {"name": params.name}

    async def _deaf(self, params: Named) -> None:
        self.trace.append(f"{params.name} begins")
        while not self.gate(params.name).is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.gate(params.name).wait()
        self.trace.append(f"{params.name} ends")

    async def _slow(self, params: Named) -> None:
        await self._wait(params)

    def _fail(self, params: Anything) -> None:
        raise KeyError(params.value)


@pytest.fixture
async def wired() -> AsyncIterator[Wired]:
    both = Wired()
    yield both
    for gate in both.gates.values():
        gate.set()
    await both.connection.aclose()
