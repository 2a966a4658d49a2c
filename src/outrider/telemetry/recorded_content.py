"""The content of messages as JSON for attributes. It is recorded only if the caller asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.providers.credentials.secrets import masked
from outrider.text import clean, shorten

LONGEST_TEXT = 20_000
"""Characters of one text. Back ends refuse very long attributes."""


class RecordedContent:
    """Turns messages into JSON without keys and without the bytes of files."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = tuple(secrets)

    def text(self, text: str) -> str:
        """Return a text, shortened and without keys."""
        return shorten(masked(text, *self._secrets), LONGEST_TEXT, "[{left_out} of {total} characters left out]")

    def value(self, value: Any) -> str:
        """Return a JSON value as text."""
        return self.text(_json(value))

    def messages(self, messages: Iterable[Message]) -> str:
        """Return messages in the form of the conventions: roles and parts."""
        shown = [{"role": message.role, "parts": list(self._parts(message.content))} for message in messages]
        return masked(_json(shown), *self._secrets)

    def instructions(self, system: str) -> str:
        """Return the system prompt in the form of the conventions."""
        return _json([{"type": "text", "content": self.text(system)}])

    def _parts(self, blocks: Iterable[Block]) -> Iterator[dict[str, Any]]:
        for block in blocks:
            match block:
                case TextBlock():
                    yield {"type": "text", "content": self.text(block.text)}
                case ThinkingBlock():
                    yield {"type": "reasoning", "content": self.text(block.thinking)}
                case ToolUseBlock():
                    yield {"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.input}
                case ToolResultBlock():
                    yield {"type": "tool_call_response", "id": block.tool_use_id, "response": self.text(block.text)}
                case AttachmentBlock():
                    yield {"type": "file", "mime_type": block.mime_type, "name": block.name, "size": block.size}
                case _:
                    yield {"type": block.type}


def _json(value: Any) -> str:
    return clean(json.dumps(value, ensure_ascii=False, default=repr))
