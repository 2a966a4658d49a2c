"""The items that a provider yields before its reply: deltas and notices."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class TextDelta(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="text_delta"):
    """A piece of the reply's text."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="thinking_delta"):
    """A piece of the model's reasoning."""

    text: str


class ToolCallDelta(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="tool_call_delta"):
    """A piece of a call's arguments, as JSON text."""

    call_id: str
    name: str
    arguments: str


class ServerToolStarted(msgspec.Struct, frozen=True, tag_field="type", tag="server_tool_started"):
    """The model's API has started a tool of its own, such as a web search."""

    call_id: str
    name: str
    input: dict[str, Any]


class ServerToolFinished(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="server_tool_finished"):
    """A tool of the model's API is done."""

    call_id: str
    name: str
    text: str = ""
    """What it found or printed."""
    is_error: bool = False


class Notice(msgspec.Struct, frozen=True, tag_field="type", tag="notice"):
    """A message to the user, such as a file that was left out."""

    text: str


Delta: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | ServerToolStarted | ServerToolFinished
