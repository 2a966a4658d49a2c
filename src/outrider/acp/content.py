"""Content of the protocol: that of prompts, and that of calls."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from msgspec import UNSET, UnsetType

from outrider.acp import schema
from outrider.acp.schema import TextContent
from outrider.acp.updates.call_state import Diff, File, Item, Location, Terminal, Text, Update
from outrider.conversation.attachments import MAX_BYTES, Attachment
from outrider.conversation.messages import AttachmentBlock
from outrider.errors import AttachmentError
from outrider.text import human_size

MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""A larger image is not sent to the editor, only its name."""
_ATTACHED_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")
"""A link to such a file is attached, because a model should see the file itself."""


def to_prompt(blocks: Sequence[schema.ContentBlock]) -> list[str | Attachment]:
    """Convert the blocks of a `session/prompt` request. Raises AttachmentError for content that is not supported.

    A command begins with its slash, whatever space a user has typed before it.
    """
    parts = [part for block in blocks for part in _parts(block)]
    if parts and isinstance(parts[0], str) and parts[0].lstrip().startswith("/"):
        parts[0] = parts[0].lstrip()
    return parts


def _parts(block: schema.ContentBlock) -> list[str | Attachment]:
    match block:
        case schema.TextContent(text=text):
            return [text] if text else []
        case schema.ImageContent(data=data, mime_type=kind):
            return [_attachment(data, kind, "picture")]
        case schema.ResourceLink():
            return _linked(block)
        case schema.EmbeddedResource():
            return _embedded(block)
        case schema.AudioContent():
            raise AttachmentError("audio is not supported: send text, images or files")


def _linked(link: schema.ResourceLink) -> list[str | Attachment]:
    """Return the link; with the file attached if it is an image or a PDF. The model can read other files itself."""
    path = path_of(link.uri)
    if path is None:
        return [f"[{link.name}]({link.uri})"]
    if path.suffix.lower() in _ATTACHED_SUFFIXES and _can_attach(path):
        return [f"[{link.name}]({path})", Attachment.from_path(path)]
    return [f"[{link.name}]({path})"]


def _can_attach(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size <= MAX_BYTES
    except OSError:  # the name is too long, or the folder is not accessible
        return False


def _embedded(block: schema.EmbeddedResource) -> list[str | Attachment]:
    resource = block.resource
    name = path_of(resource.uri) or resource.uri
    if resource.text is not None:
        return [f'<file path="{name}">\n{resource.text}\n</file>']
    if resource.blob is None:
        raise AttachmentError(f"{name} has no content")
    return [_attachment(resource.blob, resource.mime_type or "", Path(str(name)).name)]


def _attachment(data: str, kind: str, name: str) -> Attachment:
    try:
        return Attachment(base64.b64decode(data, validate=True), kind, name=name)
    except (binascii.Error, ValueError):
        raise AttachmentError(f"the data of {name} is not base64") from None


def path_of(uri: str) -> Path | None:
    """Return the path of a `file:` URI; None for any other URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # unbalanced brackets
        return None
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return None


def file_content(file: AttachmentBlock, read: Callable[[AttachmentBlock], bytes]) -> schema.ContentBlock:
    """Return the block that shows a file: an image itself, any other file by its name."""
    if file.mime_type.startswith("image/") and file.size <= MAX_IMAGE_BYTES:
        try:
            return schema.ImageContent(base64.b64encode(read(file)).decode(), file.mime_type)
        except AttachmentError as error:
            return schema.TextContent(f"[{file.label} cannot be shown: {error}]")
    return schema.TextContent(f"[{file.label}: {file.mime_type}, {human_size(file.size)}]")


T = TypeVar("T", bound=schema.ToolCallFields)
ReadFile = Callable[[AttachmentBlock], bytes]


def to_session_update(
    update: Update, read: ReadFile, output_key: str = "terminal_output"
) -> schema.ToolCall | schema.ToolCallUpdate:
    if update.is_new:
        return _fill(schema.ToolCall, update, read, output_key)
    return _fill(schema.ToolCallUpdate, update, read, output_key)


def to_tool_call_fields(update: Update, read: ReadFile) -> schema.ToolCallFields:
    return _fill(schema.ToolCallFields, update, read, "")


def _fill(kind: type[T], update: Update, read: ReadFile, output_key: str) -> T:
    content, locations = update.content, update.locations
    return kind(
        tool_call_id=update.id,
        title=update.title,
        name=update.name or UNSET,
        kind=update.kind,
        status=update.status,
        content=content if isinstance(content, UnsetType) else [_content(item, read) for item in content],
        locations=locations if isinstance(locations, UnsetType) else [_location(each) for each in locations],
        raw_input=update.raw_input,
        raw_output=update.raw_output,
        meta=_meta(update, output_key),
    )


def _content(item: Item, read: ReadFile) -> schema.ToolCallContent:
    match item:
        case Text(text=text):
            return schema.ContentItem(TextContent(text))
        case File(attachment=file):
            return schema.ContentItem(file_content(file, read))
        case Diff(path=path, new=new, old=old, line=line):
            meta = {"outrider": {"line": line}} if line else UNSET  # the protocol has no place for it
            return schema.DiffItem(path, new, UNSET if old is None else old, meta)
        case Terminal(id=id):
            return schema.TerminalItem(id)


def _location(location: Location) -> schema.ToolCallLocation:
    return schema.ToolCallLocation(location.path, UNSET if location.line is None else location.line)


def _meta(update: Update, output_key: str) -> dict[str, Any] | UnsetType:
    """Return the extension fields for clients that append terminal output."""
    meta: dict[str, Any] = {}
    if update.parent:  # the protocol has no place for it; clients know this one from another agent
        meta["claudeCode"] = {"parentToolUseId": update.parent}
    if not isinstance(update.content, UnsetType) and Terminal(update.id) in update.content:
        meta["terminal_info"] = {"terminal_id": update.id}
    if not isinstance(update.output, UnsetType):
        meta[output_key] = {"terminal_id": update.id, "data": update.output}
    if not isinstance(update.exit_code, UnsetType):
        # Clients that read this require all three keys.
        meta["terminal_exit"] = {"terminal_id": update.id, "exit_code": update.exit_code, "signal": None}
    return meta or UNSET
