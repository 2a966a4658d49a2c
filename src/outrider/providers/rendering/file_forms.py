"""The form in which a model sees a file: natively, as text, as images of its pages, or as a note that says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from outrider.conversation.documents import charsets, kinds
from outrider.conversation.documents.document import text_of
from outrider.conversation.encodings import decoded
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.mime_types import sniff
from outrider.conversation.store import AttachmentStore, read_stored
from outrider.errors import AttachmentError
from outrider.providers.catalogue.capabilities import Capabilities, Placement
from outrider.providers.rendering import documents
from outrider.providers.rendering.message_parts import LONGEST_NAME, Caption, Family, File, Part, family_of
from outrider.providers.rendering.shown_files import Omission
from outrider.text import human_size
from outrider.text.visible import one_line

NOT_TAKEN = "this model does not take such files"
IF_IT_DOES = "if it does, say so in the file that OUTRIDER_CAPABILITIES names"
LONGEST_REASON = 400
"""Characters of the reason in a note. Errors repeat the name of the file."""
NEWLINE = "\n"
SMALLEST = 1_000
"""Bytes. A file of this size is always shown. Of a larger file, at least this much is shown, or nothing."""


class RenderedFile(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...]
    text_bytes: int = 0
    notices: tuple[str, ...] = ()


class FileForms:
    """Chooses the form in which one model sees a file. It has no state."""

    def __init__(self, capabilities: Capabilities, store: AttachmentStore) -> None:
        self._capabilities = capabilities
        self._store = store

    def form_of(self, block: AttachmentBlock, room: int) -> RenderedFile:
        """Render a file natively if the model takes it, else as text, else as a note. `room`: bytes for its text."""
        if not self._is_native(block):
            return self._as_text(block, room, NOT_TAKEN)
        try:
            return self._native(block, room)
        except AttachmentError as error:
            return self._as_text(block, room, str(error))

    def instead_of(self, block: AttachmentBlock, room: int, omission: Omission) -> RenderedFile:
        if omission.as_text:
            return self._as_text(block, room, omission.reason)
        return RenderedFile((f"[{_describe(block)} was here; it is left out: {omission.reason}]",))

    def _is_native(self, block: AttachmentBlock) -> bool:
        family = family_of(block.mime_type)
        if self.placement(family) not in ("native", "moved"):
            return False
        if family == "audio" and self._capabilities.audio_types:
            return block.mime_type in self._capabilities.audio_types
        return family != "document" or block.mime_type in self._capabilities.document_types

    def _native(self, block: AttachmentBlock, room: int) -> RenderedFile:
        """Render a file as the model takes it. Raise AttachmentError if that is not possible."""
        caption, family = Caption.of(block), family_of(block.mime_type)
        if block.url and self._fetches(block, family):
            return RenderedFile((File(family, block.mime_type, caption, url=block.url),))
        data = read_stored(self._store, block)
        if family == "text":
            # APIs refuse an empty document.
            return _text_file(
                block,
                self._text_of(block, data, room),
                room,
                lambda text: (
                    File("text", block.mime_type, caption, text=text) if text.strip() else f"{caption}: (empty)"
                ),
            )
        if family == "image":
            mime_type, data = documents.fitting_image(block.mime_type, data, self._capabilities)
            return RenderedFile((File("image", mime_type, caption, documents.base64_of(data)),))
        if family == "document":
            _check_document(block, data)
        elif family == "pdf":
            data = documents.fitting_pdf(data, self._capabilities)
        documents.check_size(data, self._capabilities.pdf_bytes)
        return RenderedFile((File(family, block.mime_type, caption, documents.base64_of(data)),))

    def _fetches(self, block: AttachmentBlock, family: Family) -> bool:
        """Return whether the API fetches a file by its URL. It must fit as it is: nothing can scale it down then."""
        can = self._capabilities
        limit = can.image_bytes if family == "image" else can.pdf_bytes
        return block.mime_type in can.url_types and block.url.startswith("https://") and block.size * 4 <= limit * 3

    def _as_text(self, block: AttachmentBlock, room: int, reason: str) -> RenderedFile:
        """Render a file as text, or as images of its pages, or as a note with the reason."""
        caption, family = Caption.of(block), family_of(block.mime_type)
        if family not in ("text", "pdf", "document"):
            return _note(block, reason)
        try:
            data = read_stored(self._store, block)
            if family == "text":
                content = self._text_of(block, data, room)
                return _text_file(
                    block, content, room, lambda text: f"{caption}:\n{text}" if text else f"{caption}: (empty)"
                )
            if family == "document":
                if block.mime_type in kinds.OLD:
                    raise AttachmentError("it is an old Office document, which is not supported; convert it to a PDF")
                text = text_of(data, block.mime_type, self._capabilities.text_characters)
                return _extracted_text(block, text, room)
            if text := documents.pdf_text(data):
                return _extracted_text(block, text, room)
            if self._capabilities.image in ("native", "moved"):
                return RenderedFile(tuple(self._pages(caption, data)))
        except AttachmentError as error:
            return _note(block, str(error))
        return _note(block, reason)

    def _text_of(self, block: AttachmentBlock, data: bytes, room: int) -> str:
        """Return the text of a file. A web page is sent as its source, which may matter, unless that is too long."""
        if block.mime_type not in ("text/html", "application/xhtml+xml"):
            return decoded(data)
        source = charsets.decoded(data, is_html=True).replace("\0", "")
        if len(source) <= min(self._capabilities.text_characters, room):
            return source
        from outrider.conversation.documents.pages import read_page  # slow to import, and few pages are so long

        return read_page(source).text

    def _pages(self, caption: Caption, data: bytes) -> Iterator[Part]:
        pictures, total = documents.pdf_pictures(data, self._capabilities.pixels, self._capabilities.images)
        yield f"Pages of {caption}:" if len(pictures) == total else f"First pages of {caption}, of {total}:"
        for number, picture in enumerate(pictures, 1):
            mime_type, fitting = documents.fitting_image("image/png", picture, self._capabilities)
            page = Caption(f"{caption.name}, page {number}")
            yield File("image", mime_type, page, documents.base64_of(fitting))

    def placement(self, family: Family) -> Placement:
        if family == "other":
            return "no"
        placement: Placement = getattr(self._capabilities, "text_file" if family == "text" else family)
        return placement


def _text_file(
    block: AttachmentBlock, text: str, room: int, to_part: Callable[[str], Part], *, by_line: bool = True
) -> RenderedFile:
    """Render as much of a file's text as there is room for, with a note that says where the whole is."""
    shown = excerpt(text, room, f"The whole is stored as attachment:{block.sha256}", by_line=by_line)
    size = len(shown) if shown.isascii() else len(shown.encode())
    if shown is text:
        return RenderedFile((to_part(shown),), size)
    notice = f"{_describe(block)} is shown in part: it is too long to be sent whole"
    return RenderedFile((to_part(shown),), size, (notice,))


