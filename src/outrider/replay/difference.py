"""How a replay differs from the recorded session: the first entry that does, its field, and both values."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from outrider.conversation.messages import Message, ToolUseBlock
from outrider.log import entries as kinds
from outrider.log.entries import Entry, Requested
from outrider.log.session_id import shown_id
from outrider.text.visible import safe_line

_UNCOMPARED = ("first_token", "key", "delay", "details", "seal", "model", "files")
"""Fields of entries that differ by their nature: times, and what is for screens; and the model, which the log names."""
SHOWN = 6
"""Lines of a diff that are shown, each at most so long:"""
LONGEST = 200
NOTHING = "(nothing)"


class Difference(msgspec.Struct, frozen=True):
    """The first difference between a recorded session and its replay."""

    session: str
    seq: int
    """The recorded entry that differs, or the last one before the difference."""
    about: str
    """What differs: `request`, `reply`, `call Read`, `result of Read`, `end of the run` and so on."""
    field: str
    """The field that differs, as in `system`, `tools.Read.description` or `messages[3].content[0].text`."""
    recorded: str
    """A few lines of what the log has, and of what the replay has instead."""
    replayed: str

    def __str__(self) -> str:
        where = f"entry {self.seq} of {shown_id(self.session)}: {self.about}"
        return "\n".join([f"{where}, {self.field}" if self.field else where, *self._lines()])

    def _lines(self) -> Iterator[str]:
        for mark, text in (("-", self.recorded), ("+", self.replayed)):
            yield from (f"  {mark} {safe_line(line)}" for line in text.splitlines() or [NOTHING])


class Replayed(msgspec.Struct, frozen=True):
    """What a replay found."""

    session: str
    entries: int
    """The entries that were compared, those of sub-agents included."""
    sessions: int = 1
    difference: Difference | None = None
    """The first difference; None if there is none."""


def entry_difference(recorded: Entry, replayed: Entry) -> tuple[str, Any, Any] | None:
    """Return the first field in which two entries of a kind differ, with both values."""
    return _first(_plain(recorded), _plain(replayed))


def request_difference(recorded: Mapping[str, Any], replayed: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """Return the first part in which two requests differ. Tools are compared by name."""
    one, other = ({**each, "tools": _by_name(each.get("tools"))} for each in (recorded, replayed))
    return _first(one, other)


def messages_difference(recorded: Sequence[Message], replayed: Sequence[Message]) -> tuple[str, Any, Any] | None:
    """Return the first place in which the messages of two requests differ."""
    for at, (one, other) in enumerate(zip(recorded, replayed, strict=False)):
        if one is not other and one != other:
            found = _first(msgspec.to_builtins(one), msgspec.to_builtins(other)) or ("", one, other)
            return f"messages[{at}].{found[0]}", found[1], found[2]
    if len(recorded) == len(replayed):
        return None
    at = min(len(recorded), len(replayed))
    both = [shown_message(each[at]) if at < len(each) else None for each in (recorded, replayed)]
    return f"messages[{at}]", both[0], both[1]


def shown(recorded: Any, replayed: Any) -> tuple[str, str]:
    """Return the lines in which two values differ, short enough to be read."""
    one, other = _text(recorded), _text(replayed)
    first, second = one.splitlines() or [""], other.splitlines() or [""]
    if len(first) == 1 == len(second):
        start = _common(one, other)
        cut = max(0, start - 40)
        lead = "…" if cut else ""
        return tuple(lead + _cut(each[cut:]) if each else "" for each in (one, other))  # type: ignore[return-value]
    before, after = _changed(first[:2_000], second[:2_000])
    return _side(before), _side(after)


def about(entry: Entry | None) -> str:
    """Return what an entry is, for people."""
    match entry:
        case None:
            return "the end of the session"
        case kinds.MessageEntry(message=message):
            return (
                ("a reply" if entry.stop_reason else "a partial reply") if message.role == "assistant" else "a message"
            )
        case kinds.RunStopped(status=status):
            return f"the end of the run ({status})"
        case kinds.SessionSettings():
            return "another model or agent"
    return _NAMES.get(type(entry), entry.kind or "an entry")


_NAMES: dict[type[Entry], str] = {
    kinds.RunStarted: "the start of a run",
    kinds.RunCancelled: "a cancel",
    kinds.SteeringDelivered: "the delivery of a queued message",
    kinds.CompactionEntry: "a compaction",
    kinds.ResultsClearedEntry: "the clearing of old results",
    kinds.RewindEntry: "a rewind",
    kinds.AttemptFailed: "a failed request",
}


def shown_message(message: Message) -> str:
    """Return a message in one line."""
    calls = ", ".join(block.name for block in message.content if isinstance(block, ToolUseBlock))
    results = "; ".join(result.text for result in message.tool_results)
    return f"{message.role}: {message.text or results or calls or '(files)'}"


def parts_of(requested: Requested, fields: Sequence[str]) -> dict[str, Any]:
    """Return these fields of what a request had beside its messages, as JSON has them."""
    plain = msgspec.to_builtins(requested, enc_hook=repr)
    return {name: plain.get(name) for name in fields}


def _plain(entry: Entry) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(entry, enc_hook=repr)
    return {name: value for name, value in plain.items() if name not in _UNCOMPARED}


def _by_name(tools: Any) -> dict[str, Any]:
    return {each["name"]: each for each in tools or ()}


def _first(one: Any, other: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """Return the first place in which two JSON values differ, with both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in [*one, *(each for each in other if each not in one)]:
            if found := _first(one.get(name), other.get(name), f"{path}.{name}" if path else str(name)):
                return found
        return None
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return next(filter(None, (_first(*each, f"{path}[{at}]") for at, each in pairs)), None)
    is_same = one == other and isinstance(one, bool) == isinstance(other, bool)
    return None if is_same else (path, one, other)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=repr, order="sorted").decode()


def _changed(before: list[str], after: list[str]) -> tuple[list[str], list[str]]:
    """Return the lines of each side that the other does not have there.

    Which words of a line differ is not looked for: with hundreds of similar lines that takes minutes.
    """
    gone: list[str] = []
    new: list[str] = []
    for kind, *places in difflib.SequenceMatcher(None, before, after).get_opcodes():
        if kind != "equal":
            one, other = before[places[0] : places[1]], after[places[2] : places[3]]
            # Lines that come often are not compared there, so both sides may begin and end with the same ones.
            head = _common(one, other)
            tail = _common(one[head:][::-1], other[head:][::-1])
            gone += one[head : len(one) - tail]
            new += other[head : len(other) - tail]
    return gone, new


def _side(lines: Sequence[str]) -> str:
    more = [f"… {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
    return "\n".join([*map(_cut, lines[:SHOWN]), *more])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
