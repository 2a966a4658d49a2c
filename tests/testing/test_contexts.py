"""A context for unit tests of tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider import Agent, Attachment, ToolContext, spawn, tool
from outrider.errors import ValidationError
from outrider.stores import MemoryStore
from outrider.testing import ScriptedModel, tool_context


@tool
def count(word: str, context: ToolContext[dict[str, int]]) -> int:
    "Count a word."
    context.progress(f"counting {word}")
    context.attach(Attachment(b"x", "text/plain", "x.txt"))
    return context.deps[word]


def test_a_tool_is_called_with_it_as_a_function() -> None:
    seen: list[object] = []
    context = tool_context({"a": 3}, on_progress=seen.append)
    assert count("a", context) == 3
    assert (seen, [file.name for file in context.attachments]) == (["counting a"], ["x.txt"])
    assert (context.cancelled, context.call_id, context.cwd) == (False, "call_1", Path.cwd())


async def test_a_tool_is_invoked_with_it_as_a_model_calls_it() -> None:
    result = await count.invoke({"word": "a"}, tool_context({"a": 3}))
    assert (result.text, [file.name for file in result.attachments]) == ("3", ["x.txt"])
    with pytest.raises(ValidationError, match="word"):
        await count.invoke({"wrod": "a"}, tool_context({"a": 3}))


def test_it_has_the_folder_and_the_files_of_the_test(tmp_path: Path) -> None:
    store = MemoryStore()
    block = store.put(Attachment(b"abc", "text/plain", "a.txt"), 10)
    context = tool_context(cwd=tmp_path, store=store)
    assert (context.cwd, context.stored(block.sha256), context.deps) == (tmp_path, b"abc", None)


async def test_a_sub_agent_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match="run the tool in a session with a ScriptedModel"):
        await spawn(tool_context(), Agent(ScriptedModel([])))
