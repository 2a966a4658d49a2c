"""Requests to the client, and the end of a connection: no caller hangs, and nothing is written after it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from outrider.acp.connection import ClosedError, Connection
from outrider.acp.handlers import Method
from outrider.jsonrpc import CANCELLED, INTERNAL_ERROR, RpcError
from tests.acp.conftest import Anything, Wired


class Text(msgspec.Struct):
    content: str


class Empty(msgspec.Struct):
    note: str = ""


def asking(wired: Wired, wanted: Any = Text) -> asyncio.Task[Any]:
    return asyncio.ensure_future(wired.connection.request("fs/read", {"path": "/a"}, wanted))


async def test_the_client_is_asked_and_its_answers_find_whoever_asked(wired: Wired) -> None:
    first, second = asking(wired), asking(wired)
    await wired.until(lambda: len(wired.written) == 2)
    one, two = wired.messages
    assert one == {"jsonrpc": "2.0", "id": one["id"], "method": "fs/read", "params": {"path": "/a"}}
    assert one["id"] != two["id"]
    wired.send({"id": two["id"], "result": {"content": "2", "more": 1}}, {"id": one["id"], "result": {"content": "1"}})
    assert ((await first).content, (await second).content) == ("1", "2")


@pytest.mark.parametrize("result", [{}, None])
async def test_an_empty_answer_may_be_null(wired: Wired, result: Any) -> None:
    task = asking(wired, Empty)
    await wired.until(lambda: wired.written)
    wired.send({"id": 1, "result": result, "error": None})
    assert await task == Empty()


async def test_an_error_of_the_client_is_raised(wired: Wired) -> None:
    task = asking(wired)
    await wired.until(lambda: wired.written)
    wired.send({"id": 1, "error": {"code": -32002, "message": "no such file", "data": {"uri": "/a"}}})
    with pytest.raises(RpcError) as caught:
        await task
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32002, "no such file", {"uri": "/a"})


@pytest.mark.parametrize(
    "answer",
    [{"result": {"content": 5}}, {"result": {}}, {"result": None}, {"error": "x"}, {"error": {"code": "x"}}],
)
async def test_an_answer_that_cannot_be_understood_is_an_error_that_says_so(wired: Wired, answer: Any) -> None:
    task = asking(wired)
    await wired.until(lambda: wired.written)
    wired.send({"id": 1, **answer})
    with pytest.raises(RpcError, match=r"The client's response to fs/read is not valid: .*\.") as caught:
        await task
    assert caught.value.code == INTERNAL_ERROR


async def test_an_answer_to_nothing_is_ignored(wired: Wired) -> None:
    wired.send({"id": 1, "result": {}}, {"id": "x", "error": {"code": 1, "message": ""}}, {"id": None, "result": 1})
    wired.send({"result": {}}, {"id": [1], "result": {}})
    assert wired.written == []


async def test_whoever_stops_waiting_cancels_the_request_once(wired: Wired) -> None:
    task = asking(wired)
    await wired.until(lambda: wired.written)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert wired.messages[1:] == [{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}]
    wired.send({"id": 1, "error": {"code": CANCELLED, "message": "cancelled"}})
    assert len(wired.written) == 2


async def test_a_request_that_was_answered_is_not_cancelled_any_more(wired: Wired) -> None:
    task = asking(wired)
    await wired.until(lambda: wired.written)
    wired.send({"id": 1, "result": {"content": "x"}})
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(wired.written) == 1


async def test_what_is_told_goes_out_in_order(wired: Wired) -> None:
    taken = wired.connection.notify("a", {"n": 1})
    wired.connection.notify("b", None)
    wired.connection.notify("c", {"text": "two\nlines"})
    assert [each["method"] for each in wired.messages] == ["a", "b", "c"]
    assert taken == len(wired.written[0])


async def test_closing_fails_what_was_asked_and_cancels_what_runs(wired: Wired) -> None:
    task = asking(wired)
    wired.ask(1, "wait", name="x")
    wired.tell("slow", name="y")
    await wired.until(lambda: "y begins" in wired.trace)
    wired.connection.close()
    with pytest.raises(ClosedError) as caught:
        await task
    assert isinstance(caught.value, ConnectionResetError)
    await wired.connection.aclose()
    assert sorted(wired.trace[-2:]) == ["x ends", "y ends"]
    assert len(wired.written) == 1


async def test_after_the_end_nothing_is_read_written_or_asked(wired: Wired) -> None:
    await wired.connection.aclose()
    wired.ask(1, "add", a=1)
    wired.send(b"nonsense")
    assert wired.connection.notify("a", {}) == 0
    with pytest.raises(ClosedError):
        await wired.connection.request("a", {}, Any)
    assert wired.written == []


async def test_an_end_in_good_order_answers_what_runs_and_refuses_what_comes(wired: Wired) -> None:
    wired.ask(1, "wait", name="x")
    wired.ask(2, "stubborn", name="y")
    await wired.until(lambda: len(wired.trace) == 2)
    ending = asyncio.ensure_future(wired.connection.aclose())
    await asyncio.sleep(0)
    wired.ask(3, "add", a=1)
    await ending
    assert wired.answers(1)[0]["error"]["code"] == CANCELLED
    assert wired.answers(2)[0]["result"]["stopped"] == "yes"
    assert "closing" in wired.answers(3)[0]["error"]["message"]


async def test_what_runs_may_be_given_time_to_finish(wired: Wired) -> None:
    wired.ask(1, "wait", name="x")
    asked = asking(wired)
    await wired.until(lambda: wired.trace)
    ending = asyncio.ensure_future(wired.connection.finish(10))
    with pytest.raises(ClosedError):
        await asked
    wired.gate("x").set()
    await ending
    assert "result" in wired.answers(1)[0]


async def test_a_handler_that_does_not_end_does_not_hold_up_the_end(wired: Wired) -> None:
    wired.ask(1, "deaf", name="x")
    await wired.until(lambda: wired.trace)
    await wired.connection.aclose(timeout=0.05)
    wired.gate("x").set()
    await wired.until(lambda: "x ends" in wired.trace)
    assert wired.written == []


async def test_a_handler_may_end_the_connection_that_called_it(wired: Wired) -> None:
    async def end(_: Anything) -> None:
        await both.aclose()
        wired.trace.append("ended")

    both = Connection(wired.written.append, {"end": Method(Anything, end)}, {})
    both.feed(b'{"jsonrpc":"2.0","id":1,"method":"end"}\n')
    await wired.until(lambda: wired.trace)
    assert wired.written == []


async def test_a_client_that_cannot_be_written_to_closes_the_connection(wired: Wired) -> None:
    wired.ask(1, "wait", name="x")
    task = asking(wired)
    await wired.until(lambda: wired.trace and wired.written)
    wired.broken = BrokenPipeError()
    assert wired.connection.notify("a", {}) == 0
    assert not wired.connection.is_open
    with pytest.raises(ClosedError):
        await task
    await wired.connection.aclose()
    assert wired.trace[-1] == "x ends"
