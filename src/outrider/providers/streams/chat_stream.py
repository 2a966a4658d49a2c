"""Build a reply from the stream of a Chat Completions server. Servers differ in many details."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from outrider.conversation.messages import Block, Message, ProviderState, RawBlock, TextBlock, ThinkingBlock
from outrider.conversation.store import AttachmentStore
from outrider.conversation.usage import Usage, rounded_cost
from outrider.errors import IncompleteStreamError, ProviderError
from outrider.providers.base import Reply, StopReason
from outrider.providers.deltas import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from outrider.providers.streams import chat_chunks as wire
from outrider.providers.streams.chat_calls import BadCall, Calls
from outrider.providers.streams.chat_chunks import decode_events, only_text, text_of
from outrider.providers.streams.chat_reasoning import InlineThinking, Piece, ReasoningDetails
from outrider.providers.streams.chat_server_tools import ExecutedTools, citations_of
from outrider.providers.streams.pictures import picture_at
from outrider.providers.streams.stream import lenient
from outrider.text import clean_value

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Fields in which vendors put the model's reasoning, in replies and in requests."""
THINKING_PARTS = "content"  # marks reasoning that came as parts of the content, as Mistral sends it
INLINE = "<think>"  # marks reasoning that the model wrote into its text

_STOP_REASONS = {
    "stop": StopReason.END,
    "eos": StopReason.END,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "content_filter": StopReason.CONTENT_FILTER,
    "model_context_window_exceeded": StopReason.CONTEXT_EXCEEDED,
}
_FAILURES = frozenset({"error", "abort", "network_error", "insufficient_system_resource"})
"""Finish reasons that report a failure of the server."""

BAD_CALL = "tool_use_failed"  # the code of an error about a call that the model wrote
_beside = attrgetter("annotations", "extra_content", "images", "executed_tools")
"""Returns what a delta has beside its text, its reasoning and its calls."""
_NOTHING = (None,) * 4
_CALLED = re.compile(r"""<function=([\w.-]+)|"name"\s*:\s*"([\w.-]+)"|tool '([\w.-]+)'""")


