"""The Read tool: text, pictures, documents and notebooks in a form that a model can use."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from outrider.coding.toolbox.files.line_ranges import Lines, Span, characters_for, line_count, numbered_lines
from outrider.coding.toolbox.files.regular_files import (
    decode_lenient,
    file_chunks,
    open_regular,
    resolve_path,
    text_chunks,
)
from outrider.coding.toolbox.files.versions import EditorUnavailableError, Version, editor_version, stamp_file, stamp_of
from outrider.coding.toolbox.seen_files import ALL, SOME, Part, Stamp
from outrider.coding.toolbox.tool_errors import ToolCallError, os_error, printable
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.attachments import MAX_BYTES, Attachment
from outrider.conversation.documents import kinds
from outrider.conversation.documents.document import kind_of_archive
from outrider.conversation.encodings import HEAD, WINDOWS, Encoding, is_utf8, text_encoding
from outrider.conversation.mime_types import is_text_type, sniff
from outrider.errors import AttachmentError
from outrider.text import human_size
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, tool

STORED_PREFIX = "attachment:"
"""The prefix of the name of a stored result."""
PROGRESS_EVERY = 512 * 1024 * 1024
"""Bytes of a large file between two progress messages."""
UNSAVED = (
    "The editor has changes in this file that are not saved; they are shown here. Commands and searches see the disk."
)
NOT_UTF8 = "This file is not UTF-8. It is shown as Windows-1252, and Edit and Write keep that encoding."
NO_NOTEBOOK = "This is not a valid notebook, so it is shown as plain text."
EDITOR_SILENT = (
    "The editor did not say whether it has changes in this file that are not saved. This is what is on disk."
)
MOST_DECODED = 4 * 1024 * 1024
"""Bytes of a text that are decoded at once, and not in pieces."""
PICTURES = frozenset(f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "bmp", "tiff", "vnd.microsoft.icon"))


class Source(msgspec.Struct, frozen=True):
    """The bytes to read: of a file or of a stored result."""

    name: str
    """The name that the model used."""
    head: bytes
    data: bytes | None
    """All bytes; None if the file is too large to hold in memory."""
    stream: BinaryIO
    stamp: Stamp
    attachment: Attachment
    path: Path | None = None
    """The path of the file; None for a stored result."""
    note: str = ""
    """A note that is added to the result."""


def read(workspace: Workspace) -> Tool:
    @tool(name="Read", effect="read")
    def read_file(
        file_path: str,
        context: ToolContext,
        offset: int | None = None,
        limit: int | None = None,
        original: bool = False,
    ) -> ToolResult:
        """Read a file. Text comes with line numbers, which are not part of the file.

        Pictures are shown. A PDF gives its text by page, a notebook its cells with their output, an office document,
        a book or RTF its text and tables. Large files are read in parts: each part ends with how to read on.

        Args:
            file_path: The file, absolute or relative to the working folder; or attachment:<sha256> for a stored result.
            offset: The first line to read, counted from 1 (in a PDF the first page, in a notebook the first cell).
            limit: How many lines to read (pages, cells). Without it, up to 2000 lines or 20 pages.
            original: Attach the file itself instead of its text.
        """
        try:
            span = Span.of(offset, limit)
            with _source(workspace, file_path, context, original) as source:
                result, part = _attach(source) if original else _view(source, span, context)
        except ToolCallError as failure:
            return ToolResult(str(failure), is_error=True)
        except OSError as error:
            return ToolResult(str(os_error(error, file_path)), is_error=True)
        except ImportError as error:  # hands elsewhere have only what a Python needs
            text = f"{printable(file_path)} cannot be shown: {error.name} is not installed where it is."
            return ToolResult(f"{text} With original: true the file itself is attached.", is_error=True)
        if source.path and not _is_archive(source):
            is_cut = context.result_characters is not None and len(result.text) > context.result_characters
            workspace.seen.add_read(context, source.path, source.stamp, SOME if is_cut else part)
        return replace(result, text=f"{result.text}\n[{source.note}]") if source.note else result

    return replace(read_file, reads_stored=True)


@contextmanager
def _source(workspace: Workspace, name: str, context: ToolContext, original: bool) -> Iterator[Source]:
    if name.startswith(STORED_PREFIX):
        try:
            data = context.stored(name.removeprefix(STORED_PREFIX))
        except AttachmentError as error:
            raise ToolCallError(f"{printable(name)} cannot be read: {error}.") from None
        yield Source(
            name, data[:HEAD], data, io.BytesIO(data), stamp_of(data), Attachment(data, name=name.replace(":", "-"))
        )
        return
    path = resolve_path(workspace, name, "Read", context)
    if not original and (source := _unsaved_new_file(workspace, path, name)):
        yield source
        return
    with open_regular(path, name) as file:
        stamp, whole = stamp_file(file)
        file.seek(0)
        head = file.read(HEAD) if whole is None else whole[:HEAD]
        attachment = Attachment.from_path(path, name=Path(name).name)
        source = Source(name, head, whole, file, stamp, attachment, path)
        yield source if original else _editor_source(workspace, path, source)


def _unsaved_new_file(workspace: Workspace, path: Path, name: str) -> Source | None:
    """Return a file that exists only in the editor, or None."""
    if os.path.lexists(path):
        return None
    with suppress(EditorUnavailableError):
        return _unsaved_source(path, name, editor_version(workspace, path, name, None, b""))
    return None


def _editor_source(workspace: Workspace, path: Path, on_disk: Source) -> Source:
    try:
        now = editor_version(workspace, path, on_disk.name, on_disk.stamp, on_disk.data)
    except EditorUnavailableError:
        return replace(on_disk, note=EDITOR_SILENT)
    return _unsaved_source(path, on_disk.name, now) or on_disk


def _unsaved_source(path: Path, name: str, now: Version) -> Source | None:
    """Return the editor's version of the file, or None if it equals the file on disk."""
    if not now.unsaved or now.stamp is None or now.data is None:
        return None
    attachment = Attachment(now.data, name=Path(name).name)
    return Source(name, now.data[:HEAD], now.data, io.BytesIO(now.data), now.stamp, attachment, path, UNSAVED)


