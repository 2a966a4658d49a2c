"""Entries as rows of the event table: a kind, and the fields in JSON.

Each row has a checksum, because databases do not detect every flipped bit.
"""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, TypeAlias

import msgspec

from outrider.errors import DamagedLogError, LogError, NewerLogError
from outrider.log.entries import CallResult, Entry, Record, UnknownEntry
from outrider.struct_types import described
from outrider.text import clean, clean_value

KINDS = {each.kind: each for each in Entry.__subclasses__() if each.kind}
"""All entries but `UnknownEntry`, by the names under which they are stored."""
MAX_DEPTH = 200
"""The limit on the nesting of an entry's JSON, so that every reader can decode it."""
Row: TypeAlias = tuple[int, int, float, str, bytes, int]
"""Session, seq, time, kind, body, checksum. The upper half of the checksum is the link to the entry before."""

_TYPES = int, int, float, str, bytes, int
LAST_SEQ = 2**53


def encode(entry: Entry) -> tuple[str, bytes]:
    """Return the kind and the body. Replace values that are not JSON by their repr. Raise LogError if that fails."""
    if isinstance(entry, UnknownEntry):
        return entry.name, bytes(entry.body)
    try:
        body = _encoder.encode(entry)
    except Exception:  # noqa: BLE001 - a tool's details can hold anything; the next line raises if it fails too
        body = _encode_cleaned(entry)
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _depth(body) > MAX_DEPTH:
        raise LogError(f"an entry cannot be stored: its JSON is nested more than {MAX_DEPTH} levels deep")
    return entry.kind, body


def decode(kind: str, body: bytes) -> Entry:
    """Return the entry of an intact row. Raise NewerLogError if this version knows the kind but not its form."""
    if kind not in KINDS:
        return UnknownEntry(kind, msgspec.Raw(body))
    try:
        return _decoder(kind).decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise NewerLogError(
            f"an entry of kind {kind!r} was written by a newer version of Outrider ({error}); upgrade to continue"
        ) from None


def decode_if_known(kind: str, body: bytes) -> Entry:
    """Return the entry, or an `UnknownEntry` if this version cannot read it."""
    try:
        return decode(kind, body)
    except NewerLogError:
        return UnknownEntry(kind, msgspec.Raw(body))


@cache  # built on first use: each decoder takes a while to build
def _decoder(kind: str) -> msgspec.json.Decoder[Entry]:
    return msgspec.json.Decoder(described(KINDS[kind]))


def _encode_cleaned(entry: Entry) -> bytes:
    """Encode the entry with clean text and with details that JSON can hold."""
    if isinstance(entry, CallResult):
        entry = msgspec.structs.replace(entry, details=_stored_details(entry.details))
    try:
        return _encoder.encode(clean_value(msgspec.to_builtins(entry, enc_hook=_repr)))
    except Exception as error:  # noqa: BLE001 - objects of a tool may raise anything while they are encoded
        raise LogError(f"an entry of kind {entry.kind!r} cannot be stored: {error}") from None


def _stored_details(details: Any) -> Any:
    try:
        return msgspec.json.decode(_encoder.encode(clean_value(msgspec.to_builtins(details, enc_hook=_repr))))
    except Exception:  # noqa: BLE001 - as above
        return _repr(details)


def _repr(value: Any) -> str:
    try:
        return clean(repr(value))
    except Exception:  # noqa: BLE001 - a __repr__ may raise anything
        return f"({type(value).__name__})"


def _depth(body: bytes) -> int:
    """Return the nesting depth of JSON. Brackets inside strings do not count."""
    depth = deepest = 0
    for token in re.finditer(_BRACKETS, body):
        if token[0] in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] in (b"]", b"}"):
            depth -= 1
    return deepest


_encoder = msgspec.json.Encoder(enc_hook=_repr)
_BRACKETS = rb'"(?:[^"\\]|\\.)*"|[\[\]{}]'


def row(session: int, seq: int, time: float, kind: str, body: bytes, link: int = 0) -> Row:
    """Build a row with its checksum and its link, see `log/chain.py`; 0 for an entry that is not chained."""
    time += 0.0  # SQLite does not preserve negative zero
    return session, seq, time, kind, body, checksum(session, seq, time, kind, body) | link << 32


def checksum(session: int, seq: int, time: float, kind: str, body: bytes) -> int:
    """Return the checksum over all columns, so that one row cannot be mistaken for another."""
    return crc32(body, crc32(f"{session}:{seq}:{time!r}:{kind}:".encode(errors="surrogateescape")))


def is_intact(row: tuple[Any, ...]) -> bool:
    """Check that a row is as it was written. In a damaged file any column may hold any type."""
    if tuple(map(type, row)) != _TYPES:
        return False
    return bool(checksum(*row[:5]) == row[5] & 0xFFFFFFFF)


def link_of(row: Row) -> int:
    """Return the link of an intact row; 0 if it is not chained."""
    return row[5] >> 32


class Extent(msgspec.Struct, frozen=True):
    """The expected rows of a session. Reads are checked against it, because a damaged B-tree may skip rows."""

    session: int
    last: int
    """The seq of the newest known row; newer rows may exist."""
    gapless: bool = True
    """Whether every seq exists. False if a recovery lost rows."""


def in_order(rows: Iterable[Row], extent: Extent, before: int, last: int) -> Iterator[Row]:
    """Yield the rows after `before`. Raise DamagedLogError if one up to `last` is missing, or if any is damaged.

    In a session that lost rows, only its newest must be there: `last` may be one of the lost.
    """
    seq = before
    for each in rows:
        if not is_intact(each) or each[0] != extent.session:
            raise damaged_entry(seq + 1)
        if each[1] <= seq or (extent.gapless and each[1] != seq + 1):
            raise damaged_entry(seq + 1)
        seq = each[1]
        yield each
    if seq < last and (extent.gapless or last >= extent.last):
        raise damaged_entry(seq + 1)


def records(rows: Iterable[Row]) -> Iterator[Record]:
    """Decode rows. Raise NewerLogError at an entry that this version cannot read."""
    for _, seq, time, kind, body, _ in rows:
        try:
            yield Record(seq, time, decode(kind, body))
        except NewerLogError as error:
            raise NewerLogError(f"entry {seq}: {error}") from None


def known_records(rows: Iterable[Row]) -> Iterator[Record]:
    """Decode rows for display. An entry that this version cannot read becomes `UnknownEntry`."""
    for _, seq, time, kind, body, _ in rows:
        yield Record(seq, time, decode_if_known(kind, body))


def damaged_entry(seq: int) -> DamagedLogError:
    """Return an error that names the entry."""
    return DamagedLogError(
        f"entry {seq} of a session is missing or damaged; `outrider sessions recover` saves the intact entries"
    )
