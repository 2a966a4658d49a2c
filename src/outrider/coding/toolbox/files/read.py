"""Read: a file as a model can take it, be it text, a picture, a document or a notebook."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from outrider.coding.toolbox.files.documents import pdf_text
from outrider.coding.toolbox.files.extracted import document_text
from outrider.coding.toolbox.files.line_ranges import Lines, Span, line_count, numbered
from outrider.coding.toolbox.files.notebooks import notebook
from outrider.coding.toolbox.files.pictures import PICTURES, picture
from outrider.coding.toolbox.files.regular_files import located, opened
from outrider.coding.toolbox.files.stamps import stamp_of, stamped
from outrider.coding.toolbox.files.text_files import pieces_of_file, pieces_of_text, text_for_looking
from outrider.coding.toolbox.files.versions import SilentEditorError, Version, lent
from outrider.coding.toolbox.refusals import RefusalError, refusal, shown
from outrider.coding.toolbox.workspace import Stamp, Workspace
from outrider.conversation.attachments import MAX_BYTES, Attachment, sniff
from outrider.conversation.documents import kinds
from outrider.conversation.documents.document import kind_of_archive
from outrider.conversation.encodings import HEAD, Encoding, encoding_of, is_utf8
from outrider.errors import AttachmentError
from outrider.text import human_size
from outrider.tools.context import ToolContext
from outrider.tools.decorator import tool
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool

STORED = "attachment:"
"""What the name of a stored result begins with."""
BETWEEN_NEWS = 512 * 1024 * 1024
"""Bytes of a large file from one word about progress to the next."""
UNSAVED = (
    "The editor has changes in this file that are not saved; they are shown here. Commands and searches see the disk."
)
SILENT = "The editor did not say whether it has changes in this file that are not saved. This is what is on disk."


class Source(msgspec.Struct, frozen=True):
    """Bytes to look at: of a file, or of a stored result."""

    name: str
    """What the model calls it."""
    head: bytes
    data: bytes | None
    """All of them, if they are not too many to hold."""
    stream: BinaryIO
    stamp: Stamp
    attachment: Attachment
    path: Path | None = None
    """Where the file is; None for a stored result."""
    note: str = ""
    """What else there is to say of it."""


def read(workspace: Workspace) -> Tool:
    """The tool that reads files."""

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
        a book or RTF its text and tables. Large files are read in parts: the end of a part says how to go on.

        Args:
            file_path: The file, absolute or relative to the working folder; or attachment:<sha256> for a stored result.
            offset: The first line to read, counted from 1 (in a PDF the first page, in a notebook the first cell).
            limit: How many lines to read (pages, cells). Without it, up to 2000 lines or 20 pages.
            original: Attach the file itself, as it is, instead of its text.
        """
        try:
            span = Span.of(offset, limit)
            with _source(workspace, file_path, context, original) as source:
                result = _attached(source) if original else _looked_at(source, span, context)
        except RefusalError as refused:
            return ToolResult(str(refused), is_error=True)
        except OSError as error:
            return ToolResult(str(refusal(error, file_path)), is_error=True)
        if source.path and not _hides_more(source):
            workspace.seen[source.path] = source.stamp
        return replace(result, text=f"{result.text}\n[{source.note}]") if source.note else result

    return read_file


@contextmanager
def _source(workspace: Workspace, name: str, context: ToolContext, original: bool) -> Iterator[Source]:
    if name.startswith(STORED):
        try:
            data = context.stored(name.removeprefix(STORED))
        except AttachmentError as error:
            raise RefusalError(f"{shown(name)} cannot be read: {error}.") from None
        yield Source(
            name, data[:HEAD], data, io.BytesIO(data), stamp_of(data), Attachment(data, name=name.replace(":", "-"))
        )
        return
    path = located(workspace, name)
    if not original and (source := _only_in_editor(workspace, path, name)):
        yield source
        return
    with opened(path, name) as file:
        stamp, whole = stamped(file)
        file.seek(0)
        head = file.read(HEAD) if whole is None else whole[:HEAD]
        attachment = Attachment.from_path(path, name=Path(name).name)
        source = Source(name, head, whole, file, stamp, attachment, path)
        yield source if original else _as_in_editor(workspace, path, source)


def _only_in_editor(workspace: Workspace, path: Path, name: str) -> Source | None:
    """A file that was never saved."""
    if os.path.lexists(path):
        return None
    with suppress(SilentEditorError):
        return _unsaved(path, name, lent(workspace, path, name, None, b""))
    return None


