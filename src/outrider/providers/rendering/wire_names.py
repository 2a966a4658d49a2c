"""Ids and names of calls in the forms that APIs accept."""

from __future__ import annotations

import re
import string

from outrider.conversation.attachments import sha256

_SAFE_ID = re.compile(r"[a-zA-Z0-9_-]+")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")


def safe_id(call_id: str, longest: int = 64) -> str:
    """Return a call's id in a form that every API takes. Equal ids stay equal, and different ids stay different."""
    if len(call_id) <= longest and _SAFE_ID.fullmatch(call_id):
        return call_id
    digest = sha256(call_id.encode("utf-8", "replace"))[:12]
    return f"{_UNSAFE.sub('_', call_id)[: longest - 13]}_{digest}"


def short_id(call_id: str, length: int) -> str:
    """Return a call's id as letters and digits of one length. Equal ids stay equal, and different ids stay different.

    >>> short_id("call_1", 9) == short_id("call_1", 9) != short_id("call_2", 9), short_id("abcDEF123", 9)
    (True, 'abcDEF123')
    """
    if len(call_id) == length and call_id.isascii() and call_id.isalnum():
        return call_id
    number = int(sha256(call_id.encode("utf-8", "replace")), 16)
    characters = string.ascii_letters + string.digits
    return "".join(characters[number // len(characters) ** place % len(characters)] for place in range(length))


def safe_name(name: str) -> str:
    """Return a tool's name in a form that every API takes: a name that a model invented may fail a request."""
    return _UNSAFE.sub("_", name)[:64] or "unknown"
