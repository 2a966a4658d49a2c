"""What a person does after a chat: leave it, remember the name of the session, and look at what was sent."""

from __future__ import annotations

import re
from typing import Any

from tests.cli.chat.terminal import Terminal
from tests.streams import Json


async def leave(terminal: Terminal) -> str:
    """Leave the chat; the session's id, as the farewell has it."""
    terminal.press("c-d")
    assert await terminal.exit_code() == 0
    farewell = re.search(r"^To resume this session: outrider --resume (\w+)$", terminal.screen, re.M)
    assert farewell
    return farewell[1]


def conversation_in(body: Json) -> list[Any]:
    """What the APIs call messages, input or contents."""
    found: list[Any] = next(value for name, value in body.items() if name in ("messages", "input", "contents"))
    return found