def _as_in_editor(workspace: Workspace, path: Path, on_disk: Source) -> Source:
    try:
        now = lent(workspace, path, on_disk.name, on_disk.stamp, on_disk.data)
    except SilentEditorError:
        return replace(on_disk, note=SILENT)
    return _unsaved(path, on_disk.name, now) or on_disk


def _unsaved(path: Path, name: str, now: Version) -> Source | None:
    """The file as the editor has it, if that is something else than what is on disk."""
    if not now.unsaved or now.stamp is None or now.data is None:
        return None
    attachment = Attachment(now.data, name=Path(name).name)
    return Source(name, now.data[:HEAD], now.data, io.BytesIO(now.data), now.stamp, attachment, path, UNSAVED)


def _attached(source: Source) -> ToolResult:
    kind = source.attachment.type_of(source.head)
    return ToolResult(f"{shown(source.name)}: {kind}, {human_size(source.stamp.size)}", [source.attachment])


def _looked_at(source: Source, span: Span, context: ToolContext) -> ToolResult:
    """What the model gets to read, or see, of it."""
    if not source.head:
        return ToolResult(f"{shown(source.name)} is empty.")
    kind = sniff(source.head)
    if kind == "application/pdf":
        return ToolResult(pdf_text(source.stream, source.name, span, context))
    if document := _document(source, kind):
        return ToolResult(document_text(source.stream, source.name, document, span, context))
    encoding = encoding_of(source.head)
    if kind and not is_utf8(source.head):
        encoding = None  # text may begin with the letters that mark a picture, but does not go on like one
    if kind in PICTURES and encoding is None:
        return picture(source.name, kind, source.stamp.size, source.data, source.attachment)
    if encoding is None:
        raise _binary(source, kind)
    if source.name.endswith(".ipynb") and source.data is not None:
        return notebook(source.data.removeprefix(encoding.mark), source.name, span) or _broken_notebook(
            source, encoding, span, context
        )
    return ToolResult(_text(source, encoding, span, context))


def _document(source: Source, found: str | None) -> str:
    """The MIME type of a document whose text can be read; empty for anything else. Notebooks are shown by cells."""
    kind = source.attachment.type_of(source.head)
    if found == kinds.ZIP and kind == kinds.ZIP:
        kind = kind_of_archive(source.stream)
    return kind if found and kind in kinds.READABLE else ""


def _hides_more(source: Source) -> bool:
    """Whether the text is only a part of what is in the file, which must not be overwritten by it."""
    return sniff(source.head) in (kinds.ZIP, *kinds.ZIPPED)


def _binary(source: Source, kind: str | None) -> RefusalError:
    kind = kind or source.attachment.type_of(source.head)
    what = f"{shown(source.name)} is not text ({kind}, {human_size(source.stamp.size)}), so it is not shown."
    if kind == kinds.OLE:
        return RefusalError(f"{what} It is an old Office document, or one with a password: convert it to a PDF first.")
    if kind.partition("/")[0] not in ("image", "audio", "video"):
        return RefusalError(f"{what} No model takes such a file: unpack or convert it first.")
    small = source.stamp.size <= MAX_BYTES
    advice = "With original: true the file itself is attached." if small else "It is too large to be attached."
    return RefusalError(f"{what} {advice}")


def _broken_notebook(source: Source, encoding: Encoding, span: Span, context: ToolContext) -> ToolResult:
    text = _text(source, encoding, span, context)
    return ToolResult(f"{text}\n[This is not a notebook that can be understood, so it is shown as plain text.]")


def _text(source: Source, encoding: Encoding, span: Span, context: ToolContext) -> str:
    if source.data is None:
        pieces = pieces_of_file(source.stream, encoding, _news(source.stamp.size, context))
        return numbered(Lines(pieces), span, source.name, None)
    text = text_for_looking(source.data, encoding)
    return numbered(Lines(pieces_of_text(text)), span, source.name, line_count(text))


def _news(size: int, context: ToolContext) -> Callable[[int], None]:
    """Says now and then how far into a large file it is, and stops when nobody waits any more."""
    due = BETWEEN_NEWS

    def scanned(done: int) -> None:
        nonlocal due
        if context.cancelled:
            raise RefusalError("Reading was cancelled.")
        if done >= due:
            due = done + BETWEEN_NEWS
            context.progress(f"looked through {human_size(done)} of {human_size(size)}")

    return scanned
