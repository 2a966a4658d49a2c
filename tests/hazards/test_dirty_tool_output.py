"""Output that is not clean text still reaches the model, and can be stored and sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.providers.scripted import call
from outrider.tools import ToolResult
from tests.watching import Watched, last_results

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


class Odd:
    def __str__(self) -> str:
        return "odd one"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("a pair \ud83d\ude00 of them", "a pair 😀 of them"),
        (b"caf\xc3\xa9 \xff\xfe", "café \ufffd\ufffd"),
        (ToolResult("\udcff"), "\ufffd"),
        ({"key \udc00": ["\ud800"]}, '{"key \ufffd":["\ufffd"]}'),
        ({"n": 2**70}, '{"n":1180591620717411303424}'),
        ({(1, 2): "tuple key"}, '{"(1, 2)":"tuple key"}'),
        ([1, 2.5, None, True], "[1,2.5,null,true]"),
        (Odd(), "odd one"),
        ({"path": Path("a/b")}, '{"path":"a/b"}'),
        (0, "0"),
        (False, "false"),
        ("", ""),
        (None, ""),
        ("nul \0 and \x1b[31m escape", "nul \0 and \x1b[31m escape"),
    ],
)
async def test_whatever_a_tool_gives_back_becomes_text_that_can_be_sent(output: Any, text: str) -> None:
    async def produce() -> Any:
        return output

    watched = Watched([call("produce"), "ok"], [produce])
    result = await watched.session.run("go")
    assert result.status == "done"
    assert last_results(watched.session) == [(text, False)]
    watched.check()


async def test_a_value_that_contains_itself_does_not_hang() -> None:
    loop: list[Any] = []
    loop.append(loop)

    async def produce() -> Any:
        return loop

    watched = Watched([call("produce"), "ok"], [produce])
    await watched.session.run("go")
    assert last_results(watched.session) == [("[[...]]", False)]


async def test_bytes_of_a_known_kind_are_a_file() -> None:
    async def produce() -> bytes:
        return PNG

    watched = Watched([call("produce"), "ok"], [produce])
    await watched.session.run("go")
    (file,) = watched.session.messages[2].tool_results[0].attachments
    assert file.mime_type == "image/png"
    assert watched.session.store.read(file) == PNG


async def test_an_exception_with_a_dirty_message_is_reported_clean() -> None:
    async def fail() -> str:
        raise OSError("bad name \udcff")

    watched = Watched([call("fail"), "ok"], [fail])
    await watched.session.run("go")
    assert last_results(watched.session) == [("fail failed: OSError: bad name \ufffd", True)]
    watched.check()


async def test_dirty_prompts_and_dirty_arguments_can_be_sent() -> None:
    async def echo(text: str) -> str:
        return text

    watched = Watched([call("echo", text="\ud800"), "ok \udfff"], [echo])
    await watched.session.run("question \udc80")
    msgspec.json.encode(list(watched.model.requests[1].messages))
    watched.check()
