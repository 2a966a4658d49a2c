"""A user message in parts, which adapters turn into the items of their APIs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from outrider.conversation.documents import kinds
from outrider.conversation.messages import AttachmentBlock, ToolUseBlock
from outrider.conversation.mime_types import is_text_type
from outrider.providers.rendering.encoding import Base64String
from outrider.providers.rendering.shown_files import ShownFile
from outrider.text.visible import one_line

Family: TypeAlias = Literal["image", "pdf", "text", "audio", "video", "document", "other"]

Title: TypeAlias = Literal["name", "caption"]
"""What an API has a field for beside a file: its name, or its name and description."""

FAILED = "[This call failed]"
REMINDER = "[A reminder from the runtime, not from the user]"
LONGEST_NAME = 120
LONGEST_DESCRIPTION = 300


class Caption(msgspec.Struct, frozen=True):
    """A file's name and the tool's description of it, each one short line that shows its hidden characters.

    Both come from tools, servers and projects. They cannot look like a paragraph of the user or of the runtime.

    >>> str(Caption("before.png", "the page before the change"))
    'before.png (the page before the change)'
    """

    name: str
    description: str = ""

    @classmethod
    def of(cls, block: AttachmentBlock) -> Caption:
        """Return the caption of a file. A file without a name is called by its type and hash."""
        name = one_line(block.name, LONGEST_NAME) or one_line(f"{block.mime_type} {block.sha256[:12]}", LONGEST_NAME)
        description = one_line(block.description, LONGEST_DESCRIPTION)
        return cls(name, "" if description == name else description)

    def __str__(self) -> str:
        return f"{self.name} ({self.description})" if self.description else self.name


class File(msgspec.Struct, frozen=True):
    family: Family
    mime_type: str
    caption: Caption
    data: bytes = b""  # the bytes, encoded in base64
    text: str = ""  # the text, if the file is a text
    url: str = ""
    """The URL, if the API fetches the file itself. There is no data then."""

    @property
    def name(self) -> str:
        return self.caption.name

    @property
    def filename(self) -> str:
        """The name with the suffix of its type. A file without a name is called by its type and hash."""
        name = self.name.replace("/", "-")
        suffix = ".pdf" if self.family == "pdf" else kinds.suffix_of(self.mime_type)
        return name if name.lower().endswith(suffix) else f"{name}{suffix}"

    @property
    def base64(self) -> Base64String:
        return Base64String(self.data)

    @property
    def data_url(self) -> Base64String:
        return Base64String(self.data, b"data:%b;base64," % self.mime_type.encode())


Part: TypeAlias = str | File


class Result(msgspec.Struct, frozen=True):
    """A tool result as an adapter renders it."""

    call_id: str
    call: ToolUseBlock | None
    """The call that it answers. None if the history has lost it."""
    is_error: bool
    parts: tuple[Part, ...]  # never empty

    @property
    def tool(self) -> str:
        return self.call.name if self.call else "tool"

    @property
    def text(self) -> str:
        return join_text(self.parts)

    @property
    def flagged_text(self) -> str:
        """The text, for an API that has no error flag."""
        return f"{FAILED}\n{self.text}" if self.is_error else self.text

    @property
    def flagged_parts(self) -> tuple[Part, ...]:
        return (FAILED, *self.parts) if self.is_error else self.parts

    @property
    def files(self) -> tuple[File, ...]:
        return tuple(part for part in self.parts if isinstance(part, File))


class UserMessage(msgspec.Struct, frozen=True):
    """A user message that an adapter can turn into its API's items."""

    results: tuple[Result, ...]
    moved: tuple[Part, ...]
    """Files that the results could not hold. They follow the results."""
    content: tuple[Part, ...]  # what the user wrote and attached
    shown: tuple[ShownFile, ...] = ()  # the files that the request contains
    text_bytes: int = 0  # bytes of text that come from files
    notices: tuple[str, ...] = ()  # what the user should know, such as a file that the model cannot see

    def with_first(self, part: Part) -> UserMessage:
        return msgspec.structs.replace(self, content=(part, *self.content))


def family_of(mime_type: str) -> Family:
    """Return the family of a MIME type, as model APIs distinguish them."""
    if mime_type in kinds.READABLE or mime_type in kinds.OLD:
        return "document"
    if is_text_type(mime_type):
        return "text"
    if mime_type.startswith("image/"):
        return "image"
    if mime_type == "application/pdf":
        return "pdf"
    if mime_type.startswith("audio/"):
        return "audio"
    return "video" if mime_type.startswith("video/") else "other"


def reminder_text(reminder: str) -> str:
    return f"{REMINDER}\n{reminder}"


def join_text(parts: Sequence[Part]) -> str:
    return "\n".join(part for part in parts if isinstance(part, str))