def _extracted_text(block: AttachmentBlock, text: str, room: int) -> RenderedFile:
    caption = Caption.of(block)
    if not text:
        return RenderedFile((f"{caption}: (no text)",))
    return _text_file(block, text, room, lambda shown: f"Text of {caption}:\n{shown}", by_line=False)


def _note(block: AttachmentBlock, reason: str) -> RenderedFile:
    text = f"{_describe(block)} cannot be shown: {one_line(reason, LONGEST_REASON)}"
    notice = f"{text}; {IF_IT_DOES}" if reason == NOT_TAKEN else text
    description = Caption.of(block).description
    note = f"[{text}; it is described as: {description}]" if description else f"[{text}]"
    return RenderedFile((note,), notices=(notice,))


def _describe(block: AttachmentBlock) -> str:
    return f"{Caption.of(block).name} ({one_line(block.mime_type, LONGEST_NAME)}, {human_size(block.size)})"


def _check_document(block: AttachmentBlock, data: bytes) -> None:
    """Raise AttachmentError for a document that cannot be opened: an API would refuse the whole request."""
    if block.mime_type not in kinds.OLD:
        text_of(data, block.mime_type, 1)
    elif sniff(data) != kinds.OLE:
        raise AttachmentError("it is not a document that can be read")


def excerpt(text: str, room: int, where: str, *, by_line: bool = True) -> str:
    """Return the text if it fits, else its head and tail with a note between them. `where` says where the whole is.

    `by_line`: the note also gives the line numbers, for a file that tools can read by line.
    """
    if len(text) <= max(room, SMALLEST) // 4:  # no character has more than four bytes
        return text
    data = text.encode()
    if len(data) <= max(room, SMALLEST):
        return text
    if room < SMALLEST:
        return f"[None of its {human_size(len(data))} are shown: earlier files have taken the room. {where}]"
    # The head ends after a line, and the tail starts with one, if a line ends nearby.
    head_size, tail_start = room - room // 4, len(data) - room // 4
    start = data.rfind(b"\n", head_size // 2, head_size) + 1 or head_size
    end = data.find(b"\n", tail_start - 1, tail_start + room // 4 // 2) + 1 or tail_start
    note = f"{human_size(end - start)} of {human_size(len(data))} left out here"
    if by_line and (lines := _lines(data, start, end)):
        note += f", {lines}"
    head, tail = data[:start].decode(errors="ignore"), data[end:].decode(errors="ignore")
    return f"{head.removesuffix(NEWLINE)}{NEWLINE}[{note}. {where}]{NEWLINE}{tail}"


def _lines(data: bytes, start: int, end: int) -> str:
    """Describe the lines between two offsets. Return "" if these are not at the start of lines."""
    if not (data.startswith(b"\n", start - 1) and data.startswith(b"\n", end - 1)):
        return ""
    first = data.count(b"\n", 0, start) + 1
    last = data.count(b"\n", 0, end)
    total = data.count(b"\n") + (not data.endswith(b"\n"))
    return f"from line {first:,} to line {last:,} of {total:,}"
