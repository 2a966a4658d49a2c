"""The tracer and the instruments of a `Telemetry`, and the content of messages, if the caller wants it recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.usage import Usage
from outrider.providers.credentials.secrets import masked
from outrider.telemetry import conventions as names
from outrider.telemetry.spans import Spans
from outrider.text import clean, shorten
from outrider.version import __version__

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


class Signals:
    """A tracer and the instruments, and the content to record if any is."""

    def __init__(self, tracers: TracerProvider, meters: MeterProvider, content: RecordedContent | None) -> None:
        self.content = content
        """None if the text of conversations is not recorded."""
        self.spans = Spans(tracers.get_tracer("outrider", __version__, names.SCHEMA_URL))
        meter = meters.get_meter("outrider", __version__, names.SCHEMA_URL)
        self._durations = meter.create_histogram(
            names.OPERATION_DURATION,
            unit="s",
            description="How long requests, calls and runs take.",
            explicit_bucket_boundaries_advisory=names.DURATION_BUCKETS,
        )
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            unit="{token}",
            description="Input and output tokens of requests.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS,
        )
        self._cost = meter.create_counter(names.TOTAL_COST, unit="USD", description="What requests cost.")

    def count_duration(self, nanoseconds: int, about: dict[str, str], around: Context, error: str = "") -> None:
        """Count how long an operation took."""
        self._durations.record(nanoseconds / 1e9, {**about, names.ERROR_TYPE: error} if error else about, around)

    def count_usage(self, usage: Usage, about: dict[str, str], around: Context) -> None:
        """Count the tokens and the cost of a request."""
        self._tokens.record(usage.input_tokens, {**about, names.TOKEN_TYPE: "input"}, around)
        self._tokens.record(usage.output_tokens, {**about, names.TOKEN_TYPE: "output"}, around)
        if usage.cost:
            self._cost.add(usage.cost, about, around)


def usage_attributes(usage: Usage) -> dict[str, int | float]:
    """Return the tokens and the cost of a request as attributes of its span; what is zero is left out."""
    found: dict[str, int | float] = {names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens}
    if usage.cached_tokens:
        found[names.CACHE_READ_TOKENS] = usage.cached_tokens
    if usage.cache_write_tokens:
        found[names.CACHE_CREATION_TOKENS] = usage.cache_write_tokens
    if usage.reasoning_tokens:
        found[names.REASONING_TOKENS] = usage.reasoning_tokens
    if usage.cost is not None:
        found[names.COST] = usage.cost
    return found