class IncomingReply:
    """A reply that is being received. `to_error` makes an exception from an error that the server sends."""

    def __init__(
        self,
        label: str,
        origin: ProviderState,
        to_error: Callable[[Any], ProviderError],
        *,
        store: AttachmentStore | None = None,
        inline_thinking: bool = False,
        reports_cost: bool = False,
    ) -> None:
        self.done = False  # whether the server has ended the stream
        self._label = label
        self._origin = origin
        self._to_error = to_error
        self._store = store
        self._inline = InlineThinking() if inline_thinking else None
        self._reports_cost = reports_cost
        self._finish_reason = ""
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._reasoning_field = ""
        self._details = ReasoningDetails()
        self._extra: dict[str, Any] = {}
        self._images: list[str] = []
        self._annotations: list[Any] = []
        self._executed = ExecutedTools()
        self._raw: list[dict[str, Any]] = []  # parts of the content that we do not know
        self._refused = False
        self._calls = Calls()
        self._usage: dict[str, Any] = {}

    @property
    def complete(self) -> bool:
        """Whether the reply is complete. Servers may omit the finish reason or the [DONE], but not both."""
        said = self._text or self._calls.open or self._images or self._raw or (self._inline and self._inline.holds)
        return bool(self._finish_reason or (self.done and said))

    def take_all(self, events: Sequence[bytes], shown: list[Delta | Reply]) -> None:
        """Read events until `done`. Most events are only text; the text of adjacent events is joined."""
        texts: list[str] = []
        for chunk in decode_events(events):
            if text := only_text(chunk):
                texts.append(text)
                continue
            if texts:
                shown += self._add_text("".join(texts))
                texts.clear()
            shown += self._take_invalid(chunk) if isinstance(chunk, bytes) else self._take_chunk(chunk)
            if self.done:
                return
        if texts:
            shown += self._add_text("".join(texts))

    def _add_text(self, text: str) -> list[Delta]:
        if self._inline is None or self._inline.passes:
            self._text.append(text)
            return self._show(text)
        return self._separate(self._inline.feed(text))

    def _separate(self, pieces: Iterable[Piece]) -> list[Delta]:
        """Take the thinking and the text that the model wrote as one text."""
        shown: list[Delta] = []
        for kind, piece in pieces:
            if kind == "text":
                self._text.append(piece)
                shown += self._show(piece)
            else:
                self._thoughts.append(piece)
                shown.append(ThinkingDelta(piece))
        return shown

    def _show(self, text: str) -> list[Delta]:
        """Return the deltas for new text. Subclasses may hold text back."""
        return [TextDelta(text)]

    def _take_chunk(self, chunk: wire.Chunk) -> list[Delta]:
        if chunk.usage:
            self._usage = chunk.usage
        elif chunk.x_groq is not None:
            self._usage = wire.object_of(wire.object_of(chunk.x_groq).get("usage")) or self._usage
        if (chunk.error or not chunk.choices) and (failure := chunk.failure):
            if is_bad_call(failure):
                return self._take_bad_call(failure)
            error = self._to_error(failure)
            error.usage = self.usage
            raise error
        shown: list[Delta] = []
        for choice in chunk.choices or ():
            if not choice.index:
                self._take_choice(choice, shown)
        return shown

    def _take_bad_call(self, error: dict[str, Any]) -> list[Delta]:
        """Read a call that the server refused. It becomes one that cannot run, so the model learns what was wrong."""
        said = " ".join(str(error.get(field) or "") for field in ("failed_generation", "message")).strip()
        named = _CALLED.search(said)
        name = next(filter(None, named.groups()), "") if named else ""
        bad = BadCall(None)
        bad.take("", name or "invalid_call", said)
        self._calls.open.append(bad)
        self._finish_reason, self.done = "tool_calls", True
        return [ToolCallDelta("", bad.name, said)]

    def _take_invalid(self, data: bytes) -> list[Delta]:
        """Read an event that is not a valid chunk, such as [DONE]."""
        if data.startswith(wire.DONE):
            self.done = True
        if self.done or not data.strip():
            return []
        import json  # takes what some servers send and msgspec refuses: NaN, lone surrogates

        try:
            chunk: wire.Chunk = lenient(wire.Chunk, clean_value(json.loads(data)))
        except (ValueError, RecursionError) as error:
            raise IncompleteStreamError(
                f"{self._label} sent an event that cannot be decoded: {error}", retryable=True
            ) from None
        return self._take_chunk(chunk)

    def _take_choice(self, choice: wire.Choice, shown: list[Delta]) -> None:
        if delta := choice.delta or choice.message:
            if _beside(delta) != _NOTHING:
                self._take_state(delta)
                shown += self._executed.take(delta.executed_tools)
            if delta.reasoning_content is not None or delta.reasoning is not None:
                shown += self._take_reasoning(delta)
            elif delta.reasoning_details:
                shown += self._add_thought("reasoning_details", self._details.take(delta.reasoning_details))
            if delta.content:
                self._take_content(delta.content, shown)
            if delta.refusal:
                self._refused = True
                shown += self._add_text(delta.refusal)
            if delta.tool_calls:
                shown += self._calls.take(delta.tool_calls)
            elif delta.function_call:
                shown += self._calls.take([wire.Fragment(0, function=delta.function_call)])
        if choice.finish_reason or choice.message:
            self._take_finish(choice.finish_reason or "stop")

    def _take_finish(self, reason: str) -> None:
        if reason in _FAILURES:
            raise IncompleteStreamError(f"{self._label} ended the stream with an error: {reason}", retryable=True)
        self._finish_reason = reason

    def _take_state(self, delta: wire.ContentDelta) -> None:
        """Keep what the next request must repeat, the pictures and the sources."""
        if isinstance(delta.annotations, list):
            self._annotations += delta.annotations
        if isinstance(delta.extra_content, dict):
            self._extra |= delta.extra_content
        for image in delta.images if isinstance(delta.images, list) else ():
            if url := wire.object_of(wire.object_of(image).get("image_url")).get("url"):
                self._images.append(str(url))

    def _take_content(self, content: Any, shown: list[Delta]) -> None:
        """Read content. Some vendors send it as a list of parts, among them thinking."""
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, dict) and part.get("type") == "thinking":
                shown += self._add_thought(THINKING_PARTS, text_of(part.get("thinking")))
            elif text := text_of(part):
                shown += self._add_text(text)
            elif isinstance(part, dict) and part.get("type") not in (None, "text"):
                self._raw.append(part)

    def _take_reasoning(self, delta: wire.ContentDelta) -> Iterator[Delta]:
        """Read reasoning. Some servers send it in two fields; the one with the first text counts."""
        if delta.reasoning_details:
            self._details.take(delta.reasoning_details)
        for field in REASONING_FIELDS:
            piece = getattr(delta, field)
            if isinstance(piece, str):
                yield from self._add_thought(field, piece)

    def _add_thought(self, field: str, piece: str) -> Iterator[Delta]:
        if not self._thoughts:
            self._reasoning_field = field
        if piece and field == self._reasoning_field:
            self._thoughts.append(piece)
            yield ThinkingDelta(piece)

    def end(self) -> Iterator[Delta | Reply]:
        stop = _STOP_REASONS.get(self._finish_reason or "stop", StopReason.OTHER)
        if self._inline:
            yield from self._separate(self._inline.finish())
        blocks: list[Block] = []
        if self._executed:
            yield from self._executed.end()
            blocks += self._executed.blocks(self._state({}))
        calls = self._calls.finish(self._origin, cut=stop in (StopReason.MAX_TOKENS, StopReason.CONTENT_FILTER))
        blocks += self._thinking(bool(calls))
        if text := "".join(self._text):
            blocks.append(TextBlock(text, citations=citations_of(self._annotations, text)))
        blocks += [picture_at(url, self._store, self._state({})) for url in self._images]
        blocks += [RawBlock(str(part["type"]), self._state({"part": part})) for part in self._raw]
        blocks += calls
        detail = self._finish_reason if stop is StopReason.OTHER else ""
        if self._refused:
            stop = StopReason.REFUSAL
        elif calls and stop in (StopReason.END, StopReason.OTHER):
            stop = StopReason.TOOL_USE
        yield Reply(Message("assistant", tuple(blocks)), stop, self.usage, detail)

    def _thinking(self, has_calls: bool) -> Iterator[ThinkingBlock]:
        """Yield the reasoning that the next request must repeat: servers may require it beside calls, even if empty."""
        data: dict[str, Any] = {}
        if self._inline and self._inline.found:
            data = {"field": INLINE, "before": self._inline.before, "after": self._inline.after}
        elif self._thoughts or (self._reasoning_field and has_calls):
            data = {"field": self._reasoning_field}
        if self._details.entries:
            data["reasoning_details"] = self._details.entries
        if self._extra:
            data["extra_content"] = self._extra
        if data:
            yield ThinkingBlock("".join(self._thoughts), self._state(data))

    def _state(self, data: dict[str, Any]) -> ProviderState:
        return msgspec.structs.replace(self._origin, data=data)

    @property
    def usage(self) -> Usage:
        usage = wire.usage_of(self._usage)
        if self._executed:
            usage = msgspec.structs.replace(usage, context_tokens=0)
        cost = self._usage.get("cost") if self._reports_cost else None
        return msgspec.structs.replace(usage, cost=rounded_cost(cost)) if isinstance(cost, int | float) else usage


def is_bad_call(error: Any) -> bool:
    """Return whether a server refused the model's own call, as Groq does: not the request is at fault."""
    return isinstance(error, dict) and error.get("code") == BAD_CALL
