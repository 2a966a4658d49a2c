"""Values of a foreign session's lines, whose types are not known, and the blocks that they become."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock, TextBlock, ToolResultBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import AttachmentError
from outrider.text import shorten

LONGEST_UNKNOWN = 4_000
"""Characters of an unknown form that are kept."""
LARGEST_NUMBER = 10**12
END_OF_TIME = 4_102_444_800.0
"""The end of the year 2099: a later time is wrong."""


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def mapping_of(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def number_of(value: object) -> int:
    """Return a count; 0 if it is none. It goes into sums, so it has a bound."""
    return value if type(value) is int and 0 <= value <= LARGEST_NUMBER else 0


def time_of(value: object) -> float | None:
    """Return the seconds of a time in ISO 8601, or None if it is no time that a session can have."""
    try:
        found = datetime.fromisoformat(text_of(value)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return found if 0 <= found <= END_OF_TIME else None


class Blocks:
    """Makes blocks of the parts of a foreign session. It keeps the files, and counts the forms that are unknown."""

    def __init__(self) -> None:
        self.files: dict[str, Attachment] = {}
        """By their SHA-256."""
        self.unknown: Counter[str] = Counter()
        self._store = MemoryStore()

    def unknown_form(self, kind: str, value: object) -> TextBlock:
        """Return a form that is not known as text, and count it."""
        self.unknown[kind[:40]] += 1
        text = msgspec.json.encode(value).decode()
        return TextBlock(f"[{kind[:40]}] {shorten(text, LONGEST_UNKNOWN, '[{left_out} characters left out]')}")

    def file(self, data: object, mime_type: object, name: str = "") -> AttachmentBlock | TextBlock:
        """Return a file from its base64, or text if it is none."""
        try:
            attachment = Attachment(base64.b64decode(text_of(data), validate=True), text_of(mime_type), name)
            reference = self._store.put(attachment)
        except (ValueError, AttachmentError):
            return self.unknown_form("unreadable file", text_of(mime_type))
        self.files.setdefault(reference.sha256, attachment)
        return reference

    def data_url(self, url: object) -> AttachmentBlock | TextBlock:
        """Return the file in a `data:` URL. An address on the web is kept as text: an import fetches nothing."""
        head, _, data = text_of(url).partition(",")
        if not head.startswith("data:") or not head.endswith(";base64"):
            return TextBlock(f"[image: {text_of(url)[:LONGEST_UNKNOWN]}]")
        return self.file(data, head.removeprefix("data:").removesuffix(";base64").partition(";")[0])


def result_block(call_id: str, parts: Iterable[object], *, is_error: bool = False) -> ToolResultBlock:
    """Return the result of a call. Only texts and files of the parts belong there."""
    content = tuple(part for part in parts if isinstance(part, TextBlock | AttachmentBlock))
    return ToolResultBlock(call_id, content, is_error=is_error)
