"""Entries as the log stores them: a kind, and the fields in JSON."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from outrider.errors import LogError, NewerLogError
from outrider.log.entries import CallResult, Entry, UnknownEntry
from outrider.struct_types import described
from outrider.text import clean, clean_value

KINDS = {each.kind: each for each in Entry.__subclasses__() if each.kind}
"""All entries but `UnknownEntry`, by the names under which they are stored."""
MAX_DEPTH = 200
"""The limit on the nesting of an entry's JSON, so that every reader can decode it."""


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
