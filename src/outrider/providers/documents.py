"""Pictures and PDFs made fit for a model: scaled down, read as text, or turned into pictures of their pages."""

from __future__ import annotations

import binascii
import io
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from outrider.documents.pdfs import opened_pdf
from outrider.errors import AttachmentError
from outrider.providers.capabilities import Capabilities
from outrider.text import human_size

MAX_PAGES_AS_PICTURES = 20
PAGE_SCALE = 1.5
"""Points to pixels: 1.5 gives a page of paper about 900 × 1260 pixels, which is readable."""
SMALLEST_SIDE = 64
_PDFIUM = Lock()
"""PDFium is not safe for threads, and files are rendered in several."""
PNG_BEGIN, PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


def base64_of(data: bytes) -> bytes:
    """The bytes in base64, as bytes: a large file is not copied into a string first."""
    return binascii.b2a_base64(data, newline=False)


def encoded_size(data: bytes) -> int:
    """How many bytes the data has in base64, which is what limits are about."""
    return (len(data) + 2) // 3 * 4


def check_size(data: bytes, limit: int) -> None:
    """Refuse what is too large once it is encoded."""
    if encoded_size(data) > limit:
        raise AttachmentError(f"encoded it has {human_size(encoded_size(data))}; this model takes {human_size(limit)}")


def fitting_image(mime_type: str, data: bytes, can: Capabilities) -> tuple[str, bytes]:
    """A picture that the model takes: as it is if it fits, else converted and scaled down."""
    width, height = image_size(data)
    fits = max(width, height) <= can.pixels and encoded_size(data) <= can.image_bytes
    if mime_type in can.image_types and fits:
        return mime_type, data
    with _opened(data) as image:
        side = min(can.pixels, max(image.size))
        smallest = min(side, SMALLEST_SIDE)  # a picture that is small already may only have to be converted
        while side >= smallest:
            smaller = _scaled(image, side)
            if encoded_size(smaller) <= can.image_bytes:
                return "image/png" if smaller.startswith(PNG_BEGIN) else "image/jpeg", smaller
            side = side * 3 // 4
    raise AttachmentError("it cannot be made small enough for this model")


def image_size(data: bytes) -> tuple[int, int]:
    """Width and height; from the header alone where that is easy and the file is whole."""
    if data.startswith(PNG_BEGIN) and data.rstrip(b"\0").endswith(PNG_END):
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    with _opened(data) as image:
        image.load()  # a file that breaks off is found out only now
        width, height = image.size
        return width, height


def _scaled(image: Any, side: int) -> bytes:
    from PIL import ImageOps

    copy = ImageOps.exif_transpose(image)  # a copy, upright: what says how to turn it is not saved
    copy.thumbnail((side, side))
    transparent = copy.mode in ("RGBA", "LA", "P")
    output = io.BytesIO()
    copy.convert("RGBA" if transparent else "RGB").save(output, "PNG" if transparent else "JPEG")
    return output.getvalue()


@contextmanager
def _opened(data: bytes) -> Iterator[Any]:
    from PIL import Image  # takes long to import, and most conversations have no picture

    with _unreadable("picture"), Image.open(io.BytesIO(data)) as image:
        yield image


def pages_of(data: bytes) -> int:
    """How many pages a PDF has. Refuses one that cannot be opened, damaged or locked: no API would take it either."""
    with _document(data) as document:
        return len(document)


def pdf_text(data: bytes) -> str:
    """The text of a PDF, page after page; empty if it has none, as a scan."""
    with _unreadable("PDF"):
        pages = [page.extract_text().strip() for page in opened_pdf(io.BytesIO(data)).pages]
    if not any(pages):
        return ""
    return "\n\n".join(f"[page {number}]\n{text}" for number, text in enumerate(pages, 1))


def pdf_pictures(data: bytes, pixels: int) -> tuple[list[bytes], int]:
    """The first pages of a PDF as PNG pictures, no side longer than `pixels`, and how many pages there are in all."""
    with _document(data) as document:
        total = len(document)
        return [_picture(document[number], pixels) for number in range(min(total, MAX_PAGES_AS_PICTURES))], total


def _picture(page: Any, pixels: int) -> bytes:
    output = io.BytesIO()
    scale = min(PAGE_SCALE, pixels / max(page.get_size()))
    page.render(scale=scale).to_pil().save(output, "PNG")
    return output.getvalue()


@contextmanager
def _document(data: bytes) -> Iterator[Any]:
    import pypdfium2  # as above

    with _PDFIUM, _unreadable("PDF"):
        document = pypdfium2.PdfDocument(data)
        try:
            yield document
        finally:
            document.close()


@contextmanager
def _unreadable(kind: str) -> Iterator[None]:
    """Whatever a library raises over a file means that it cannot be read. What it says is not repeated: some name
    addresses in memory, and the same file must always give the same words."""
    try:
        yield
    except AttachmentError:
        raise
    except Exception:  # noqa: BLE001 - files that are damaged or made to hurt raise anything
        raise AttachmentError(f"it is not a {kind} that can be read") from None
