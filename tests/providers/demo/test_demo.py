"""The demo model understands a handful of plain requests and drives whatever tools there are."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from outrider import Attachment, Message, ToolResult, run, think
from outrider.conversation.store import MemoryStore
from outrider.providers.base import Request, ToolSpec
from outrider.providers.demo.demo import answer
from outrider.providers.resolution import resolve

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (3).to_bytes(4, "big") + (2).to_bytes(4, "big") + b"\0" * 8


def list_files(folder: str = ".") -> str:
    """List."""
    return "notes.txt\nchart.png"


def read_file(path: str) -> Any:
    """Read."""
    if path.endswith(".png"):
        return ToolResult("", attachments=[Attachment(PNG, name=path)])
    if path == "missing.txt":
        raise FileNotFoundError(path)
    return f"{path} line 1\nline 2"


def write_file(path: str, content: str) -> str:
    """Write."""
    return f"wrote {content!r} to {path}"


def grep(pattern: str, path: str = ".") -> str:
    """Search."""
    return f"found {pattern}"


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def Task(description: str, prompt: str, subagent_type: Literal["Explore", "Plan"]) -> str:
    """Delegate."""
    return f"{subagent_type} says: done"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What's 2+2?", "4"),
        ("add 2 and 3", "5"),
        ("7 * 6", "42"),
        ("what is 1 / 4", "0.25"),
        ("123456+7654321", "7777777"),
        ("1/0", "There is no answer: nothing can be divided by zero."),
    ],
)
def test_it_adds_without_tools(question: str, said: str) -> None:
    assert think(question, model="demo") == said


@pytest.mark.parametrize(
    ("question", "calls", "said"),
    [
        ("read notes.txt", ["read_file"], "notes.txt: 2 lines"),
        ("Read notes.txt and look at chart.png", ["read_file", "read_file"], "chart.png: a picture of 3 × 2 pixels"),
        ("read missing.txt", ["read_file"], "missing.txt: this failed: read_file failed: FileNotFoundError"),
        ("list the files", ["list_files"], "2 lines"),
        ("search for 'hello'", ["grep"], "found hello"),
        ("write hello.txt", ["write_file"], r"wrote 'Hello from the demo model.\n' to hello.txt"),
        ("Please create a new file called a/b.md.", ["write_file"], "to a/b.md"),
        ('write "2 + 2" to sum.txt', ["write_file"], r"wrote '2 + 2\n' to sum.txt"),
        ("Who did write notes?\nread notes.txt", ["read_file"], "notes.txt: 2 lines"),
        ("add 2 and 3", ["add"], "5"),
        ("explore this folder", ["list_files", "read_file", "read_file"], "chart.png: a picture"),
        ("Delegate this to a sub-agent", ["Task"], "Explore says: done"),
    ],
)
def test_it_drives_the_tools_that_fit(question: str, calls: list[str], said: str) -> None:
    result = run(question, [list_files, read_file, write_file, grep, add, Task], model="demo")
    assert result.status == "done"
    assert [use.name for message in result.conversation for use in message.tool_calls] == calls
    assert said in result.text


def test_it_says_what_it_is_and_how_to_get_a_real_model() -> None:
    said = think("Write me a poem", model="demo")
    assert "demo model, not an LLM" in said
    assert "outrider login" in said
    assert "/model anthropic/balanced" in said


def test_on_its_last_turn_it_answers_with_what_it_has() -> None:
    result = run("explore this folder", [list_files, read_file], max_turns=2, model="demo")
    assert result.status == "done"
    assert "Here is what I found" in result.text


def test_the_same_request_gets_the_same_answer() -> None:
    spec = ToolSpec("read_file", "", {"properties": {"path": {"type": "string"}}, "required": ["path"]})
    request = Request([Message.user("read a.txt")], MemoryStore(), tools=(spec,))
    assert answer(request) == answer(request)


def test_its_name_finds_it() -> None:
    assert resolve("demo").name == "demo"