def _attach(source: Source) -> tuple[ToolResult, Part]:
    kind = _document_type(source, sniff(source.head)) or source.attachment.type_of(source.head)
    text = f"{printable(source.name)}: {kind}, {human_size(source.stamp.size)}"
    # A request may carry only a share of a long text.
    return ToolResult(text, [replace(source.attachment, mime_type=kind)]), SOME if is_text_type(kind) else ALL


def _view(source: Source, span: Span, context: ToolContext) -> tuple[ToolResult, Part]:
    """Return what the model reads or sees of the source, and which part of it that is."""
    if not source.head:
        return ToolResult(f"{printable(source.name)} is empty."), ALL
    kind = sniff(source.head)
    if kind == "application/pdf":
        from outrider.coding.toolbox.files.rich_files import pdf_text  # most files are text

        return _as_result(pdf_text(source.stream, source.name, span, context))
    if document := _document_type(source, kind):
        from outrider.coding.toolbox.files.rich_files import document_text

        return _as_result(document_text(source.stream, source.name, document, span, context))
    whole = source.data is not None
    encoding = text_encoding(source.head if source.data is None else source.data, is_whole=whole)
    if kind and not is_utf8(source.head):
        encoding = None  # text may begin like a picture, but a picture is not valid UTF-8
    if kind in PICTURES and encoding is None:
        from outrider.coding.toolbox.files.rich_files import picture_result

        return picture_result(source.name, kind, source.stamp.size, source.data, source.attachment), ALL
    if encoding is None:
        raise _binary_error(source, kind)
    note = NOT_UTF8 if encoding.codec == WINDOWS else ""
    if source.name.endswith(".ipynb") and source.data is not None:
        from outrider.coding.toolbox.files.rich_files import notebook_result

        if cells := notebook_result(source.data.removeprefix(encoding.mark), source.name, span):
            return cells
        note = NO_NOTEBOOK
    text, part = _text(source, encoding, span, context)
    return ToolResult(f"{text}\n[{note}]" if note else text), part


def _as_result(shown: tuple[str, Part]) -> tuple[ToolResult, Part]:
    return ToolResult(shown[0]), shown[1]


def _document_type(source: Source, found: str | None) -> str:
    """Return the MIME type of a document whose text can be extracted, or "". Notebooks are shown by cells."""
    kind = source.attachment.type_of(source.head)
    if found == kinds.ZIP and kind == kinds.ZIP:
        kind = kind_of_archive(source.stream)
    return kind if found and kind in kinds.READABLE else ""


def _is_archive(source: Source) -> bool:
    """Return whether the text is only a part of the file, so that it must not overwrite the file."""
    return sniff(source.head) in (kinds.ZIP, *kinds.ZIPPED)


def _binary_error(source: Source, kind: str | None) -> ToolCallError:
    kind = kind or source.attachment.type_of(source.head)
    what = f"{printable(source.name)} is not text ({kind}, {human_size(source.stamp.size)}), so it is not shown."
    if kind == kinds.OLE:
        return ToolCallError(f"{what} It is an old Office document, or one with a password: convert it to a PDF first.")
    if kind.partition("/")[0] not in ("image", "audio", "video"):
        return ToolCallError(f"{what} No model takes such a file: unpack or convert it first.")
    small = source.stamp.size <= MAX_BYTES
    advice = "With original: true the file itself is attached." if small else "It is too large to be attached."
    return ToolCallError(f"{what} {advice}")


def _text(source: Source, encoding: Encoding, span: Span, context: ToolContext) -> tuple[str, Part]:
    characters = characters_for(context.result_characters)
    if source.data is None:
        pieces = file_chunks(source.stream, encoding, _progress_reporter(source.stamp.size, context))
        return numbered_lines(Lines(pieces), span, source.name, None, characters)
    if len(source.data) > MOST_DECODED:
        all_lines, lines = (Lines(file_chunks(io.BytesIO(source.data), encoding, bool)) for _ in range(2))
        all_lines.skip(len(source.data))
        return numbered_lines(lines, span, source.name, all_lines.passed, characters)
    text = decode_lenient(source.data, encoding)
    return numbered_lines(Lines(text_chunks(text)), span, source.name, line_count(text), characters)


def _progress_reporter(size: int, context: ToolContext) -> Callable[[int], None]:
    """Return a callback that reports progress in a large file and raises once the call is cancelled."""
    due = PROGRESS_EVERY

    def scanned(done: int) -> None:
        nonlocal due
        if context.cancelled:
            raise ToolCallError("Reading was cancelled.")
        if done >= due:
            due = done + PROGRESS_EVERY
            context.progress(f"looked through {human_size(done)} of {human_size(size)}")

    return scanned
