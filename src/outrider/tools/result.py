"""The result of a tool: text and files for the model, details for people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.encodings import decoded, encoding_of
from outrider.conversation.mime_types import sniff
from outrider.text import clean_value


class ToolResult(msgspec.Struct, frozen=True):
    """The result of a tool, when a string is not enough.

    >>> ToolResult("Q3 chart", attachments=[Attachment(b"...", name="q3.txt")]).text
    'Q3 chart'
    """

    text: str = ""
    """The text that the model reads."""
    attachments: Sequence[Attachment] = ()
    """Files for the model; each is sent in a form that the provider accepts."""
    is_error: bool = False
    final: bool = False
    """Whether the run ends with this result, after the other calls of the turn."""
    details: Any = None
    """Data for observers and logs, which the model does not see."""
    whole: Attachment | None = None
    """The full output, if the text is only a part of it. It is stored, and the model learns how to read it."""
    is_json: bool = False
    """Whether the text is JSON. If it is too long, the model reads a shortened form that is still valid JSON."""
    note: str = ""
    """More text for the model after the result, which the limit on its length does not cut."""
    handoff: str = ""
    """The name of the agent that goes on with the conversation, one of those that the agent hands over to."""
    is_unknown: bool = False
    """Whether it is unknown if the call did its work, because the connection to what does it was lost."""

    def __post_init__(self) -> None:
        # A tool that has done its work should not fail because a field has the wrong type.
        text: object = self.text
        if not isinstance(text, str):
            msgspec.structs.force_setattr(self, "text", "" if text is None else _json(text))
        if not (self.is_error is False and self.final is False and self.is_json is False):
            for name in ("is_error", "final", "is_json"):  # a flag may be an exit code
                msgspec.structs.force_setattr(self, name, bool(getattr(self, name)))
        if self.attachments != ():
            self._convert_attachments()

    def _convert_attachments(self) -> None:
        """Make attachments of bytes and paths. What is no file becomes a note in the text."""
        given: Any = () if self.attachments is None else self.attachments
        is_one = isinstance(given, str | bytes | bytearray | memoryview) or not isinstance(given, Iterable)
        files: list[Attachment] = []
        for item in [given] if is_one else given:
            try:
                files.append(as_attachment(item))
            except TypeError as error:
                note = f"[A file could not be attached: {error}]"
                msgspec.structs.force_setattr(self, "text", f"{self.text}\n{note}" if self.text else note)
        msgspec.structs.force_setattr(self, "attachments", tuple(files))


def as_result(outcome: Any) -> ToolResult:
    """Convert the return value of a tool to a result."""
    if isinstance(outcome, str):
        return ToolResult(outcome)
    if isinstance(outcome, list | tuple) and has_pictures(outcome):
        outcome = [as_attachment(item) if is_picture(item) else item for item in outcome]
    match outcome:
        case ToolResult():
            return outcome
        case Attachment():
            return ToolResult(attachments=(outcome,))
        case bytes() | bytearray() | memoryview():
            return _from_bytes(bytes(outcome))
        case _ if is_picture(outcome):
            return ToolResult(attachments=(as_attachment(outcome),))
        case list() | tuple() if any(isinstance(item, Attachment) for item in outcome):
            files = [item for item in outcome if isinstance(item, Attachment)]
            around = frozenset({id(outcome)})
            others = [_without_files(item, files, around) for item in outcome if not isinstance(item, Attachment)]
            return ToolResult("\n".join(item if isinstance(item, str) else _json(item) for item in others), files)
        case list() | tuple() | dict() if _holds_files(outcome):
            nested: list[Attachment] = []
            return ToolResult(_json(_without_files(outcome, nested)), nested)
    return ToolResult("" if outcome is None else _json(outcome))


def _holds_files(value: Any) -> bool:
    """Return whether a file is somewhere inside a JSON value, which may contain itself."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Attachment | ToolResult) or (isinstance(item, bytes) and sniff(item)) or is_picture(item):
            return True
        if isinstance(item, dict | list | tuple) and id(item) not in seen:
            seen.add(id(item))
            waiting.extend(item.values() if isinstance(item, dict) else item)
    return False


def _without_files(value: Any, files: list[Attachment], inside: frozenset[int] = frozenset()) -> Any:
    """Return a JSON value with the name of each file in its place; the files themselves are collected."""
    if id(value) in inside:
        return "(the value itself)"
    match value:
        case Attachment():
            files.append(value)
            return value.label
        case bytes() if sniff(value):
            files.append(Attachment(value))
            return "(attached file)"
        case _ if is_picture(value):
            files.append(as_attachment(value))
            return "(attached picture)"
        case ToolResult():
            files.extend(value.attachments)
            return value.text
        case dict():
            return {key: _without_files(item, files, inside | {id(value)}) for key, item in value.items()}
        case list() | tuple():
            return [_without_files(item, files, inside | {id(value)}) for item in value]
    return value


def as_attachment(value: Any) -> Attachment:
    """Return an attachment as it is, or attach bytes, a picture of Pillow or the file at a path."""
    if isinstance(value, Attachment):
        return value
    if is_picture(value):
        return _from_picture(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return Attachment(bytes(value))
    if isinstance(value, str | os.PathLike):
        return Attachment.from_path(value)
    raise TypeError(f"an attachment of a result must be an Attachment, bytes or a path, not {type(value).__name__}")


def has_pictures(outcome: object) -> bool:
    """Return whether this is a picture or a list with some: converting them takes a while."""
    return is_picture(outcome) or (isinstance(outcome, list | tuple) and any(map(is_picture, outcome)))


def is_picture(value: object) -> bool:
    """Return whether this is an image of Pillow, which need not be installed."""
    return any(kind.__name__ == "Image" and kind.__module__ == "PIL.Image" for kind in type(value).__mro__)


def _from_picture(image: Any) -> Attachment:
    from io import BytesIO

    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"):  # PNG has no others
        image = image.convert("RGB")
    image.save(data := BytesIO(), "PNG")
    return Attachment(data.getvalue(), "image/png")


def _from_bytes(data: bytes) -> ToolResult:
    is_text = encoding_of(data) is not None and not sniff(data)
    return ToolResult(decoded(data)) if is_text else ToolResult(attachments=(Attachment(data),))


def _json(value: Any) -> str:
    try:
        text = msgspec.json.encode(value, enc_hook=_plain).decode()
    except (TypeError, ValueError, RecursionError):
        import json  # accepts keys that are not strings; lone surrogates are cleaned first

        try:
            text = json.dumps(clean_value(value), default=_plain, ensure_ascii=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError):
            return str(value)
    is_one_string = text.startswith('"')  # a path or a date reads better without the quotes
    return str(msgspec.json.decode(text)) if is_one_string else text


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # a pydantic model
    return dump(mode="json") if callable(dump) else str(value)
