"""Prompt caches hold: two turns, two folders and two days share the longest prefix that they can, on each API.

APIs put tools, instructions and messages together in an order of their own, so each of the three is compared: what
comes before the messages is the same, and the messages differ only where the situation is told, in the first one.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.coding import system_prompt
from outrider.coding.config.settings import Settings
from outrider.coding.workbench import Workbench
from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.providers.adapters.hosted import CompatibleServer
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request
from outrider.providers.rendering.message_parts import REMINDER
from outrider.runtime.toolset import specs_of
from tests.adapters import ONE_EACH
from tests.conversations import call, result

MESSAGES = {"anthropic": "messages", "openai": "input", "openai-chat": "messages", "gemini": "contents"}
PROMPTED = "prompted"
ASKED = "Look at the file."


def provider_of(api: str) -> ApiProvider:
    if api == PROMPTED:
        return CompatibleServer("small", "http://127.0.0.1:1/v1").with_prompted_tools()
    return next(case for case in ONE_EACH if case.prefix == api).adapter("http://127.0.0.1:1", key="k")


def parts(body: bytes, api: str) -> tuple[dict[str, Any], list[Any]]:
    """What comes before the messages, and the messages."""
    decoded = msgspec.json.decode(body)
    messages = decoded.pop(MESSAGES.get(api, "messages"))
    if messages[0].get("role") == "system":
        decoded["system"] = messages.pop(0)
    return decoded, messages


@pytest.mark.parametrize("api", [*MESSAGES, PROMPTED])
def test_another_folder_day_or_turn_changes_only_what_comes_last(
    api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Day(datetime.date):
        number = 1

        @classmethod
        def today(cls) -> datetime.date:
            return datetime.date(2031, 5, cls.number)

    monkeypatch.setattr(system_prompt, "date", Day)
    provider = provider_of(api)
    turn = [Message.user(ASKED)]
    later = [*turn, Message.assistant(call("a", "Read", file_path="a")), Message.user(result("a", "x"))]
    bodies: list[bytes] = []
    for name, day, messages in (("one", 1, turn), ("one", 1, later), ("two", 1, turn), ("one", 2, turn)):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        Day.number = day
        agent = Workbench(Settings(), folder).agent(model=provider)
        tools, situation = specs_of(agent.tools), agent.situation
        bodies.append(
            provider.render(Request(messages, MemoryStore(), agent.system_prompt, tools, situation=situation))
        )
    (head, (first,)), *others = (parts(body, api) for body in bodies)
    assert "Where you are" in str(first)
    assert str(tmp_path) not in str(head)
    assert "2031" not in str(head)
    for other_head, (other_first, *_) in others:
        assert other_head | {"max_tokens": 0} == head | {"max_tokens": 0}
        assert text_of(other_first).startswith(f"{REMINDER}\n# Where you are\n\n- The folder: ")
    assert others[0][1][0] == first, "the next turn begins with the request of the turn before"
    assert text_of(first).endswith(f"\n\n{ASKED}") or text_of(first).endswith(f"\n{ASKED}")


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content", message.get("parts"))
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)
