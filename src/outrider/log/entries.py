"""What the log holds of a session, one entry after the other. Nothing is rewritten: a correction is another entry.

An entry is stored as its kind and its fields in JSON. A kind that this version does not know was written by a newer
one: it is kept, shown and copied, and otherwise passed over.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, ClassVar

import msgspec

from outrider.conversation.messages import AttachmentBlock, Message, ToolResultBlock, Usage
from outrider.errors import LogError, NewerLogError
from outrider.text import clean, clean_value


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened. Fields that a newer version adds are passed over when it is read."""

    kind: ClassVar[str] = ""


class SessionStarted(Entry, frozen=True):
    """A session begins: the first entry of each."""

    kind: ClassVar[str] = "began"
    session: str
    version: str
    """The version of Outrider that began it."""
    forked_from: str = ""
    """The session whose first entries follow, if it is a fork."""
    forked_at: int = 0
    parent: str = ""
    """The session that sent this one out, if it is a sub-agent's."""


class SessionSettings(Entry, frozen=True):
    """Who answers, and how. What is None is as it was."""

    kind: ClassVar[str] = "settings"
    title: str | None = None
    model: str | None = None
    system: str | None = None
    tools: tuple[str, ...] | None = None
    """The names of the tools: functions cannot be stored."""
    limits: dict[str, Any] | None = None
    cwd: str | None = None


class MessageEntry(Entry, frozen=True):
    """A message stands in the history."""

    kind: ClassVar[str] = "message"
    message: Message
    usage: Usage | None = None
    """What it used, if it is a reply."""
    stop_reason: str = ""
    model: str = ""
    """Who said it, if it is a reply."""


class Intent(Entry, frozen=True):
    """A call is about to be carried out."""

    kind: ClassVar[str] = "tool_started"
    call_id: str
    name: str
    effect: str
    key: str
    """The same when the call is carried out again: whoever sees it twice need act only once."""
    input: dict[str, Any]


class CallResult(Entry, frozen=True):
    """A call has its answer. When all calls of a reply have theirs, the message with the results stands."""

    kind: ClassVar[str] = "tool_finished"
    result: ToolResultBlock
    final: bool = False
    details: Any = None
    """What the tool has for people to see."""


class AttachmentStored(Entry, frozen=True):
    """A file came into the session, which may read it from now on."""

    kind: ClassVar[str] = "attachment"
    attachment: AttachmentBlock


class RunCancelled(Entry, frozen=True):
    """What the session was doing was cancelled."""

    kind: ClassVar[str] = "cancelled"


class SubagentLinked(Entry, frozen=True):
    """A call is carried out by a sub-agent in a session of its own."""

    kind: ClassVar[str] = "subagent"
    call_id: str
    session: str


class SessionRecovered(Entry, frozen=True):
    """The log was damaged, and what was whole was saved."""

    kind: ClassVar[str] = "recovered"
    lost: tuple[int, ...]
    """The numbers of the entries that are gone; at most the first hundred."""
    count: int
    """How many they are."""


class UnknownEntry(Entry, frozen=True):
    """An entry of a kind that this version does not know."""

    name: str
    body: msgspec.Raw


class Record(msgspec.Struct, frozen=True):
    """An entry where it stands in the log."""

    seq: int
    time: float
    entry: Entry


KINDS: dict[str, type[Entry]] = {
    each.kind: each
    for each in (
        SessionStarted,
        SessionSettings,
        MessageEntry,
        Intent,
        CallResult,
        AttachmentStored,
        RunCancelled,
        SubagentLinked,
        SessionRecovered,
    )
}
MAX_DEPTH = 200
"""How deeply the JSON of an entry may be nested, so that it can be read again wherever it is read."""


def encode(entry: Entry) -> tuple[str, bytes]:
    """The kind and the body. What is not JSON is kept in words; raises LogError for what cannot be kept at all."""
    if isinstance(entry, UnknownEntry):
        return entry.name, bytes(entry.body)
    try:
        body = _encoder.encode(entry)
    except Exception:  # noqa: BLE001 - whatever a tool put into its details; said below if it cannot be helped
        body = _encode_cleaned(entry)
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _depth(body) > MAX_DEPTH:
        raise LogError(f"an entry is nested more than {MAX_DEPTH} deep, and cannot be stored")
    return entry.kind, body


def decode(kind: str, body: bytes) -> Entry:
    """The entry of a row that is whole; raises NewerLogError where it is not what this version knows by that kind."""
    if kind not in KINDS:
        return UnknownEntry(kind, msgspec.Raw(body))
    try:
        return _decoder(kind).decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise NewerLogError(
            f"an entry of the kind {kind!r} was written by a newer version of Outrider ({error}); upgrade to go on"
        ) from None


def decode_if_known(kind: str, body: bytes) -> Entry:
    """The entry; what this version cannot read is passed over as unknown."""
    try:
        return decode(kind, body)
    except NewerLogError:
        return UnknownEntry(kind, msgspec.Raw(body))


@cache  # made when the first entry of its kind is read: each takes a while
def _decoder(kind: str) -> msgspec.json.Decoder[Entry]:
    return msgspec.json.Decoder(KINDS[kind])


def _encode_cleaned(entry: Entry) -> bytes:
    """With text that can be encoded, and without details that cannot."""
    if isinstance(entry, CallResult):
        entry = msgspec.structs.replace(entry, details=_stored_details(entry.details))
    try:
        return _encoder.encode(clean_value(msgspec.to_builtins(entry, enc_hook=_in_words)))
    except Exception as error:  # noqa: BLE001 - objects of a tool may raise anything when they are looked into
        raise LogError(f"an entry of the kind {entry.kind!r} cannot be stored: {error}") from None


def _stored_details(details: Any) -> Any:
    try:
        return msgspec.json.decode(_encoder.encode(clean_value(msgspec.to_builtins(details, enc_hook=_in_words))))
    except Exception:  # noqa: BLE001 - as above
        return _in_words(details)


def _in_words(value: Any) -> str:
    try:
        return clean(repr(value))
    except Exception:  # noqa: BLE001 - its own code may fail in any way
        return f"({type(value).__name__})"


def _depth(body: bytes) -> int:
    """How deeply JSON is nested; brackets within strings do not count."""
    depth = deepest = 0
    for token in _BRACKETS.finditer(body):
        if token[0] in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] in (b"]", b"}"):
            depth -= 1
    return deepest


_encoder = msgspec.json.Encoder(enc_hook=_in_words)
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')
