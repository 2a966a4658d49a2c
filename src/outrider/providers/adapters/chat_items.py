"""Parts of the messages of a Chat Completions request: content with files, reasoning, and tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from outrider.conversation.messages import ToolUseBlock
from outrider.providers.base import Request
from outrider.providers.rendering import tool_schemas
from outrider.providers.rendering.message_parts import File, Part, join_text
from outrider.providers.rendering.wire_names import safe_name
from outrider.providers.streams.chat_reasoning import CLOSE, OPEN
from outrider.providers.streams.chat_server_tools import openrouter_tools
from outrider.providers.streams.chat_stream import INLINE, REASONING_FIELDS, THINKING_PARTS

_AUDIO_FORMATS = {
    **dict.fromkeys(("audio/wav", "audio/x-wav", "audio/wave"), "wav"),
    **dict.fromkeys(("audio/mpeg", "audio/mp3"), "mp3"),
}


def content_of(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    """Return the content of a message. Without files it is a plain string, because some servers take nothing else."""
    if any(isinstance(part, File) for part in parts):
        return [part_of(part) for part in parts]
    return join_text(parts)


def part_of(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    match part.family:
        case "image":
            return {"type": "image_url", "image_url": {"url": part.url or part.data_url}}
        case "text":
            return {"type": "text", "text": part.text}
        case "audio":
            return _audio(part)
    return {"type": "file", "file": {"filename": part.filename, "file_data": part.data_url}}


def _audio(file: File) -> dict[str, Any]:
    if known := _AUDIO_FORMATS.get(file.mime_type):
        return {"type": "input_audio", "input_audio": {"data": file.base64, "format": known}}
    note = f"[{file.name} ({file.mime_type}) cannot be shown: this API takes only wav and mp3]"
    return {"type": "text", "text": note}


def parts_of(content: Any) -> list[Any]:
    return [part_of(content)] if isinstance(content, str) else content or []


def call_of(call: ToolUseBlock, own: dict[str, Any]) -> dict[str, Any]:
    """Return a call. `own` is its state, if this model made it."""
    name = safe_name(call.name)
    if own.get("type") == "custom":
        return {"type": "custom", "custom": {"name": name, "input": str(call.input.get("input", ""))}}
    # Arguments that were not a JSON object go back as an empty one: servers parse the history and fail on others.
    # The result tells the model what it had written.
    arguments = msgspec.json.encode(call.input).decode()
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **own}


def replayed_reasoning(thinking: str, data: Any, text: str) -> dict[str, Any]:
    """Return the fields of a message that repeat its reasoning."""
    if not isinstance(data, dict):
        return {}
    kept = {name: data[name] for name in ("reasoning_details", "extra_content") if name in data}
    field = data.get("field")
    if field in REASONING_FIELDS and "reasoning_details" not in kept:
        kept[field] = thinking
    elif field == INLINE:
        kept["content"] = f"{data.get('before', '')}{OPEN}{thinking}{CLOSE}{data.get('after', '')}{text}"
    elif field == THINKING_PARTS:
        parts = [{"type": "thinking", "thinking": [{"type": "text", "text": thinking}]}]
        kept["content"] = parts + ([{"type": "text", "text": text}] if text else [])
    return kept


def tool_items(request: Request) -> Iterator[dict[str, Any]]:
    for tool in request.tools:
        spec = tool_schemas.accepted(tool, tool_schemas.OPENAI)
        function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        yield {"type": "function", "function": function}
    yield from openrouter_tools(request.server_tools)
