"""EPUB books: the chapters in reading order."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from outrider.conversation.documents.archive import Archive, resolve_name, tree
from outrider.conversation.documents.blocks import Block
from outrider.conversation.documents.charsets import decoded
from outrider.conversation.documents.pages import read_page
from outrider.errors import AttachmentError

_PAGES = ("application/xhtml+xml", "text/html")


def book_blocks(archive: Archive) -> Iterator[Block]:
    """Yield the title, the author and each chapter."""
    container = tree(archive.pieces("META-INF/container.xml"), archive.budget)
    package = next((each.get("full-path", "") for each in container.iter("rootfile")), "")
    book = tree(archive.pieces(package), archive.budget)
    for tag, before in (("title", "# "), ("creator", "by ")):
        if found := next((each.text for each in book.iter(tag) if each.text), None):
            yield Block(f"{before}{' '.join(found.split())}")
    files = {each.get("id", ""): each for each in book.iter("item")}
    encrypted = _encrypted(archive)
    for reference in book.iter("itemref"):
        item = files.get(reference.get("idref", ""))
        name = "" if item is None else resolve_name(package, unquote(item.get("href", "")))
        if item is None or item.get("media-type") not in _PAGES or name not in archive:
            continue
        if name in encrypted:
            raise AttachmentError("it is encrypted with DRM")
        yield Block(read_page(decoded(archive.read(name), is_html=True)).text)


def _encrypted(archive: Archive) -> set[str]:
    """Return the names of the encrypted files."""
    listing = "META-INF/encryption.xml"
    if listing not in archive:
        return set()
    return {each.get("URI", "") for each in tree(archive.pieces(listing), archive.budget).iter("CipherReference")}
