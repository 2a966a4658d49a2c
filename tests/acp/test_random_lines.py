"""Many bad lines: never a crash, never silence where an answer is due, never a wrong id.

The judge is the standard library's parser, which knows nothing of ours. Where it finds a request, exactly one answer
with its id has to come; a line that is none must not be answered with an id that it does not have.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from outrider.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from tests.acp.conftest import Wired
from tests.lengths import only_long

SEED = 7
METHODS = ("add", "echo", "nothing", "fail", "wait", "stubborn", "note", "bad", "nope", "$/cancel_request", "_x", "")
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        1.5,
        10**30,
        -(10**400),
        "",
        "x",
        "\ud800",
        "\udc00\ud800",
        "\x00",
        "é\u2028",
        [],
        {},
        [1, [2]],
    ),
    *({"a": 1}, {"name": "n"}, {"a": None}, "x" * 1000, [[]] * 50),
)
ENDS = {"[": "]", "{": "}"}


def request(chance: random.Random, number: int) -> bytes:
    """A request, a notification or a response, most often a good one."""
    params = {"a": number, "b": 2, "name": "gate", "value": chance.choice(VALUES), "requestId": number - 1}
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": chance.choice(METHODS), "params": params}
    for change in chance.sample((drop, retype, spoil, rename, answer, string_id), chance.choice((0, 0, 1, 1, 2))):
        change(chance, message)
    items = list(message.items())
    chance.shuffle(items)
    if items and chance.random() < 0.1:
        items.append((chance.choice(items)[0], chance.choice(VALUES)))
    text = ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in items)
    return b"{%b}" % text.encode()


def drop(chance: random.Random, message: dict[str, Any]) -> None:
    del message[chance.choice(list(message))]


def retype(chance: random.Random, message: dict[str, Any]) -> None:
    message[chance.choice(list(message))] = chance.choice(VALUES)


def spoil(chance: random.Random, message: dict[str, Any]) -> None:
    if isinstance(message.get("params"), dict):
        message["params"] = message["params"] | {chance.choice(("a", "b", "name")): chance.choice(VALUES)}


def rename(chance: random.Random, message: dict[str, Any]) -> None:
    message[chance.choice(("Id", "ID", "id ", "\ud800", "result", "error", "extra"))] = chance.choice(VALUES)


def answer(chance: random.Random, message: dict[str, Any]) -> None:
    message.pop("method", None)
    message[chance.choice(("result", "error"))] = chance.choice(VALUES)


def string_id(chance: random.Random, message: dict[str, Any]) -> None:
    message["id"] = f"{message.get('id')}{chance.choice(('', chr(0xD800), chr(0), 'é', 'y' * 500))}"


def truncated(chance: random.Random, line: bytes) -> bytes:
    return line[: chance.randrange(len(line))]


def flipped(chance: random.Random, line: bytes) -> bytes:
    changed = bytearray(line)
    for _ in range(chance.randint(1, 3)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed).replace(b"\n", b" ")


def inserted(chance: random.Random, line: bytes) -> bytes:
    place = chance.randrange(len(line))
    piece = chance.choice(
        (b"\x00", b"\xff", b"\\ud800", b"\\", b'"', b"NaN", b",", b"\r", b" ", b"\xed\xa0\x80", b"1e999")
    )
    return line[:place] + piece + line[place:]


def nested(chance: random.Random, line: bytes) -> bytes:
    depth = chance.choice((10, 100, 2000))
    opening = chance.choice(("[", '{"a":', "["))
    closing = ENDS[opening[0]] * (depth - chance.choice((0, 0, 1)))
    return line[:-1] + b',"params":' + (opening * depth + "1" + closing).encode() + b"}"


def noise(chance: random.Random, line: bytes) -> bytes:
    return chance.randbytes(chance.randint(1, 60)).replace(b"\n", b"?")


def same(chance: random.Random, line: bytes) -> bytes:
    return line


def mutated(chance: random.Random, count: int) -> Iterator[bytes]:
    """Lines that are each made of one of a few thousand messages."""
    messages = [request(chance, number) for number in range(5000)]
    changes = chance.choices((same, truncated, flipped, inserted, nested, noise), (8, 1, 3, 3, 0.1, 1), k=count)
    for change in changes:
        yield change(chance, chance.choice(messages))


def no_constant(name: str) -> None:
    raise ValueError(name)


def judged(line: bytes) -> tuple[set[int], str, bool]:
    """The codes that are possible (0 is a result or an error of the handler), the id as JSON, and whether one comes."""
    try:
        value = json.loads(line.decode(), parse_constant=no_constant)
    except RecursionError:
        return {PARSE_ERROR}, "null", True
    except ValueError:
        return {PARSE_ERROR}, "null", bool(line.strip(b" \t\r"))
    if not isinstance(value, dict):
        return {INVALID_REQUEST}, "null", True
    is_id = not isinstance(value.get("id"), bool | list | dict)
    shown = json.dumps(value.get("id")) if is_id else "null"
    if "method" not in value and ("result" in value or "error" in value):
        return set(), "", False
    if value.get("jsonrpc") != "2.0" or not isinstance(value.get("method"), str) or not is_id:
        return {INVALID_REQUEST}, shown, True
    if "id" not in value:
        return set(), "", False
    if value["method"] in ("note", "bad", "nope", "$/cancel_request", "_x", ""):
        return {METHOD_NOT_FOUND}, shown, True
    return ({0, INVALID_PARAMS} if value["method"] in METHODS else {METHOD_NOT_FOUND}), shown, True


@pytest.mark.parametrize("count", [5_000, *only_long(40_000)])
async def test_bad_lines_are_each_answered_as_they_should_be(count: int) -> None:
    wired = Wired()
    for name in ("gate", "n"):
        wired.gate(name).set()
    counts: Counter[int] = Counter()
    for line in mutated(random.Random(SEED), count):
        wired.connection.feed(line + b"\n")
        await settled(wired, line)
        counts[verified(line, wired.written)] += 1
        wired.written.clear()
        wired.trace.clear()
    assert not wired.connection._handlers._running
    for code in (0, 1, PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS):
        assert counts[code] > count / 100, f"too few lines with {code}: {counts}"


async def settled(wired: Wired, line: bytes) -> None:
    """Let the handlers run; a gate may have got another name."""
    handlers = wired.connection._handlers
    for _ in range(20):
        if not handlers._running and not handlers._notified:
            return
        await asyncio.sleep(0)
    for gate in wired.gates.values():
        gate.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not handlers._running, f"still running after {line!r}"


def verified(line: bytes, written: list[bytes]) -> int:
    """What it was answered with: 0 for a result, 1 for nothing, or the code of the error."""
    codes, shown, is_due = judged(line)
    assert len(written) == is_due, f"{line!r} was answered with {written!r}"
    if not is_due:
        return 1
    answer = json.loads(written[0], parse_constant=no_constant)
    assert set(answer) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    assert json.dumps(answer["id"]) == shown, f"{line!r} was answered with {written!r}"
    code = answer["error"]["code"] if "error" in answer else 0
    assert code in codes or (0 in codes and code == -32603), f"{line!r} was answered with {written!r}"
    return int(code) if code in codes else 0
