"""A streamed reply that may have calls written as text. They become calls at the end of the reply."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from outrider.providers.base import Reply
from outrider.providers.deltas import Delta, TextDelta, ToolCallDelta
from outrider.providers.streams.chat_stream import IncomingReply
from outrider.providers.text_calls import written_calls as written
from outrider.providers.text_calls.written_calls import FENCES, MARKS, NAMES, Parameters
from outrider.tools.near_names import nearest_name

LONGEST_HELD = 100_000  # characters of text that may be a call and are held back
_SUSPECT = re.compile(r"[<\[{`]")
_KEYS = (*NAMES, *written.ARGUMENTS, *written.LISTS, *written.BESIDE)
_FENCE = re.compile(r"```[ \t]*([\w-]*)[ \t]*")
# The beginning of a call in JSON, however much of it has arrived.
_JSON = re.compile(
    r'[\[\s]*(?:\{{1,2}\s*(?:"(?P<key>\w*)(?P<closed>"\s*(?P<colon>:\s*(?:"(?P<value>[\w.:-]*)(?P<end>")?)?)?)?)?)?'
)
_NAMED = re.compile(r'\{\s*"name"\s*:\s*"[\w.:-]*"')
_THEN = ',"arguments":{'


class ReplyWithWrittenCalls(IncomingReply):
    """A reply that is being received. Text that may be a call is held back until that is known."""

    def __init__(self, tools: Parameters, **settings: Any) -> None:
        super().__init__(**settings)
        self._tools = tools
        self._held = ""
        self._at_line_start = True
        self._has_shown = False

    def _show(self, text: str) -> list[Delta]:
        if not self._tools or (not self._held and not _SUSPECT.search(text)):
            return self._released(text)
        self._held += text
        if len(self._held) > LONGEST_HELD:  # no call is that long: stop waiting
            ready, self._held, self._tools = self._held, "", {}
            return self._released(ready)
        shown = _plain_length(self._held, self._at_line_start, self._tools, is_first=not self._has_shown)
        ready, self._held = self._held[:shown], self._held[shown:]
        return self._released(ready)

    def _released(self, text: str) -> list[Delta]:
        if not text:
            return []
        self._has_shown = self._has_shown or not text.isspace()
        line = text.rpartition("\n")
        self._at_line_start = not line[2].strip() and (bool(line[1]) or self._at_line_start)
        return [TextDelta(text)]

    def end(self) -> Iterator[Delta | Reply]:
        for item in super().end():
            yield from _ending(item, self._held, self._tools) if isinstance(item, Reply) else [item]


def _plain_length(text: str, at_line_start: bool, tools: Parameters, *, is_first: bool) -> int:
    """Return the number of characters before what is, or may become, the beginning of a call."""
    for found in _SUSPECT.finditer(text):
        at = found.start()
        if _may_be_mark(text, at):
            return at
        line = text[:at].rpartition("\n")
        starts_line = not line[2].strip() and (bool(line[1]) or at_line_start)
        if starts_line and (_may_be_unmarked(text, at, tools) or (is_first and _may_be_plain(text[:at], text[at:]))):
            return at
    return len(text)


def _may_be_mark(text: str, at: int) -> bool:
    rest = text[at : at + len(max(MARKS, key=len))]
    return any(rest.startswith(mark) or mark.startswith(rest) for mark in MARKS)


def _may_be_unmarked(text: str, at: int, tools: Parameters) -> bool:
    """Return whether JSON or a code block may be a call, as far as it has arrived."""
    if text[at] == "`":
        if "```".startswith(text[at : at + 3]) and len(text) - at < 3:
            return True
        fence = _FENCE.match(text, at)
        if fence is None:
            return False
        if fence.end() == len(text):
            return any(language.startswith(fence[1]) for language in FENCES)
        at = fence.end() + len(text[fence.end() :]) - len(text[fence.end() :].lstrip())
        if fence[1] not in FENCES or text[fence.end()] not in "\r\n{[<":
            return False
        if at == len(text) or _may_be_mark(text, at):
            return True
    return text[at] in "{[" and _may_be_json_call(text, at, tools)


def _may_be_json_call(text: str, at: int, tools: Parameters) -> bool:
    found = _JSON.match(text, at)
    assert found is not None  # every part is optional
    key, is_all = found["key"], found.end() == len(text)
    if key is None or found["closed"] is None:
        return is_all and any(each.startswith(key or "") for each in _KEYS)
    if key not in _KEYS:
        return False
    if key not in NAMES or found["value"] is None:
        return is_all or key not in NAMES or key == "function"
    if found["end"] is None:
        return is_all
    return found["value"] in tools or bool(nearest_name(found["value"], tools))


def _may_be_plain(before: str, text: str) -> bool:
    """Return whether a reply begins like {"name": …, "arguments": …}: a call, also if there is no such tool."""
    fence = _FENCE.match(text)
    found = _NAMED.match(text[fence.end() :].lstrip() if fence else text)
    if before.strip() or not found:
        return False
    rest = "".join(found.string[found.end() : found.end() + 40].split())
    return rest.startswith(_THEN) or _THEN.startswith(rest)


def _ending(reply: Reply, held: str, tools: Parameters) -> Iterator[Delta | Reply]:
    """Yield the end of a reply. Calls that the server has parsed win over written ones."""
    before, calls = ("", ()) if reply.message.has_tool_calls else written.written_calls(reply.message.text, tools)
    if not calls:
        if held:
            yield TextDelta(held)
        yield reply
        return
    if unseen := before[len(reply.message.text) - len(held) :]:
        yield TextDelta(unseen)
    for call in calls:
        arguments = call.invalid_input or msgspec.json.encode(call.input).decode()
        yield ToolCallDelta("", call.name, arguments)
    yield written.with_calls(reply, calls, before)
