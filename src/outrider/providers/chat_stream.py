"""Build a reply from the stream of a Chat Completions server. Servers differ in many details."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from outrider.conversation.messages import Block, Message, ProviderState, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from outrider.errors import IncompleteStreamError, ProviderError
from outrider.providers.base import Reply, StopReason
from outrider.providers.deltas import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from outrider.providers.stream import CallAssembler
from outrider.text import clean_value

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Fields in which vendors put the model's reasoning, in replies and in requests."""

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


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: Any = None


class _Fragment(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    """The content of a chunk. A whole message has the same fields."""

    content: Any = None
    refusal: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: list[_Fragment] | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    """Only in a response that is not streamed."""
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
_decode_all = msgspec.json.Decoder(list[_Chunk]).decode
BAD_CALL = "tool_use_failed"
"""The code of an error about a call that the model wrote."""
_CALLED = re.compile(r"""<function=([\w.-]+)|"name"\s*:\s*"([\w.-]+)"|tool '([\w.-]+)'""")
DONE = b"[DONE]"
"""The last event of a stream."""


class IncomingReply:
    """A reply that is being received.

    `origin` marks its opaque state. `to_error` makes an exception from an error that the server sends.
    """

    def __init__(self, label: str, origin: ProviderState, to_error: Callable[[Any], ProviderError]) -> None:
        self.done = False
        """Whether the server has ended the stream."""
        self._label = label
        self._origin = origin
        self._to_error = to_error
        self._finish_reason = ""
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._reasoning_field = ""
        self._refused = False
        self._calls = _Calls()
        self._usage: dict[str, Any] = {}

    @property
    def complete(self) -> bool:
        """Whether the reply is complete. Servers may omit the finish reason or the [DONE], but not both."""
        return bool(self._finish_reason or (self.done and (self._text or self._calls.open)))

    def take_all(self, events: Sequence[bytes], shown: list[Delta | Reply]) -> None:
        """Read events until `done`. Most events are only text; the text of adjacent events is joined."""
        texts: list[str] = []
        for chunk in _decode_events(events):
            if text := _only_text(chunk):
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
        self._text.append(text)
        return self._show(text)

    def _show(self, text: str) -> list[Delta]:
        """Return the deltas for new text. Subclasses may hold text back."""
        return [TextDelta(text)]

    def _take_chunk(self, chunk: _Chunk) -> list[Delta]:
        if chunk.error:
            if is_bad_call(chunk.error):
                return self._take_bad_call(chunk.error)
            raise self._to_error(chunk.error)
        self._usage = chunk.usage or self._usage
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
        bad = _BadCall(None)
        bad.take("", name or "invalid_call", said)
        self._calls.open.append(bad)
        self._finish_reason, self.done = "tool_calls", True
        return [ToolCallDelta("", bad.name, said)]

    def _take_invalid(self, data: bytes) -> list[Delta]:
        """Read an event that is not a valid chunk, such as [DONE]."""
        if data.startswith(DONE):
            self.done = True
        if self.done or not data.strip():
            return []
        import json  # takes what some servers send and msgspec refuses: NaN, lone surrogates

        try:
            chunk = msgspec.convert(clean_value(json.loads(data)), _Chunk)
        except (ValueError, RecursionError) as error:
            raise IncompleteStreamError(
                f"{self._label} sent an event that cannot be decoded: {error}", retryable=True
            ) from None
        return self._take_chunk(chunk)

    def _take_choice(self, choice: _Choice, shown: list[Delta]) -> None:
        if delta := choice.delta or choice.message:
            if delta.reasoning_content is not None or delta.reasoning is not None:
                shown += self._take_reasoning(delta)
            if delta.content and (text := _text_of(delta.content)):
                shown += self._add_text(text)
            if delta.refusal:
                self._refused = True
                shown += self._add_text(delta.refusal)
            if delta.tool_calls:
                shown += self._calls.take(delta.tool_calls)
            elif delta.function_call:
                shown += self._calls.take([_Fragment(0, function=delta.function_call)])
        if choice.finish_reason or choice.message:
            if choice.finish_reason in _FAILURES:
                raise IncompleteStreamError(
                    f"{self._label} ended the stream with an error: {choice.finish_reason}", retryable=True
                )
            self._finish_reason = choice.finish_reason or "stop"

    def _take_reasoning(self, delta: _Delta) -> Iterator[Delta]:
        """Read reasoning. Some servers send it in two fields; the one with the first text counts."""
        for field in REASONING_FIELDS:
            piece = getattr(delta, field)
            if not isinstance(piece, str):
                continue
            if not self._thoughts:
                self._reasoning_field = field
            if piece and field == self._reasoning_field:
                self._thoughts.append(piece)
                yield ThinkingDelta(piece)

    def end(self) -> Iterator[Delta | Reply]:
        """Yield the complete reply."""
        stop = _STOP_REASONS.get(self._finish_reason or "stop", StopReason.OTHER)
        calls = self._calls.finish(cut=stop in (StopReason.MAX_TOKENS, StopReason.CONTENT_FILTER))
        blocks: list[Block] = []
        # Keep empty reasoning beside calls: a server may require its field in the next request.
        if self._thoughts or (self._reasoning_field and calls):
            state = msgspec.structs.replace(self._origin, data={"field": self._reasoning_field})
            blocks.append(ThinkingBlock("".join(self._thoughts), state))
        if text := "".join(self._text):
            blocks.append(TextBlock(text))
        blocks += calls
        if self._refused:
            stop = StopReason.REFUSAL
        elif calls and stop in (StopReason.END, StopReason.OTHER):
            stop = StopReason.TOOL_USE
        yield Reply(Message("assistant", tuple(blocks)), stop, self.usage)

    @property
    def usage(self) -> Usage:
        """The usage that the server has reported so far."""
        return _usage(self._usage)


def is_bad_call(error: Any) -> bool:
    """Return whether a server refused the model's own call, as Groq does: not the request is at fault."""
    return isinstance(error, dict) and error.get("code") == BAD_CALL


def _decode_events(events: Sequence[bytes]) -> Iterable[_Chunk | bytes]:
    """Return the events as chunks. Events that are not valid chunks stay bytes."""
    last = len(events) - (events[-1] == DONE) if events else 0
    if last > 2:  # decode events that arrived together in one call
        try:
            chunks = _decode_all(b"[%b]" % b",".join(events[:last]))
        except (msgspec.DecodeError, RecursionError):
            return map(_chunk, events)
        if len(chunks) == last:  # else an event was not exactly one object
            return (*chunks, *events[last:])
    return map(_chunk, events)


def _chunk(event: bytes) -> _Chunk | bytes:
    try:
        return _decode(event)
    except (msgspec.DecodeError, RecursionError):
        return event


def _only_text(chunk: _Chunk | bytes) -> str:
    """Return the text of a chunk that contains nothing else, or ""."""
    if isinstance(chunk, bytes):
        return ""
    choices = chunk.choices
    if not choices or len(choices) != 1 or chunk.usage is not None or chunk.error is not None:
        return ""
    choice = choices[0]
    if choice.index or choice.finish_reason is not None or choice.delta is None:
        return ""
    delta = choice.delta
    if type(delta.content) is not str or delta.tool_calls is not None or delta.refusal is not None:
        return ""
    other = delta.reasoning_content is not None or delta.reasoning is not None or delta.function_call is not None
    return "" if other else delta.content


def _text_of(content: Any) -> str:
    """Return the text of content. Some vendors send it as a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _usage(usage: dict[str, Any]) -> Usage:
    prompt = _object(usage.get("prompt_tokens_details"))
    completion = _object(usage.get("completion_tokens_details"))
    return Usage(
        _number(usage.get("prompt_tokens")),
        _number(usage.get("completion_tokens")),
        _number(prompt.get("cached_tokens") or usage.get("prompt_cache_hit_tokens")),
        _number(prompt.get("cache_write_tokens")),
        _number(completion.get("reasoning_tokens")),
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


# Tool calls


class _Call(CallAssembler):
    """A call that is being assembled, with the index that the server gave it."""

    def __init__(self, index: int | None) -> None:
        super().__init__()
        self.index = index

    @property
    def is_whole(self) -> bool:
        """Whether the arguments so far are a complete JSON object."""
        return bool(self.text) and self.finish().invalid_input is None

    def continues(self, call_id: str, name: str, piece: str, *, same_chunk: bool) -> bool:
        """Return whether a fragment with the same index continues this call, or starts another one.

        `same_chunk`: the chunk of the fragment has another fragment of this call.
        """
        if not name or (call_id and call_id == self.id):
            return True  # every call starts with a name
        if same_chunk:
            return False
        if call_id and self.id:
            return (
                name == self.name and not self.is_whole
            )  # the server sends a new id with every fragment, or always the same index
        return not self.is_whole or (name == self.name and not piece)

    def take(self, call_id: str, name: str, piece: str) -> None:
        """Add a fragment. A name may come in pieces, or again with every fragment."""
        self.id = self.id or call_id
        if name and name != self.name and not self._pieces:
            self.name += name
        if piece:
            self.add(piece)


class _BadCall(_Call):
    """A call that the server refused. Its text is what the server said, never arguments."""

    def finish(self, state: Any = None) -> ToolUseBlock:
        return ToolUseBlock(self.id, self.name, {}, invalid_input=self.text, state=state)


class _Calls:
    """The calls of a reply, distinguished by index, id and name, as far as the server sends them."""

    def __init__(self) -> None:
        self.open: list[_Call] = []

    def take(self, fragments: Iterable[_Fragment]) -> Iterator[Delta]:
        """Read the fragments of one chunk and yield their deltas."""
        touched: list[_Call] = []
        for fragment in fragments:
            function = fragment.function or _Function()
            call_id, name, piece = fragment.id or "", function.name or "", _arguments(function.arguments)
            call = self._find(fragment.index, call_id)
            if call is None and not name and self.open:
                call = self.open[-1]
            if call is None or not call.continues(call_id, name, piece, same_chunk=call in touched):
                call = _Call(fragment.index)
                self.open.append(call)
            call.take(call_id, name, piece)
            touched.append(call)
            yield ToolCallDelta(call.id, call.name, piece)

    def _find(self, index: int | None, call_id: str) -> _Call | None:
        candidates = [call for call in reversed(self.open) if None in (index, call.index) or call.index == index]
        known = (call for call in candidates if call_id and call.id == call_id)
        return next(known, None) or (candidates[0] if candidates else None)

    def finish(self, *, cut: bool) -> list[ToolUseBlock]:
        """Return the calls. If the reply was cut off, a last call without arguments is marked invalid."""
        calls = [call.finish() for call in self.open]
        if cut and calls and not self.open[-1].text.strip():
            calls[-1] = msgspec.structs.replace(calls[-1], invalid_input="")
        return calls


def _arguments(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()
