"""Calls that small models write as text and that the server did not parse. They become calls at the end of a reply."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

import msgspec

from outrider.conversation.messages import Block, Message, TextBlock, ToolUseBlock
from outrider.providers.base import Reply, StopReason
from outrider.providers.chat_stream import IncomingReply
from outrider.providers.deltas import Delta, TextDelta, ToolCallDelta
from outrider.text import clean

_MARKS = ("<tool_call>", "[TOOL_CALLS]", "<function=")
_MARK = re.compile("|".join(map(re.escape, _MARKS)))
_CALL = re.compile(
    r"""
      <tool_call> \s* (?P<object>\{.*?\}) \s* (?:</tool_call>|\Z)             # Qwen, Hermes
    | \[TOOL_CALLS\] \s* (?P<list>\[.*\]) \s* \Z                              # Mistral
    | <function=(?P<name>[^<>\s]+)> \s* (?P<arguments>\{.*?\}) \s* (?:</function>|\Z)  # Llama
    """,
    re.DOTALL | re.VERBOSE,
)
LONGEST_HELD = 20_000
"""Characters of text that may be a call and are held back."""
_MOST_MARKS = 20
_SPACE = re.compile(r"\s*")
_SUSPECT = re.compile(r"[<\[]")


class ReplyWithWrittenCalls(IncomingReply):
    """A reply that is being received. Text that may be a call is held back until that is known."""

    def __init__(self, tools: Collection[str], **settings: Any) -> None:
        super().__init__(**settings)
        self._tools = tools
        self._held = ""

    def _show(self, text: str) -> list[Delta]:
        if not self._tools or (not self._held and "<" not in text and "[" not in text):
            return [TextDelta(text)]
        self._held += text
        if len(self._held) > LONGEST_HELD:  # no call is that long: stop waiting
            ready, self._held, self._tools = self._held, "", ()
            return [TextDelta(ready)]
        shown = _plain_length(self._held)
        ready, self._held = self._held[:shown], self._held[shown:]
        return [TextDelta(ready)] if ready else []

    def end(self) -> Iterator[Delta | Reply]:
        """Yield the held-back text, as text or as calls, and the reply."""
        for item in super().end():
            yield from _ending(item, self._held, self._tools) if isinstance(item, Reply) else [item]


def _plain_length(text: str) -> int:
    """Return the number of characters before the first mark, or before the start of a possible mark."""
    for found in _SUSPECT.finditer(text):
        rest = text[found.start() : found.start() + len(max(_MARKS, key=len))]
        if any(rest.startswith(mark) or mark.startswith(rest) for mark in _MARKS):
            return found.start()
    return len(text)


def _ending(reply: Reply, held: str, tools: Collection[str]) -> Iterator[Delta | Reply]:
    before, calls = ("", ()) if reply.message.tool_calls else written_calls(reply.message.text, tools)
    if not calls:
        if held:
            yield TextDelta(held)
        yield reply
        return
    if unseen := before[len(reply.message.text) - len(held) :]:
        yield TextDelta(unseen)
    for call in calls:
        yield ToolCallDelta("", call.name, msgspec.json.encode(call.input).decode())
    others: list[Block] = [block for block in reply.message.content if not isinstance(block, TextBlock)]
    text = [TextBlock(before)] if before else []
    stop = StopReason.TOOL_USE if reply.stop_reason == StopReason.END else reply.stop_reason
    yield Reply(Message("assistant", (*others, *text, *calls)), stop, reply.usage)


def written_calls(text: str, tools: Collection[str]) -> tuple[str, tuple[ToolUseBlock, ...]]:
    """Return the text before the calls, and the calls. They must end the text and name existing tools.

    >>> written_calls('Well. <tool_call>{"name": "look", "arguments": {"at": "a"}}</tool_call>', ["look"])[1][0].input
    {'at': 'a'}
    """
    if not tools:
        return text, ()
    for mark in islice(_MARK.finditer(text), _MOST_MARKS):
        calls = tuple(_calls_from(text, mark.start()))
        if calls and all(call is not None and call.name in tools for call in calls):
            return text[: mark.start()].rstrip(), tuple(filter(None, calls))
    return text, ()


def _calls_from(text: str, start: int) -> Iterator[ToolUseBlock | None]:
    """Yield the calls from an offset to the end, and None for text that is not a call."""
    while start < len(text):
        found = _CALL.match(text, start)
        if found is None:
            yield None
            return
        if found["name"]:
            yield _call({"name": found["name"], "arguments": _decoded(found["arguments"])})
        else:
            value = _decoded(found["object"] or found["list"])
            yield from map(_call, value if isinstance(value, list) else [value])
        start = _SPACE.match(text, found.end()).end()  # type: ignore[union-attr]


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(clean(text))
    except (ValueError, RecursionError):
        return None


def _call(value: Any) -> ToolUseBlock | None:
    """Return a call of the form {"name": …, "arguments": {…}}. Some models write `parameters`."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    return ToolUseBlock("", value["name"], arguments) if isinstance(arguments, dict) else None
