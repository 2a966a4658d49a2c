"""Output that is not clean text still reaches the model, and can be stored and sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.conversation.attachments import Attachment
from outrider.testing import call
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
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


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


async def test_an_exception_without_a_message_is_named() -> None:
    async def fail() -> str:
        raise Mute

    watched = Watched([call("fail"), "ok"], [fail])
    await watched.session.run("go")
    assert last_results(watched.session) == [("fail failed: Mute", True)]


@pytest.mark.parametrize("name", ["missing \udcff.png", "text \udc80.txt"])
async def test_a_file_with_a_dirty_name_or_type_can_be_spoken_of(name: str, tmp_path: Path) -> None:
    async def files() -> ToolResult:
        return ToolResult("", [Attachment(b"x", "text/pl\udc80ain", name=name), Attachment.from_path(tmp_path / name)])

    watched = Watched([call("files"), "ok"], [files])
    await watched.session.run("go")
    assert len(watched.session.messages[2].tool_results[0].content) == 2
    watched.check()


@pytest.mark.parametrize(
    ("result", "text"),
    [(lambda: ToolResult(None), ""), (lambda: ToolResult({"a": 1}), '{"a":1}'), (lambda: ToolResult(3), "3")],
)
async def test_a_result_whose_text_is_none_is_not_a_failure_of_the_tool(result: Any, text: str) -> None:
    async def produce() -> ToolResult:
        return result()  # type: ignore[no-any-return]

    watched = Watched([call("produce"), "ok"], [produce])
    await watched.session.run("go")
    assert last_results(watched.session) == [(text, False)]


async def test_paths_are_taken_for_files(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(PNG)

    async def produce(context: ToolContext) -> ToolResult:
        context.attach(picture)
        return ToolResult("x", attachments=[str(picture)])  # type: ignore[list-item]

    watched = Watched([call("produce"), "ok"], [produce])
    await watched.session.run("go")
    assert [file.name for file in watched.session.messages[2].tool_results[0].attachments] == ["a.png", "a.png"]


async def test_a_list_of_words_and_files_is_both() -> None:
    async def produce() -> Any:
        return [Attachment(PNG, name="a.png"), "a chart", {"of": 3}]

    watched = Watched([call("produce"), "ok"], [produce])
    await watched.session.run("go")
    result = watched.session.messages[2].tool_results[0]
    assert result.text == 'a chart\n{"of":3}'
    assert [file.name for file in result.attachments] == ["a.png"]
