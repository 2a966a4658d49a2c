"""The demo model reads long prompts in a time that grows with their length."""

from __future__ import annotations

import time

import pytest

from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.providers.base import Request, ToolSpec
from outrider.providers.demo.demo import answer

NAMES = ("bash", "grep", "write", "read", "add", "list", "task")
TOOLS = tuple(ToolSpec(name, name, {"type": "object", "properties": {}}) for name in NAMES)
LENGTH = 200_000


@pytest.mark.sampled(4)
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [
        "x",
        "1",
        "a.",
        "./",
        "1.",
        "1 ",
        "find ",
        "search for ",
        "look 'x ",
        "run `",
        "run 'a ",
        "- ",
        "delegate ",
        "write ",
        'write "a ',
        "write a.",
        "5 + ",
    ],
)
def test_a_long_prompt_is_read_in_linear_time(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        began = time.process_time()
        answer(Request([Message.user(text)], MemoryStore(), tools=TOOLS))
        return time.process_time() - began

    assert seconds(LENGTH) < 40 * max(0.005, seconds(LENGTH // 10))
