"""Prepare images and PDFs for a model: compress, scale, extract text, or render pages as images."""

from __future__ import annotations

import binascii
import io
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from outrider.conversation.documents.pdfs import LOCKED, is_locked, opened_pdf
from outrider.conversation.store import CHUNK
from outrider.errors import AttachmentError
from outrider.providers.catalogue.capabilities import Capabilities
from outrider.text import human_size

MAX_PAGES_AS_PICTURES = 20
PAGE_SCALE = 1.5  # points to pixels: 1.5 gives a page of paper about 900 × 1260 pixels, which is readable
SMALLEST_SIDE = 64
QUALITIES = (95, 85, 75)
LOSSY = frozenset({"JPEG", "MPO", "WEBP"})  # formats that are lossy already: a lossless copy would only cost bytes
OPAQUE = 255
PDF_PICTURES = ((2000, 80), (1300, 60))
"""The longer side and the quality of images in a PDF that is too large. A scanned page stays readable at 1300."""
MASKS = frozenset({"/SMask", "/Mask", "/ImageMask"})
_PDFIUM = Lock()  # PDFium is not thread-safe, and files are rendered in several threads
PDF_BEGIN, PDF_HEAD = b"%PDF-", 1024
HEIF = ("image/heic", "image/heif")
"""Types of pictures that Pillow cannot open."""
PNG_BEGIN, PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


def base64_of(data: bytes) -> bytes:
    """Encode in base64, as bytes: a large file is not copied into a string first."""
    output, view = io.BytesIO(), memoryview(data)
    for start in range(0, len(data), CHUNK):  # in one go it would take twice the size of the data for a moment
        output.write(binascii.b2a_base64(view[start : start + CHUNK], newline=False))
    return output.getvalue()


def encoded_size(data: bytes) -> int:
    """Return the size of the data in base64, to which the limits apply."""
    return (len(data) + 2) // 3 * 4


def check_size(data: bytes, limit: int) -> None:
    if encoded_size(data) > limit:
        raise AttachmentError(
            f"it has {human_size(encoded_size(data))} in base64; this model takes {human_size(limit)}"
        )


def fitting_image(mime_type: str, data: bytes, can: Capabilities) -> tuple[str, bytes]:
    """Return an image that the model takes: unchanged if it fits, else with the least loss that makes it fit."""
    if mime_type in HEIF and mime_type in can.image_types:
        check_size(data, can.image_bytes)
        return mime_type, data
    width, height = image_size(data)
    fits = max(width, height) <= can.pixels and encoded_size(data) <= can.image_bytes
    if mime_type in can.image_types and fits:
        return mime_type, data
    with _opened(data) as image:
        for kind, smaller in _forms(image, can):
            if encoded_size(smaller) <= can.image_bytes:
                return f"image/{kind.lower()}", smaller
    raise AttachmentError("it cannot be made small enough for this model")


def _forms(image: Any, can: Capabilities) -> Iterator[tuple[str, bytes]]:
    """Yield smaller forms of the image, with the least loss first: lossless, lower quality, scaled down."""
    exact = image.format not in LOSSY
    side = min(can.pixels, max(image.size))
    smallest = min(side, SMALLEST_SIDE)  # a small image may only need conversion
    while side >= smallest:
        scaled = _scaled(image, side)
        for kind, options in _encodings(scaled.mode == "RGBA", can.image_types, exact):
            output = io.BytesIO()
            scaled.save(output, kind, **options)
            yield kind, output.getvalue()
        side, exact = side * 3 // 4, False  # scaling loses more than lossy compression does


