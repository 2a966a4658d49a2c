"""Any order of requests both ways, cancels and ends: each request is answered once, and nothing after the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from outrider.acp.connection import ClosedError
from outrider.jsonrpc import CANCELLED, INVALID_REQUEST, RpcError
from tests.acp.conftest import Wired
from tests.lengths import examples

IDS = st.sampled_from([0, 1, "1", "a", None])
NAMES = st.sampled_from(["x", "y"])


class TwoSides(RuleBasedStateMachine):
    """The client is this machine; what it was told is compared with what it may expect."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.wired = Wired()
        self.seen = 0
        self.closed_at: int | None = None
        self.waiting: list[Any] = []
        """Ids of the client's requests that have no answer yet."""
        self.cancelled: list[Any] = []
        self.refusals = 0
        """Requests whose ids were in use."""
        self.asked: dict[int, asyncio.Task[Any]] = {}
        """Our requests that wait, by id."""
        self.given_up: set[int] = set()

    def inside(self, function: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        """Call it in the loop."""

        async def call() -> None:
            function(*args, **kwargs)

        self.loop.run_until_complete(call())
        self.look()

    @rule(
        id=IDS,
        method=st.sampled_from(["add", "nothing", "wait", "stubborn", "fail", "nope"]),
        name=NAMES,
        cancel=st.booleans(),
    )
    def ask(self, id: Any, method: str, name: str, cancel: bool) -> None:
        self.inside(self.ask_and_cancel, id, method, name, cancel)

    def ask_and_cancel(self, id: Any, method: str, name: str, cancel: bool) -> None:
        self.look()
        if self.closed_at is None and id in self.waiting:
            self.refusals += 1
        elif self.closed_at is None:
            self.waiting.append(id)
        self.wired.ask(id, method, name=name, a=1)
        if cancel:
            self.wired.tell("$/cancel_request", requestId=id)
            self.cancelled.append(id)

    @rule(method=st.sampled_from(["note", "bad", "slow", "unknown"]), name=NAMES)
    def tell(self, method: str, name: str) -> None:
        self.inside(self.wired.tell, method, name=name)

    @rule(id=IDS)
    def cancel(self, id: Any) -> None:
        self.cancelled.append(id)
        self.inside(self.wired.tell, "$/cancel_request", requestId=id)

    @rule(name=NAMES)
    def open_gate(self, name: str) -> None:
        self.wired.gate(name).set()
        self.turn(5)
        self.wired.gates.pop(name)

    @rule(turns=st.integers(1, 4))
    def turn(self, turns: int) -> None:
        async def some() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        self.loop.run_until_complete(some())
        self.look()

    @rule()
    def ask_the_client(self) -> None:
        task = self.loop.create_task(self.wired.connection.request("fs/read", {}, dict))
        before = len(self.wired.written)
        self.turn(1)
        asked = [each["id"] for each in self.wired.messages[before:] if each.get("method") == "fs/read"]
        if self.closed_at is None:
            self.asked[asked[0]] = task
        else:
            assert not asked
            assert isinstance(task.exception(), ClosedError)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), good=st.booleans())
    def client_answers(self, data: st.DataObject, good: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.asked)))
        task = self.asked.pop(number)
        answer = {"result": {"n": number}} if good else {"error": {"code": number, "message": "no"}}
        self.inside(self.wired.send, {"id": number, **answer}, {"id": number, **answer})
        self.turn(3)
        if self.closed_at is not None:
            assert isinstance(task.exception(), ClosedError)
        elif good:
            assert task.result() == {"n": number}
        else:
            error = task.exception()
            assert isinstance(error, RpcError)
            assert error.code == number

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.asked)))
        task = self.asked.pop(number)
        was_open = self.closed_at is None
        task.cancel()
        self.turn(3)
        assert task.cancelled() or isinstance(task.exception(), ClosedError)
        if was_open:
            self.given_up.add(number)

    @precondition(lambda self: self.closed_at is None)
    @rule(gently=st.booleans())
    def end(self, gently: bool) -> None:
        if gently:
            self.loop.run_until_complete(self.wired.connection.aclose())
            self.look()
            assert not self.waiting
        else:
            self.inside(self.wired.connection.close)
            self.waiting.clear()
        self.closed_at = len(self.wired.written)

    @invariant()
    def nothing_follows_the_end(self) -> None:
        assert self.closed_at in (None, len(self.wired.written))

    def look(self) -> None:
        """Take each new answer off the list of those that are due."""
        for line in self.wired.written[self.seen :]:
            message = json.loads(line)
            self.seen += 1
            if "method" in message:
                continue
            code = message.get("error", {}).get("code")
            if code == INVALID_REQUEST and message["id"] is None:
                self.refusals -= 1
                continue
            self.waiting.remove(message["id"])  # raises if it is answered a second time
            if code == CANCELLED:
                assert message["id"] in self.cancelled or not self.wired.connection.is_open
            self.cancelled = [each for each in self.cancelled if each in self.waiting]

    def teardown(self) -> None:
        try:
            if self.closed_at is None:
                self.everything_is_answered()
            self.loop.run_until_complete(self.wired.connection.aclose())
            self.turn(3)
            assert all(isinstance(task.exception(), ClosedError) for task in self.asked.values())
            assert not asyncio.all_tasks(self.loop)
        finally:
            self.loop.close()

    def everything_is_answered(self) -> None:
        for _ in range(2):
            for name in ("x", "y"):
                self.wired.gate(name).set()
            self.turn(20)
        assert self.waiting == []
        assert self.refusals == 0
        cancels = [each for each in self.wired.messages if each.get("method") == "$/cancel_request"]
        assert sorted(each["params"]["requestId"] for each in cancels) == sorted(self.given_up)


TestTwoSides = TwoSides.TestCase
TestTwoSides.settings = settings(max_examples=examples(100), stateful_step_count=25)
