"""The chunks of a Gemini stream, the arguments of calls that come in pieces, and the usage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from outrider.conversation.usage import Usage
from outrider.providers.streams.stream import decode_event

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]""")


class _Camel(msgspec.Struct, rename="camel"):
    """A field that a chunk lacks keeps its default. Any field may also be null."""


class PartialArgument(_Camel):
    json_path: str = ""
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None

    @property
    def value(self) -> Any:
        return next((v for v in (self.string_value, self.number_value, self.bool_value) if v is not None), None)


class FunctionCall(_Camel):
    id: str | None = None
    name: str | None = None
    args: Any = None
    partial_args: list[PartialArgument] | None = None
    will_continue: bool | None = None


class Blob(_Camel):
    mime_type: str = ""
    data: str = ""


class ContentPart(_Camel):
    text: str | None = None
    inline_data: Blob | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    executable_code: dict[str, Any] | None = None
    code_execution_result: dict[str, Any] | None = None
    tool_call: dict[str, Any] | None = None
    tool_response: dict[str, Any] | None = None


class _Content(_Camel):
    parts: list[ContentPart] | None = None


class _Candidate(_Camel):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    grounding_metadata: dict[str, Any] | None = None
    url_context_metadata: dict[str, Any] | None = None


class _Feedback(_Camel):
    block_reason: str | None = None
    block_reason_message: str | None = None


class UsageMetadata(_Camel):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None


class Chunk(_Camel):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: UsageMetadata | None = None
    error: Any = None


_CHUNK = msgspec.json.Decoder(Chunk)
_CHUNKS = msgspec.json.Decoder(list[Chunk])


def decode_chunks(data: bytes) -> list[Chunk]:
    """Return the chunks in the data of an event, which may be a list. Raise IncompleteStreamError."""
    if data.lstrip().startswith(b"["):
        return decode_event(data, _CHUNKS, "Gemini")
    return [decode_event(data, _CHUNK, "Gemini")]


def merge_arguments(args: dict[str, Any], pieces: Sequence[PartialArgument]) -> bool:
    """Put pieces of arguments at their paths. Return whether that was possible."""
    try:
        for piece in pieces:
            steps = _steps(piece.json_path)
            holder: Any = args
            for step, following in pairwise(steps):
                holder = _entry(holder, step, [] if isinstance(following, int) else {})
            value = piece.value
            before = _entry(holder, steps[-1], "" if isinstance(value, str) else None)
            holder[steps[-1]] = before + value if isinstance(before, str) and isinstance(value, str) else value
    except (LookupError, TypeError, AttributeError):
        return False
    return True


def _steps(path: str) -> list[str | int]:
    """Return the steps of a JSON path such as `$.edits[0].text`. Raise LookupError for any other kind."""
    found = list(_STEP.finditer(path))
    if not found or "$" + "".join(step[0] for step in found) != path:
        raise LookupError(path)
    return [int(step[2]) if step[2] else step[1] or step[3] or step[4] or "" for step in found]


def _entry(holder: Any, step: str | int, missing: Any) -> Any:
    """Return the value at a step. Insert `missing` if there is none."""
    if isinstance(step, str):
        return holder.setdefault(step, missing)
    if step == len(holder):
        holder.append(missing)
    return holder[step]


def _number(count: int | None) -> int:
    return max(count or 0, 0)


def usage_of(usage: UsageMetadata) -> Usage:
    thoughts, for_tools = _number(usage.thoughts_token_count), _number(usage.tool_use_prompt_token_count)
    prompt, output = _number(usage.prompt_token_count), _number(usage.candidates_token_count) + thoughts
    return Usage(
        input_tokens=prompt + for_tools,
        output_tokens=output,
        cached_tokens=_number(usage.cached_content_token_count),
        reasoning_tokens=thoughts,
        # What the tools of the API have read is billed, and not part of the next request.
        context_tokens=prompt + output if for_tools else None,
    )
