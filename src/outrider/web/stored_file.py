"""Files of a session: pictures to show, downloads without a type, and pages of PDFs as pictures."""

from __future__ import annotations

import re
from urllib.parse import quote

from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import SIZE_UNKNOWN
from outrider.errors import AttachmentError
from outrider.log.log import Log
from outrider.providers.rendering.documents import pdf_page
from outrider.web.entry_view import PDF, PICTURES
from outrider.web.http import Response

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, max-age=31536000, immutable",  # the address has the hash of the content
}
_UNSAFE = re.compile(r"[^\w.() -]")
_HASH = re.compile(r"[0-9a-f]{64}")
PAGE_PIXELS = 1400


def file_response(log: Log, id: str, sha256: str, mime_type: str, name: str) -> Response:
    """Return a file of a session: a picture to show, or a download without a type."""
    data = _read(log, id, sha256)
    if mime_type in PICTURES and name == "":
        return Response(200, data, {**HEADERS, "Content-Type": mime_type})
    plain = _UNSAFE.sub("_", name).strip(". ")[:120] or sha256[:12]
    disposition = f"attachment; filename*=UTF-8''{quote(plain)}"
    kind = "application/octet-stream"
    return Response(200, data, {**HEADERS, "Content-Type": kind, "Content-Disposition": disposition})


def pdf_page_response(log: Log, id: str, sha256: str, number: int) -> Response:
    """Return a page of a PDF as a picture, with the number of all pages in a header. The PDF itself is not shown."""
    picture, total = pdf_page(_read(log, id, sha256, PDF), number, PAGE_PIXELS)
    return Response(200, picture, {**HEADERS, "Content-Type": "image/png", "X-Pages": str(total)})


def _read(log: Log, id: str, sha256: str, mime_type: str = "") -> bytes:
    if not _HASH.fullmatch(sha256):
        raise AttachmentError("a file is named by its SHA-256, in lower case")
    return log.files(id).read(AttachmentBlock(sha256, mime_type, SIZE_UNKNOWN))
