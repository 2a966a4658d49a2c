"""JSON-RPC with a client: each request one answer, everything in order, bad lines refused as the standard wants."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

import msgspec
import pytest

from outrider.acp.connection import Connection
from outrider.acp.handlers import Method
from outrider.errors import ConfigError
from outrider.jsonrpc import (
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RpcError,
)
from tests.acp.conftest import Anything, Wired

TOO_DEEP = (PARSE_ERROR, None) if sys.version_info < (3, 14) else (INVALID_PARAMS, 1)
"""Python 3.14 reads more levels, and no method takes them."""


async def test_a_request_is_answered_with_what_its_handler_gives(wired: Wired) -> None:
    wired.ask(1, "add", a=2, b=3)
    assert await wired.answer(1) == {"jsonrpc": "2.0", "id": 1, "result": {"sum": 5}}


async def test_no_result_is_an_object_without_fields(wired: Wired) -> None:
    wired.ask(1, "nothing")
    assert (await wired.answer(1))["result"] == {}


@pytest.mark.parametrize(
    "id",
    [
        "1",
        "-7",
        "1.50",
        "1e3",
        "123456789012345678901234567890",
        "null",
        '"a"',
        '""',
        '"\\u00e9\\n"',
        '"é"',
        '"\\ud800"',
    ],
)
async def test_an_id_comes_back_as_it_was_written(wired: Wired, id: str) -> None:
    wired.send(b'{"jsonrpc":"2.0","id":%b,"method":"add","params":{"a":1}}' % id.encode())
    await wired.until(lambda: wired.written)
    assert wired.written == [b'{"jsonrpc":"2.0","id":%b,"result":{"sum":1}}\n' % id.encode()]


async def test_requests_run_side_by_side_and_are_answered_as_they_end(wired: Wired) -> None:
    wired.ask("a", "wait", name="a")
    wired.ask("b", "wait", name="b")
    await wired.until(lambda: wired.trace == ["a begins", "b begins"])
    wired.gate("b").set()
    await wired.answer("b")
    assert not wired.answers("a")
    wired.gate("a").set()
    await wired.answer("a")


async def test_what_is_told_before_a_request_is_over_before_it_begins(wired: Wired) -> None:
    wired.tell("note", name="first")
    wired.tell("slow", name="slow")
    wired.ask(1, "wait", name="request")
    wired.tell("note", name="last")
    await wired.until(lambda: "slow begins" in wired.trace)
    for _ in range(10):
        await asyncio.sleep(0)
    assert wired.trace == ["first", "slow begins"]
    wired.gate("slow").set()
    await wired.until(lambda: "last" in wired.trace)
    assert wired.trace == ["first", "slow begins", "slow ends", "request begins", "last"]


async def test_a_request_has_begun_before_what_is_told_after_it(wired: Wired) -> None:
    """A prompt and its cancel in one packet: the cancel must find the prompt."""
    wired.ask(1, "wait", name="prompt")
    wired.tell("note", name="cancel")
    await wired.until(lambda: "cancel" in wired.trace)
    assert wired.trace == ["prompt begins", "cancel"]


async def test_an_answer_goes_out_before_what_its_handler_put_off(wired: Wired) -> None:
    def later(_: Anything) -> None:
        asyncio.get_running_loop().call_soon(both.notify, "later", {})

    written: list[bytes] = []
    both = Connection(written.append, {"go": Method(Anything, later)}, {})
    both.feed(b'{"jsonrpc":"2.0","id":1,"method":"go"}\n')
    await wired.until(lambda: len(written) == 2)
    assert [b'"result"' in line for line in written] == [True, False]


async def test_a_notification_that_fails_or_is_unknown_or_wrong_is_not_answered(wired: Wired) -> None:
    wired.tell("bad", value="x")
    wired.tell("unknown")
    wired.tell("_own/thing", a=1)
    wired.tell("$/progress")
    wired.tell("note", name=5)
    wired.tell("$/cancel_request")
    wired.tell("$/cancel_request", requestId={"a": "\n"})
    wired.tell("note", name="after")
    await wired.until(lambda: wired.trace == ["after"])
    assert wired.written == []


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"{", PARSE_ERROR, None),
        (b"nonsense", PARSE_ERROR, None),
        (b'[{"jsonrpc":"2.0"', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"add","params":{"a":NaN}}', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"x":"\xed\xa0\x80"}', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"add","x":"\\ud800\\x"}', PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo","params":' + b"[" * 9_999 + b"]" * 9_999 + b"}", *TOO_DEEP),
        (b"[" * 1_000_000, PARSE_ERROR, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"add"}]', INVALID_REQUEST, None),
        (b"[]", INVALID_REQUEST, None),
        (b"5", INVALID_REQUEST, None),
        (b'"text"', INVALID_REQUEST, None),
        (b"null", INVALID_REQUEST, None),
        (b"{}", INVALID_REQUEST, None),
        (b'{"jsonrpc":"1.0","id":1,"method":"add"}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":2.0,"id":1,"method":"add"}', INVALID_REQUEST, 1),
        (b'{"id":1,"method":"add"}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":true,"method":"add"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":{"a":"\\n"},"method":"add"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":"x","method":"nope"}', METHOD_NOT_FOUND, "x"),
        (b'{"jsonrpc":"2.0","id":"x","method":"note","params":{"name":"n"}}', METHOD_NOT_FOUND, "x"),
        (b'{"jsonrpc":"2.0","id":"x","method":"$/cancel_request"}', METHOD_NOT_FOUND, "x"),
        (b'{"jsonrpc":"2.0","id":"x","method":"\\ud800"}', METHOD_NOT_FOUND, "x"),
        (b'{"jsonrpc":"2.0","id":2,"method":"add"}', INVALID_PARAMS, 2),
        (b'{"jsonrpc":"2.0","id":2,"method":"add","params":null}', INVALID_PARAMS, 2),
        (b'{"jsonrpc":"2.0","id":2,"method":"add","params":[1,2]}', INVALID_PARAMS, 2),
        (b'{"jsonrpc":"2.0","id":2,"method":"add","params":{"a":"x"}}', INVALID_PARAMS, 2),
    ],
)  # fmt: skip
async def test_a_bad_line_is_refused_with_the_code_that_is_due(wired: Wired, line: bytes, code: int, id: Any) -> None:
    refusal = await wired.refusal(line)
    assert (refusal["error"]["code"], refusal["id"]) == (code, id)
    assert refusal["error"]["message"].endswith(".")
    wired.ask("next", "add", a=1)
    assert (await wired.answer("next"))["result"] == {"sum": 1}


async def test_bad_parameters_are_refused_with_their_place(wired: Wired) -> None:
    refusal = await wired.refusal(b'{"jsonrpc":"2.0","id":2,"method":"add","params":{"a":1,"b":"x"}}')
    assert refusal["error"]["message"] == "The parameters of add are not valid: Expected `int`, got `str` - at `$.b`."
    refusal = await wired.refusal(b'{"jsonrpc":"2.0","id":2,"method":"add","params":{}}')
    assert "missing required field `a`" in refusal["error"]["message"]


async def test_fields_that_nobody_knows_are_tolerated(wired: Wired) -> None:
    wired.send({"id": 1, "method": "add", "params": {"a": 1, "_meta": {"x": [1]}}, "extra": {}})
    assert (await wired.answer(1))["result"] == {"sum": 1}


async def test_parameters_may_be_left_out_where_none_are_needed(wired: Wired) -> None:
    wired.send({"id": 1, "method": "nothing"}, {"id": 2, "method": "nothing", "params": None})
    assert (await wired.answer(1))["result"] == (await wired.answer(2))["result"] == {}


async def test_lone_surrogates_are_replaced_on_the_way_in(wired: Wired) -> None:
    """JavaScript sends them, for half of an emoji."""
    wired.send(rb'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"value":"a\ud83d \ud83d\ude00 \\ud83d"}}')
    assert (await wired.answer(1))["result"] == {"value": "a\ufffd \U0001f600 \\ud83d"}


async def test_an_id_that_is_in_use_is_refused_and_the_first_request_still_answered(wired: Wired) -> None:
    wired.ask("a", "wait", name="x")
    refusal = await wired.refusal(b'{"jsonrpc":"2.0","id":"\\u0061","method":"add","params":{"a":1}}')
    assert (refusal["id"], refusal["error"]["code"]) == (None, INVALID_REQUEST)
    assert (await wired.refusal(b'{"jsonrpc":"2.0","id":"a"}'))["id"] is None
    wired.gate("x").set()
    assert (await wired.answer("a"))["result"] == {"name": "x"}
    wired.written.clear()
    wired.ask("a", "add", a=1)
    assert (await wired.answer("a"))["result"] == {"sum": 1}


async def test_more_requests_than_anybody_needs_are_refused() -> None:
    wired = Wired(max_running=2)
    wired.ask(1, "wait", name="x")
    wired.ask(2, "wait", name="x")
    refusal = await wired.refusal({"id": 3, "method": "nothing"})
    assert (refusal["id"], refusal["error"]["code"]) == (3, INTERNAL_ERROR)
    await wired.connection.aclose()


async def test_an_error_for_the_wire_is_sent_as_it_is(wired: Wired) -> None:
    error = RpcError(-32000, "Log in first.", {"how": ["key"]})
    answer = await failing(wired, error)
    assert answer["error"] == {"code": -32000, "message": "Log in first.", "data": {"how": ["key"]}}
    answer = await failing(wired, RpcError(-32002, "No\ud800.", object()))
    assert answer["error"] == {"code": -32002, "message": "No\ufffd."}


async def test_an_error_of_ours_is_its_sentence(wired: Wired) -> None:
    answer = await failing(wired, ConfigError("The model is not set: set `model`."))
    assert answer["error"] == {"code": INVALID_PARAMS, "message": "The model is not set: set `model`."}


async def test_any_other_error_is_told_without_its_details_which_are_logged(
    wired: Wired, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hunter2hunter2")
    with caplog.at_level(logging.DEBUG, "outrider"):
        answer = await failing(wired, RuntimeError("secret place /home/x, hunter2hunter2"))
    assert answer["error"]["code"] == INTERNAL_ERROR
    assert "secret" not in json.dumps(answer)
    assert "Traceback" not in json.dumps(answer)
    assert "secret place" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_result_that_has_no_json_is_an_error_and_not_silence(wired: Wired) -> None:
    deep: list[Any] = []
    for _ in range(1_000_000):  # Python 3.14 writes 100,000 levels
        deep = [deep]
    for result in (object(), deep, {(1, 2): 3}):
        answer = await giving(wired, result)
        assert answer["error"]["code"] == INTERNAL_ERROR
    while deep:  # freed one by one: all at once would go as deep again
        deep = deep.pop()


async def test_what_is_sent_is_strict_json_on_one_line(wired: Wired) -> None:
    answer = await giving(wired, {"nan": float("nan"), "half": "a\ud800", "big": 10**30, "key\udc00": 1})
    assert answer["result"] == {"nan": None, "half": "a\ufffd", "big": 10**30, "key\ufffd": 1}
    answer = await giving(wired, {"raw": msgspec.Raw(b'{\r\n"a":\n1}'), "line": "a\nb\r\u2028c\u2029"})
    assert answer["result"] == {"raw": {"a": 1}, "line": "a\nb\r\u2028c\u2029"}
    assert len(wired.written[-1].decode().splitlines()) == 1
    answer = await giving(wired, {"raw": msgspec.Raw(b"[1]"), "half": "\ud800"})
    assert answer["result"] == {"raw": [1], "half": "\ufffd"}


async def test_cancelling_a_request_answers_it_as_cancelled(wired: Wired) -> None:
    wired.ask("a", "wait", name="x")
    await wired.until(lambda: wired.trace)
    wired.tell("$/cancel_request", requestId="a")
    assert (await wired.answer("a"))["error"]["code"] == CANCELLED
    assert wired.trace == ["x begins", "x ends"]


async def test_a_request_that_is_cancelled_before_it_begins_never_begins_and_is_answered(wired: Wired) -> None:
    wired.ask(1, "wait", name="x")
    wired.tell("$/cancel_request", requestId=1)
    assert (await wired.answer(1))["error"]["code"] == CANCELLED
    assert wired.trace == []


async def test_a_handler_may_answer_a_cancel_in_its_own_words(wired: Wired) -> None:
    wired.ask(1, "stubborn", name="x")
    await wired.until(lambda: wired.trace)
    wired.tell("$/cancel_request", requestId=1)
    wired.tell("$/cancel_request", requestId=1)
    assert (await wired.answer(1))["result"] == {"name": "x", "stopped": "yes"}


async def test_a_second_cancel_does_not_tear_what_cleans_up_after_the_first(wired: Wired) -> None:
    cleaned: list[str] = []

    async def careful(_: Anything) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("begun")
            await wired.gate("clean").wait()
            cleaned.append("done")

    written: list[bytes] = []
    both = Connection(written.append, {"go": Method(Anything, careful)}, {})
    cancel = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}\n'
    both.feed(b'{"jsonrpc":"2.0","id":1,"method":"go"}\n')
    await asyncio.sleep(0)
    both.feed(cancel)
    await wired.until(lambda: cleaned)
    both.feed(cancel)
    wired.gate("clean").set()
    await wired.until(lambda: written)
    assert cleaned == ["begun", "done"]


async def test_a_cancel_for_nothing_is_ignored(wired: Wired) -> None:
    wired.ask(1, "wait", name="x")
    for other in (2, "1", None, [1]):
        wired.tell("$/cancel_request", requestId=other)
    await wired.until(lambda: wired.trace)
    wired.gate("x").set()
    assert "result" in await wired.answer(1)
    wired.tell("$/cancel_request", requestId=1)
    assert len(wired.written) == 1


async def failing(wired: Wired, error: Exception) -> dict[str, Any]:
    def fail(_: Anything) -> None:
        raise error

    return await handled(wired, fail)


async def giving(wired: Wired, result: Any) -> dict[str, Any]:
    return await handled(wired, lambda _: result)


async def handled(wired: Wired, run: Any) -> dict[str, Any]:
    both = Connection(wired.written.append, {"go": Method(Anything, run)}, {})
    before = len(wired.written)
    both.feed(b'{"jsonrpc":"2.0","id":1,"method":"go"}\n')
    await wired.until(lambda: len(wired.written) > before)
    json.loads(wired.written[-1], parse_constant=pytest.fail)
    return wired.messages[-1]
