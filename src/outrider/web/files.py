"""The files of a session. Only pictures without scripts are shown; everything else is a download."""

from __future__ import annotations

import re
from urllib.parse import quote

from aiohttp import web

from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import SIZE_UNKNOWN
from outrider.log.log import Log
from outrider.providers.documents import pdf_page
from outrider.web.entries import PDF, PICTURES

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, max-age=31536000, immutable",  # the address has the hash of the content
}
_UNSAFE = re.compile(r"[^\w.() -]")
PAGE_PIXELS = 1400


def file_response(log: Log, id: str, sha256: str, mime_type: str, name: str) -> web.Response:
    """Return a file of a session: a picture to show, or a download without a type."""
    data = _read(log, id, sha256)
    if mime_type in PICTURES and name == "":
        return web.Response(body=data, content_type=mime_type, headers=_HEADERS)
    plain = _UNSAFE.sub("_", name).strip(". ")[:120] or sha256[:12]
    disposition = f"attachment; filename*=UTF-8''{quote(plain)}"
    headers = _HEADERS | {"Content-Disposition": disposition}
    return web.Response(body=data, content_type="application/octet-stream", headers=headers)


def pdf_page_response(log: Log, id: str, sha256: str, number: int) -> web.Response:
    """Return a page of a PDF as a picture, with the number of all pages in a header. The PDF itself is not shown."""
    picture, total = pdf_page(_read(log, id, sha256, PDF), number, PAGE_PIXELS)
    return web.Response(body=picture, content_type="image/png", headers=_HEADERS | {"X-Pages": str(total)})


def _read(log: Log, id: str, sha256: str, mime_type: str = "") -> bytes:
    return log.files(id).read(AttachmentBlock(sha256, mime_type, SIZE_UNKNOWN))
