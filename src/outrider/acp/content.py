"""Our blocks as blocks of the protocol, and back. Pure, but for the files that are read."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from outrider.acp.schema.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from outrider.conversation.attachments import MAX_BYTES, Attachment
from outrider.conversation.messages import AttachmentBlock
from outrider.errors import AttachmentError
from outrider.text import human_size

LARGEST_SHOWN = 5 * 1024 * 1024
"""Bytes of a picture that an editor is sent; a larger one is only named."""
_SHOWN_FILES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")
"""Files that a model should see, not read: a link to one of them is followed."""


def as_prompt(blocks: Sequence[ContentBlock]) -> list[str | Attachment]:
    """What a person says, as a session takes it. Raises AttachmentError for what cannot be taken."""
    return [part for block in blocks for part in _parts(block)]


def _parts(block: ContentBlock) -> list[str | Attachment]:
    match block:
        case TextContent(text=text):
            return [text] if text else []
        case ImageContent(data=data, mime_type=kind):
            return [_attachment(data, kind, "picture")]
        case ResourceLink():
            return _linked(block)
        case EmbeddedResource():
            return _embedded(block)
        case AudioContent():
            raise AttachmentError("sound cannot be taken: send text, pictures or files")


def _linked(link: ResourceLink) -> list[str | Attachment]:
    """A file that the person points to: shown if it is a picture or a PDF, else named, so that it can be read."""
    path = path_of(link.uri)
    if path is None:
        return [f"[{link.name}]({link.uri})"]
    if path.suffix.lower() in _SHOWN_FILES and _can_be_shown(path):
        return [f"[{link.name}]({path})", Attachment.from_path(path)]
    return [f"[{link.name}]({path})"]


def _can_be_shown(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size <= MAX_BYTES
    except OSError:  # a name that is too long, a folder that is closed
        return False


def _embedded(block: EmbeddedResource) -> list[str | Attachment]:
    resource = block.resource
    name = path_of(resource.uri) or resource.uri
    if resource.text is not None:
        return [f'<file path="{name}">\n{resource.text}\n</file>']
    if resource.blob is None:
        raise AttachmentError(f"{name} was sent without its content")
    return [_attachment(resource.blob, resource.mime_type or "", Path(str(name)).name)]


def _attachment(data: str, kind: str, name: str) -> Attachment:
    try:
        return Attachment(base64.b64decode(data, validate=True), kind, name=name)
    except (binascii.Error, ValueError):
        raise AttachmentError(f"the {name} that was sent is not base64") from None


def path_of(uri: str) -> Path | None:
    """The file that an address names; None if it is not one on this machine."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets that belong to no address
        return None
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return None


def shown_file(file: AttachmentBlock, read: Callable[[AttachmentBlock], bytes]) -> ContentBlock:
    """A file as an editor can show it: a picture as it is, anything else by its name."""
    if file.mime_type.startswith("image/") and file.size <= LARGEST_SHOWN:
        try:
            return ImageContent(base64.b64encode(read(file)).decode(), file.mime_type)
        except AttachmentError as error:
            return TextContent(f"[{file.label} cannot be shown: {error}]")
    return TextContent(f"[{file.label}: {file.mime_type}, {human_size(file.size)}]")
