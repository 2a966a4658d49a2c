"""Build a reply from the chunks of a Gemini stream."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import msgspec

from outrider.conversation.messages import (
    Block,
    Message,
    ProviderState,
    RawBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from outrider.conversation.store import AttachmentStore
from outrider.conversation.usage import Usage
from outrider.errors import ProviderError
from outrider.providers.base import Reply, StopReason
from outrider.providers.deltas import (
    Delta,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from outrider.providers.streams import gemini_chunks as wire
from outrider.providers.streams.gemini_server_tools import cited, fetched, grounding_text, server_call, server_result
from outrider.providers.streams.pictures import picture
from outrider.providers.streams.stream import OneByOne

_FILTERED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "IMAGE_SAFETY",
             "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION")  # fmt: skip
_MALFORMED = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
              "MALFORMED_RESPONSE")  # fmt: skip
_STOP_REASONS = {
    "STOP": StopReason.END,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "CONTINUATION": StopReason.MAX_TOKENS,
    **dict.fromkeys(_FILTERED, StopReason.CONTENT_FILTER),
    **dict.fromkeys(_MALFORMED, StopReason.MALFORMED_CALL),
}

_BESIDE = {"thought", "thoughtSignature"}  # fields of a part that say something about its content


class IncomingReply(OneByOne):
    """A reply that is being received. Every chunk may have a finish reason: only the end of the stream ends it."""

    done = False

    def __init__(
        self,
        origin: ProviderState,
        chunks: Callable[[bytes], Iterable[wire.Chunk]],
        store: AttachmentStore | None = None,
    ) -> None:
        super().__init__(origin)
        self._chunks = chunks
        self._store = store
        self._pictures: dict[int, tuple[wire.Blob, ProviderState]] = {}
        """The pictures by their place among the blocks. They are stored when the reply is complete."""
        self._blocks: list[Block] = []
        self._pieces: list[str] = []  # the text since the last block
        self._thought = False  # whether that text is thinking
        self._call: wire.FunctionCall | None = None  # a call with incomplete arguments
        self._signature: str | None = None  # the signature of that call
        self._server_calls: dict[str, str] = {}  # the tools that the API has run, by the ids of their calls
        self._grounding: dict[str, Any] = {}
        self._fetched: dict[str, Any] = {}  # what the API tells about the pages that it has read
        self._finish = ""
        self._message = ""
        self._usage = wire.UsageMetadata()
        self._stop = StopReason.OTHER

    def take(self, data: bytes) -> Iterator[Delta]:
        for place, chunk in enumerate(self._chunks(data)):
            yield from self._take_chunk(chunk, data, place)

    def _take_chunk(self, chunk: wire.Chunk, data: bytes, place: int) -> Iterator[Delta]:
        self._usage = chunk.usage_metadata or self._usage
        feedback = chunk.prompt_feedback
        if feedback and feedback.block_reason:
            self._end(feedback.block_reason, feedback.block_reason_message, StopReason.CONTENT_FILTER)
        for candidate in (chunk.candidates or ())[:1]:
            self._grounding |= candidate.grounding_metadata or {}
            self._fetched |= candidate.url_context_metadata or {}
            for number, part in enumerate((candidate.content and candidate.content.parts) or ()):
                if not (yield from self._take_part(part)) and not self._keep(data, place, number):
                    yield from self._take_text("", bool(part.thought), part.thought_signature)
            if reason := candidate.finish_reason:
                self._end(reason, candidate.finish_message, _STOP_REASONS.get(reason, StopReason.OTHER))

    def _take_part(self, part: wire.ContentPart) -> Generator[Delta, None, bool]:
        """Yield the deltas of a part. Return whether we know what it is."""
        if part.function_call:
            yield from self._take_call(part.function_call, part.thought_signature)
        elif part.executable_code or part.tool_call:
            yield self._take_server_call(part)
        elif part.code_execution_result or part.tool_response:
            yield self._take_server_result(part)
        elif part.inline_data:
            self._take_picture(part.inline_data, bool(part.thought), part.thought_signature)
        elif part.text is not None:
            yield from self._take_text(part.text, bool(part.thought), part.thought_signature)
        else:
            return False
        return True

    def _keep(self, data: bytes, place: int, number: int) -> bool:
        """Keep a part that we do not know as it came, such as the address of a file. Return whether it has anything."""
        event = msgspec.json.decode(data)
        chunk = event[place] if isinstance(event, list) else event
        raw = functools.reduce(operator.getitem, ("candidates", 0, "content", "parts", number), chunk)
        kinds = [name for name, value in raw.items() if value and name not in _BESIDE] if isinstance(raw, dict) else []
        if kinds:
            self._flush()
            self._blocks.append(RawBlock(kinds[0], self._state({"part": raw})))
        return bool(kinds)

    def _end(self, reason: str, message: str | None, stop: StopReason) -> None:
        self._finish, self._message, self._stop, self.complete = reason, message or "", stop, True

    def _take_text(self, text: str, thought: bool, signature: str | None) -> Iterator[Delta]:
        if not (text or signature):
            return
        if signature or thought is not self._thought:
            self._flush()  # a part with a signature is not joined with others
        self._thought = thought
        self._pieces.append(text)
        if signature:
            self._flush(signature)
        if text:
            yield ThinkingDelta(text) if thought else TextDelta(text)

    def _flush(self, signature: str | None = None) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        if self._thought and (text or signature):
            self._blocks.append(ThinkingBlock(text, self._signed(signature)))
        elif signature and not text.strip():
            # A history keeps no blank text, but the signature must be sent back in a part with the same text.
            self._blocks.append(ThinkingBlock("", self._signed(signature, text=text)))
        elif text:
            self._blocks.append(TextBlock(text, self._signed(signature)))

    def _take_picture(self, blob: wire.Blob, thought: bool, signature: str | None) -> None:
        if thought:  # a draft of a model that thinks in pictures
            return
        self._flush()
        self._pictures[len(self._blocks)] = blob, self._state({"thoughtSignature": signature} if signature else {})
        self._blocks.append(TextBlock("[a picture]"))

    def _take_server_call(self, part: wire.ContentPart) -> ServerToolStarted:
        self._flush()
        name, call_id, given = server_call(part.executable_code, part.tool_call)
        call_id = call_id or f"server_{len(self._server_calls) + 1}"
        self._server_calls[call_id] = name
        self._blocks.append(ServerToolUseBlock(call_id, name, given, self._part_state(part)))
        return ServerToolStarted(call_id, name, given)

    def _take_server_result(self, part: wire.ContentPart) -> ServerToolFinished:
        self._flush()
        call_id, text, failed = server_result(part.code_execution_result, part.tool_response)
        call_id = call_id or next(reversed(self._server_calls), "")
        self._blocks.append(ServerToolResultBlock(call_id, text, failed, self._part_state(part)))
        return ServerToolFinished(call_id, self._server_calls.get(call_id, ""), text, failed)

    def _part_state(self, part: wire.ContentPart) -> ProviderState:
        names = {
            "executableCode": part.executable_code,
            "codeExecutionResult": part.code_execution_result,
            "toolCall": part.tool_call,
            "toolResponse": part.tool_response,
            "thoughtSignature": part.thought_signature,
        }
        return self._state({"part": {name: value for name, value in names.items() if value}})

    def _ground(self) -> Iterator[Delta]:
        """Add the sources to the text. Without calls in the stream, they are shown from what they have found."""
        queries = self._grounding.get("webSearchQueries")
        if isinstance(queries, list) and queries:
            given = {"queries": [query for query in queries if isinstance(query, str)]}
            yield from self._tell("web_search", given, grounding_text(self._grounding))
        if pages := fetched(self._fetched):
            failed = not any(status.endswith("SUCCESS") for status in pages.values())
            text = "\n".join(f"- {url}: {status}" for url, status in pages.items())
            yield from self._tell("web_fetch", {"urls": list(pages)}, text, failed)
        self._blocks = cited(self._blocks, self._grounding)

    def _tell(self, name: str, given: dict[str, Any], text: str, failed: bool = False) -> Iterator[Delta]:
        """Show a tool that the API has run before the reply, unless the stream had its call."""
        if name in self._server_calls.values():
            return
        call_id, state = f"server_{name.removeprefix('web_')}", self._state({"part": None})
        use = ServerToolUseBlock(call_id, name, given, state)
        self._blocks[:0] = [use, ServerToolResultBlock(call_id, text, failed, state)]
        self._pictures = {place + 2: each for place, each in self._pictures.items()}
        yield ServerToolStarted(call_id, name, given)
        yield ServerToolFinished(call_id, name, text, failed)

    def _take_call(self, call: wire.FunctionCall, signature: str | None) -> Iterator[Delta]:
        if call.name:
            self._flush()
            yield from self._finish_call(whole=False)
            self._call, self._signature = call, signature
            if call.will_continue:
                yield ToolCallDelta(call.id or "", call.name, "")
        elif self._call:
            self._call.partial_args = [*(self._call.partial_args or ()), *(call.partial_args or ())]
            self._call.args = call.args if call.args is not None else self._call.args
            self._signature = self._signature or signature
        elif call.args or call.partial_args:
            raise ProviderError("Gemini sent arguments without a call")
        if not call.will_continue:
            yield from self._finish_call()

    def _finish_call(self, whole: bool = True) -> Iterator[Delta]:
        """Finish the open call, if there is one. A call that was cut off is marked invalid and does not run."""
        call, self._call = self._call, None
        if call is None:
            return
        args = {} if call.args is None else call.args
        valid = isinstance(args, dict) and wire.merge_arguments(args, call.partial_args or ()) and whole
        text = msgspec.json.encode(args).decode()
        text = text if whole else text[:-1]
        state = self._signed(self._signature, id=call.id or None)
        block = ToolUseBlock(call.id or "", call.name or "", args if valid else {}, None if valid else text, state)
        self._blocks.append(block)
        yield ToolCallDelta(block.id, block.name, text)

    def _signed(self, signature: str | None, **more: str | None) -> ProviderState | None:
        data = {"thoughtSignature": signature or None, **more}
        kept = {name: value for name, value in data.items() if value is not None}
        return self._state(kept) if kept else None

    def end(self) -> Iterator[Delta | Reply]:
        """Yield the last deltas, a note with the finish reason if the reply has no text, and the reply."""
        yield from self._finish_call(whole=self._stop is StopReason.END)
        if any(isinstance(block, ToolUseBlock) for block in self._blocks):
            self._stop = StopReason.TOOL_USE if self._stop is StopReason.END else self._stop
        elif self._stop is StopReason.MALFORMED_CALL or not (self._has_text or self._stop is StopReason.END):
            note = ": ".join(filter(None, ("Gemini ended the reply", self._finish, self._message)))
            yield from self._take_text(f"\n\n[{note}]" if self._has_text else f"[{note}]", False, None)
            self._message = ""
        self._flush()
        if self._grounding or self._fetched:
            yield from self._ground()
        for place, (blob, state) in self._pictures.items():
            self._blocks[place] = picture(blob.data, blob.mime_type, self._store, state)
        detail = "" if self._stop in (StopReason.END, StopReason.TOOL_USE) else self._message
        if self._stop is StopReason.OTHER:
            detail = detail or self._finish
        yield Reply(Message("assistant", tuple(self._blocks)), self._stop, self.usage, detail)

    @property
    def usage(self) -> Usage:
        queries = self._grounding.get("webSearchQueries")
        searches = len(queries) if isinstance(queries, list) else 0
        return msgspec.structs.replace(wire.usage_of(self._usage), web_searches=searches)

    @property
    def _has_text(self) -> bool:
        pending = "" if self._thought else "".join(self._pieces)
        return bool(pending.strip()) or any(isinstance(block, TextBlock) for block in self._blocks)