def _encodings(transparent: bool, types: Collection[str], exact: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    has_webp = "image/webp" in types
    if exact or (transparent and not has_webp):
        yield "PNG", {}
    if exact and has_webp:
        yield "WEBP", {"lossless": True, "quality": 0, "method": 0}  # the fastest setting, and smaller than PNG
    if has_webp or not transparent:
        for quality in QUALITIES:
            yield "WEBP" if transparent else "JPEG", {"quality": quality}


def image_size(data: bytes, most_decoded: int | None = None) -> tuple[int, int]:
    """Return width and height. Raise AttachmentError for a damaged picture.

    Of a complete PNG, and of a picture with more bytes than `most_decoded`, only the header is read. A JPEG is always
    read to its end, at an eighth of its size.
    """
    if data.startswith(PNG_BEGIN) and data.rstrip(b"\0").endswith(PNG_END):
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    with _opened(data) as image:
        width, height = image.size
        if image.draft(None, (1, 1)) or most_decoded is None or len(data) <= most_decoded:
            image.load()  # raises for a truncated file
        return width, height


def _scaled(image: Any, side: int) -> Any:
    """Return a copy with at most this side, with an alpha channel only if a part of it is transparent."""
    from PIL import ImageOps

    copy = ImageOps.exif_transpose(image)  # the orientation tag is not saved
    copy.thumbnail((side, side))
    if copy.mode in ("RGBA", "LA", "PA") or "transparency" in copy.info:
        copy = copy.convert("RGBA")
        if copy.getchannel("A").getextrema() != (OPAQUE, OPAQUE):
            return copy
    return copy.convert("RGB")


@contextmanager
def _opened(data: bytes) -> Iterator[Any]:
    from PIL import Image  # slow to import, and most conversations have no image

    with _unreadable("picture"), Image.open(io.BytesIO(data)) as image:
        yield image


def fitting_pdf(data: bytes, can: Capabilities) -> bytes:
    """Return a PDF that the model takes: unchanged if it fits, else with smaller images. Raise AttachmentError."""
    data = data[max(data.find(PDF_BEGIN, 0, PDF_HEAD), 0) :]  # other bytes may come first, which few APIs take
    if (pages := pages_of(data)) > can.pdf_pages:
        raise AttachmentError(f"it has {pages:,} pages; this model takes {can.pdf_pages:,}")
    if encoded_size(data) > can.pdf_bytes:
        for side, quality in PDF_PICTURES:
            smaller = _with_smaller_pictures(data, side, quality)
            # A damaged file may lose pages when it is written anew.
            if encoded_size(smaller) <= can.pdf_bytes and pages_of(smaller) == pages:
                return smaller
    check_size(data, can.pdf_bytes)
    return data


def _with_smaller_pictures(data: bytes, side: int, quality: int) -> bytes:
    from pypdf import PdfWriter  # slow to import, and few PDFs are too large

    seen: set[int] = set()
    with _unreadable("PDF"):
        writer = PdfWriter(clone_from=io.BytesIO(data))
        for page in writer.pages:
            for picture in page.images:
                reference = picture.indirect_reference
                if reference is not None and reference.idnum not in seen:
                    seen.add(reference.idnum)
                    _compress(picture, side, quality)
        output = io.BytesIO()
        writer.write(output)
        return output.getvalue()


def _compress(picture: Any, side: int, quality: int) -> None:
    """Replace an image in a PDF by a smaller one. Masks and black-and-white drawings stay: they would lose detail."""
    if picture.image is None or picture.image.mode == "1" or MASKS & picture.indirect_reference.get_object().keys():
        return
    image = picture.image.convert("L" if picture.image.mode == "L" else "RGB")
    image.thumbnail((side, side))
    picture.replace(image, quality=quality)


def pages_of(data: bytes) -> int:
    """Return the number of pages of a PDF. Raise AttachmentError for a damaged or locked one: no API takes it."""
    with _document(data) as document:
        return len(document)


def pdf_text(data: bytes) -> str:
    """Return the text of a PDF, page by page. Empty if it has none, for example a scan."""
    with _unreadable("PDF"):
        pages = [page.extract_text().strip() for page in opened_pdf(io.BytesIO(data)).pages]
    if not any(pages):
        return ""
    return "\n\n".join(f"[page {number}]\n{text}" for number, text in enumerate(pages, 1))


def pdf_pictures(data: bytes, pixels: int, most: int = MAX_PAGES_AS_PICTURES) -> tuple[list[bytes], int]:
    """Return the first pages of a PDF as PNG images, no side longer than `pixels`, and the number of all pages."""
    with _document(data) as document:
        total = len(document)
        shown = min(total, most, MAX_PAGES_AS_PICTURES)
        return [_picture(document[number], pixels) for number in range(shown)], total


def pdf_page(data: bytes, number: int, pixels: int) -> tuple[bytes, int]:
    """Return one page of a PDF, counted from 1, as a PNG image, and the number of all pages."""
    with _document(data) as document:
        total = len(document)
        if not 1 <= number <= total:
            raise AttachmentError(f"the PDF has {total} pages, and no page {number}")
        return _picture(document[number - 1], pixels), total


def _picture(page: Any, pixels: int) -> bytes:
    output = io.BytesIO()
    scale = min(PAGE_SCALE, pixels / max(page.get_size()))
    page.render(scale=scale).to_pil().save(output, "PNG")
    return output.getvalue()


@contextmanager
def _document(data: bytes) -> Iterator[Any]:
    import pypdfium2  # slow to import, and most conversations have no PDF

    with _PDFIUM, _unreadable("PDF"):
        document = pypdfium2.PdfDocument(data)
        try:
            yield document
        finally:
            document.close()


@contextmanager
def _unreadable(kind: str) -> Iterator[None]:
    """Turn any error of a library into an AttachmentError, without its text, which may differ each time."""
    try:
        yield
    except AttachmentError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged or malicious files may raise anything
        raise AttachmentError(LOCKED if is_locked(error) else f"it is not a {kind} that can be read") from None
