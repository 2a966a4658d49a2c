"""The tool calls of a Chat Completions stream, put together from their fragments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from outrider.conversation.messages import ProviderState, ToolUseBlock
from outrider.providers.deltas import Delta, ToolCallDelta
from outrider.providers.streams.chat_chunks import Custom, Fragment, Function, object_of
from outrider.providers.streams.stream import CallAssembler

MANY_PIECES = 50
ANY = "any"
NOWHERE = -1


class _Call(CallAssembler):
    """A call that is being assembled, with the index that the server gave it."""

    def __init__(self, index: int | None) -> None:
        super().__init__()
        self.index = index
        self.place = 0
        """Its place among the calls of the reply."""
        self.extra: dict[str, Any] = {}  # state of the vendor, to be sent back with the call
        self.is_custom = False  # whether the tool takes text instead of JSON

    @property
    def is_whole(self) -> bool:
        if len(self._pieces) > MANY_PIECES and not self._pieces[-1].rstrip().endswith("}"):
            return False  # without joining and decoding all pieces for each
        return bool(self.text) and self.finish().invalid_input is None

    def continues(self, call_id: str, name: str, piece: str, *, same_chunk: bool) -> bool:
        """Return whether a fragment of the same index, perhaps of one chunk, continues this call, or starts another."""
        if not name or (call_id and call_id == self.id):
            return True  # every call starts with a name
        if same_chunk:
            return False
        if call_id and self.id:  # the server sends a new id with every fragment, or always the same index
            return name == self.name and not self.is_whole
        return not self.is_whole or (name == self.name and not piece)

    def take(self, call_id: str, name: str, piece: str) -> None:
        """Add a fragment. A name may come in pieces, or again with every fragment."""
        self.id = self.id or call_id
        if name and name != self.name and not self._pieces:
            self.name += name
        if piece:
            self.add(piece)


class BadCall(_Call):
    """A call that the server refused. Its text is what the server said, never arguments."""

    def finish(self, state: Any = None) -> ToolUseBlock:
        return ToolUseBlock(self.id, self.name, {}, invalid_input=self.text, state=state)


class Calls:
    """The calls of a reply, distinguished by index, id and name, as far as the server sends them."""

    def __init__(self) -> None:
        self.open: list[_Call] = []
        self._newest: dict[tuple[str | None, int | str | None], int] = {}
        """The newest call by its id and its index; without an id, or with any index, under None and ANY."""

    def take(self, fragments: Sequence[Fragment]) -> list[Delta]:
        found: list[Delta] = []
        touched: set[int] = set()
        for fragment in fragments:
            function = fragment.function or _as_function(fragment.custom or Custom())
            call_id, name, piece = fragment.id or "", function.name or "", _arguments(function.arguments)
            if not (call_id or name or piece or fragment.extra_content):
                continue
            call = self._find(fragment.index, call_id)
            if call is None and not name and self.open:
                call = self.open[-1]
            if call is None or not call.continues(call_id, name, piece, same_chunk=call.place in touched):
                call = _Call(fragment.index)
                call.place = len(self.open)
                self.open.append(call)
                self._remember(call)
            had_id = bool(call.id)
            call.take(call_id, name, piece)
            if call.id and not had_id:
                self._remember(call)
            call.is_custom = call.is_custom or fragment.custom is not None
            if fragment.extra_content is not None:
                call.extra |= object_of(fragment.extra_content)
            touched.add(call.place)
            found.append(ToolCallDelta(call.id, call.name, piece))
        return found

    def _find(self, index: int | None, call_id: str) -> _Call | None:
        if not call_id and self.open and self.open[-1].index == index:  # the usual piece of the newest call
            return self.open[-1]
        known = self._place(call_id, index) if call_id else NOWHERE
        place = known if known != NOWHERE else self._place(None, index)
        return self.open[place] if place != NOWHERE else None

    def _place(self, call_id: str | None, index: int | None) -> int:
        """Return the place of the newest call that may be meant: one without an index may be any."""
        names = (ANY,) if index is None else (index, None)
        return max(self._newest.get((call_id, name), NOWHERE) for name in names)

    def _remember(self, call: _Call) -> None:
        for call_id in {None, call.id or None}:
            for index in (call.index, ANY):
                key = call_id, index
                self._newest[key] = max(self._newest.get(key, NOWHERE), call.place)

    def finish(self, origin: ProviderState, *, cut: bool) -> list[ToolUseBlock]:
        """Return the calls. If the reply was cut off, a last call without arguments is marked invalid."""
        calls = [_finished(call, origin) for call in self.open]
        if cut and calls and not self.open[-1].text.strip():
            calls[-1] = msgspec.structs.replace(calls[-1], invalid_input="")
        return calls


def _finished(call: _Call, origin: ProviderState) -> ToolUseBlock:
    if call.is_custom:
        state = msgspec.structs.replace(origin, data={"type": "custom"})
        return ToolUseBlock(call.id, call.name, {"input": call.text}, state=state)
    return call.finish(msgspec.structs.replace(origin, data={"extra_content": call.extra}) if call.extra else None)


def _as_function(custom: Custom) -> Function:
    return Function(custom.name, custom.input)


def _arguments(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()
