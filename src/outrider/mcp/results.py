"""Content of servers, made into text and attachments. Nothing is dropped without a word.

Hidden characters of a text become marks here, so that the model, the log and every output show the same.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.mime_types import is_text_type
from outrider.errors import AttachmentError
from outrider.mcp.protocol import CallToolResult, ContentBlock, GetPromptResult, ResourceContents
from outrider.struct_types import described
from outrider.text import human_size
from outrider.text.visible import one_line, safe_lines
from outrider.tools.result import ToolResult

MOST_FILES = 20
_LONGEST_NAME = 100
_LONGEST_URI = 500
_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "application/pdf": ".pdf",
}


def tool_result(result: CallToolResult, tool: str) -> ToolResult:
    """Return the result of a call: structured content or text, as servers repeat the one in the other."""
    content = Content(tool)
    for raw in result.content:
        content.add(raw)
    text, is_error = content.text, bool(result.is_error)
    structured = _structured(result.structured_content)
    if structured and not is_error and not _is_wrapped_text(structured, text):
        more = [*content.beside, *content.notes]
        return ToolResult(_joined(structured, more), content.files, is_json=not more)
    text = _joined(text, content.notes) or ("" if content.files else "The tool returned nothing.")
    return ToolResult(text, content.files, is_error=is_error)


def resource_content(contents: Iterable[ResourceContents]) -> ToolResult:
    content = Content("resource")
    for each in contents:
        content.add_resource(each, labelled=False)
    return ToolResult(_joined(content.text, content.notes), content.files)


def prompt_content(prompt: GetPromptResult) -> ToolResult:
    content = Content("prompt")
    for message in prompt.messages:
        if message.role == "assistant":
            content.texts.append("Assistant:")
        content.add_block(message.content)
    return ToolResult(_joined(content.text, content.notes), content.files)


class Content:
    """Collects blocks of content as texts, files, and notes on what was left out."""

    def __init__(self, source: str) -> None:
        self.texts: list[str] = []
        self.beside: list[str] = []
        """Those of the texts that structured content does not repeat: resources, and links to them."""
        self.files: list[Attachment] = []
        self.notes: list[str] = []
        self._source = source

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    def add(self, raw: msgspec.Raw) -> None:
        try:
            self.add_block(msgspec.json.decode(raw, type=described(ContentBlock)))
        except (msgspec.DecodeError, RecursionError) as error:
            self.notes.append(f"[A part of the result is not valid: {one_line(str(error), 200)}]")

    def add_block(self, block: ContentBlock) -> None:
        match block.type:
            case "text":
                self.texts.append(safe_lines(block.text))
            case "image" | "audio":
                self._add_file(block.data, block.mime_type or "", "", block.type)
            case "resource" if block.resource:
                self.add_resource(block.resource)
            case "resource_link":
                self._add_beside(_link(block))
            case other:
                self.notes.append(f"[A part of the result has a type that is not supported: {one_line(other, 40)}]")

    def add_resource(self, resource: ResourceContents, *, labelled: bool = True) -> None:
        uri = one_line(resource.uri, _LONGEST_URI)
        if resource.text is not None:
            text = safe_lines(resource.text)
            self._add_beside(f"[{uri}]\n{text}" if labelled and uri else text)
        elif resource.blob is not None:
            self._add_file(resource.blob, resource.mime_type or "", uri, "resource")

    def _add_beside(self, text: str) -> None:
        self.texts.append(text)
        self.beside.append(text)

    def _add_file(self, encoded: str, mime_type: str, uri: str, kind: str) -> None:
        if len(self.files) >= MOST_FILES:
            self.notes.append(f"[A file was left out: a result has at most {MOST_FILES}.]")
            return
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            self.notes.append(f"[A part of the result ({kind}) is not valid base64.]")
            return
        name = _name_of(uri) or f"{self._source}-{len(self.files) + 1}{_SUFFIXES.get(mime_type.lower(), '')}"
        self.files.append(_attachment(data, mime_type, name, uri))


def _attachment(data: bytes, mime_type: str, name: str, uri: str) -> Attachment:
    """Return a file with the type that the server names, or with the type of its content if they do not agree."""
    file = Attachment(data, mime_type, name, uri)
    try:
        kind = file.type_of(next(file.chunks(len(data)), b"")[:4096])
    except AttachmentError:
        return Attachment(data, "", name, uri)
    return Attachment(data, kind if not is_text_type(kind) else mime_type, name, uri)


def _name_of(uri: str) -> str:
    try:
        name = posixpath.basename(unquote(urlsplit(uri).path)) or urlsplit(uri).netloc
    except ValueError:
        return ""
    return one_line(name.replace("/", "_").replace("\\", "_"), _LONGEST_NAME)


def _link(block: ContentBlock) -> str:
    facts = [one_line(block.mime_type, 100)] if block.mime_type else []
    if block.size is not None and block.size >= 0:
        facts.append(human_size(block.size))
    title = one_line(block.title or block.name, _LONGEST_NAME)
    about = f": {one_line(block.description, 500)}" if block.description else ""
    known = f" ({', '.join(facts)})" if facts else ""
    return f"[resource {one_line(block.uri, _LONGEST_URI)} {title}{known}{about}]"


def _structured(raw: msgspec.Raw) -> str:
    text = bytes(raw)
    if text in (b"", b"null"):
        return ""
    try:
        return safe_lines(msgspec.json.format(text, indent=-1).decode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _is_wrapped_text(structured: str, text: str) -> bool:
    """Return whether structured content only wraps the text, as `{"result": …}`; the text reads better."""
    try:
        value = msgspec.json.decode(structured)
    except (msgspec.DecodeError, RecursionError):
        return True
    if not isinstance(value, dict) or len(value) != 1:
        return False
    inner = next(iter(value.values()))
    return safe_lines(inner) == text if isinstance(inner, str) else msgspec.json.encode(inner).decode() == text.strip()


def _joined(text: str, notes: list[str]) -> str:
    return "\n".join([text, *notes]) if text else "\n".join(notes)
