"""MIME types of files: declared, found in the first bytes, or told by the name."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Mapping

from outrider.conversation.documents import kinds
from outrider.conversation.encodings import encoding_of, is_utf8

_SELF_DESCRIBING = (kinds.ODT, kinds.ODS, kinds.ODP, kinds.EPUB)

# Magic bytes: all (offset, bytes) pairs of a line must match. The first matching line counts.
_MAGIC: tuple[tuple[str, tuple[tuple[int, bytes], ...]], ...] = (
    ("image/png", ((0, b"\x89PNG\r\n\x1a\n"),)),
    ("image/jpeg", ((0, b"\xff\xd8\xff"),)),
    ("image/gif", ((0, b"GIF87a"),)),
    ("image/gif", ((0, b"GIF89a"),)),
    ("image/webp", ((0, b"RIFF"), (8, b"WEBP"))),
    ("audio/wav", ((0, b"RIFF"), (8, b"WAVE"))),
    ("image/bmp", ((0, b"BM"), (6, b"\0\0\0\0"))),
    ("image/tiff", ((0, b"II*\0"),)),
    ("image/tiff", ((0, b"MM\0*"),)),
    ("image/vnd.microsoft.icon", ((0, b"\0\0\x01\0"), (5, b"\0"), (9, b"\0"))),
    ("image/heic", ((0, b"\0\0\0"), (4, b"ftyphei"))),
    ("image/heif", ((0, b"\0\0\0"), (4, b"ftypmif1"))),
    ("image/avif", ((0, b"\0\0\0"), (4, b"ftypavif"))),
    ("audio/mp4", ((0, b"\0\0\0"), (4, b"ftypM4A"))),
    ("video/quicktime", ((0, b"\0\0\0"), (4, b"ftypqt  "))),
    ("video/mp4", ((0, b"\0\0\0"), (4, b"ftyp"))),
    ("video/webm", ((0, b"\x1a\x45\xdf\xa3"),)),
    ("video/avi", ((0, b"RIFF"), (8, b"AVI "))),
    ("video/mpeg", ((0, b"\0\0\x01\xba"),)),
    ("application/pdf", ((0, b"%PDF-"),)),
    (kinds.RTF, ((0, b"{\\rtf"),)),
    (kinds.OLE, ((0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),)),
    # These archives begin with a file named "mimetype" that holds their type.
    *((kind, ((0, b"PK\x03\x04"), (30, b"mimetype" + kind.encode()))) for kind in _SELF_DESCRIBING),
    (kinds.ZIP, ((0, b"PK\x03\x04"),)),
    ("application/gzip", ((0, b"\x1f\x8b"),)),
    ("audio/mpeg", ((0, b"ID3\x02"),)),
    ("audio/mpeg", ((0, b"ID3\x03"),)),
    ("audio/mpeg", ((0, b"ID3\x04"),)),
    ("audio/mpeg", ((0, b"\xff\xfb"),)),
    ("audio/mpeg", ((0, b"\xff\xf3"),)),
    ("audio/ogg", ((0, b"OggS\0"),)),
    ("audio/flac", ((0, b"fLaC\0"),)),
    ("application/x-executable", ((0, b"\x7fELF"),)),
    ("application/x-executable", ((0, b"MZ"), (3, b"\0"))),
    ("application/x-executable", ((0, b"\xcf\xfa\xed\xfe"),)),
)

_BY_SUFFIX: Mapping[str, str] = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".ico": "image/vnd.microsoft.icon",
    ".pdf": "application/pdf",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".xml": "application/xml",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
    ".mp4": "video/mp4",
    ".mov": "video/quicktime",
    ".webm": "video/webm",
    ".avi": "video/avi",
    ".mpeg": "video/mpeg",
    ".mpg": "video/mpeg",
    ".zip": kinds.ZIP,
    **kinds.BY_SUFFIX,
}

# Containers whose content type follows only from the file name.
_BY_NAME: Mapping[str, frozenset[str]] = {kinds.ZIP: kinds.ZIPPED, kinds.OLE: kinds.OLD}

# The parts of an Office document, by the folder of most of them.
_OFFICE = {b"word/": kinds.DOCX, b"xl/": kinds.XLSX, b"ppt/": kinds.PPTX}

_NO_LABELS = frozenset(
    f"application/{prefix}{name}" for prefix in ("", "x-") for name in ("octet-stream", "binary", "download", "unknown")
) | {"binary/octet-stream", "application/force-download"}
"""Types that say nothing about the content."""

_OTHER_NAMES: Mapping[str, str] = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "image/x-bmp": "image/bmp",
    "image/x-ms-bmp": "image/bmp",
    "image/x-icon": "image/vnd.microsoft.icon",
    "image/x-tiff": "image/tiff",
    "application/x-pdf": "application/pdf",
    "application/acrobat": "application/pdf",
}
"""Other and wrong names of types."""

_PDF_HEAD = 1024
"""Bytes that may come before a PDF."""

# Patterns of MIME types; `re` compiles them on first use.
_LABEL = r"[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*"
_TEXT_TYPES = (
    r"text/.*|.*[/+](?:json|xml|yaml|x-yaml)"
    r"|application/(?:toml|javascript|ecmascript|x-javascript|typescript|x-sh|sql|graphql|x-ndjson|jsonl)"
)

# The types that the first bytes may show for a declared type. A declared type that is not here must match its family.
_HEIF = frozenset({"image/heic", "image/heif"})
_MP4 = frozenset({"audio/mp4", "video/mp4", "video/quicktime"})
_PROMISED: Mapping[str, frozenset[str | None]] = {
    **{mime_type: frozenset({mime_type}) for mime_type, _ in _MAGIC},
    **dict.fromkeys(kinds.ZIPPED - {*_SELF_DESCRIBING}, frozenset({kinds.ZIP})),
    **{kind: frozenset({kind, kinds.ZIP}) for kind in _SELF_DESCRIBING},
    **dict.fromkeys(_HEIF, _HEIF),
    **dict.fromkeys(_MP4 | {"video/quicktime", "audio/x-m4a", "video/x-m4v"}, _MP4),
    **dict.fromkeys(("audio/webm", "video/x-matroska"), frozenset({"video/webm"})),
    "video/x-msvideo": frozenset({"video/avi"}),
    **dict.fromkeys(("video/ogg", "application/ogg", "audio/opus"), frozenset({"audio/ogg"})),
    **dict.fromkeys(("audio/x-wav", "audio/wave", "audio/vnd.wave"), frozenset({"audio/wav"})),
    **dict.fromkeys(("audio/mpeg", "audio/mp3"), frozenset({"audio/mpeg", None})),  # other bytes may come first
}
_ANYWHERE = frozenset({kinds.ZIP, "application/gzip"})
"""Compression formats that files of any family use."""


def sniff(head: bytes) -> str | None:
    """Return the MIME type of a file from its first bytes, or None if they are unknown.

    >>> sniff(b"%PDF-1.7")
    'application/pdf'
    """
    for mime_type, patterns in _MAGIC:
        if all(head.startswith(magic, offset) for offset, magic in patterns):
            return mime_type
    return "application/pdf" if _begins_late(head) else None


def _begins_late(head: bytes) -> bool:
    """Return whether a PDF begins after a few other bytes, as some servers and scanners send it."""
    start = head.find(b"%PDF-", 0, _PDF_HEAD)
    if start < 0:
        return False
    before = head[:start].removeprefix(codecs.BOM_UTF8)
    # A text may mention PDFs, but it has no objects of one, or is valid UTF-8.
    return not before.strip(b"\0\t\n\f\r ") or (b" obj" in head[start:] and not is_utf8(head))


def _office_type(head: bytes) -> str:
    """Return the type of a zipped Office document from the names of its first parts; empty if they do not tell."""
    if b"[Content_Types].xml" not in head and b"_rels/" not in head:
        return ""
    return next((kind for folder, kind in _OFFICE.items() if folder in head), "")


def declared_type(mime_type: str) -> str:
    """Return a declared type by its usual name and without its parameters; empty if it says nothing.

    >>> declared_type("image/jpg"), declared_type("text/plain; charset=utf-8"), declared_type("binary/octet-stream")
    ('image/jpeg', 'text/plain', '')
    """
    label = mime_type.partition(";")[0].strip().lower()
    return "" if label in _NO_LABELS else _OTHER_NAMES.get(label, label)


def is_mime_type(text: str) -> bool:
    return bool(re.fullmatch(_LABEL, text))


def detected_type(name: str, head: bytes) -> str:
    """Return the type of the content, or of the name if the content is inconclusive and does not contradict it."""
    found = sniff(head)
    by_name = _BY_SUFFIX.get(os.path.splitext(name)[1].lower(), "")
    if found:
        if found == kinds.ZIP and by_name not in kinds.ZIPPED:
            return _office_type(head) or found
        return by_name if by_name in _BY_NAME.get(found, ()) else found
    if by_name and agrees(by_name, None, head):
        return by_name
    return "text/plain" if _is_text(head, None) else "application/octet-stream"


def is_text_type(mime_type: str) -> bool:
    """Return whether files of this type are plain text.

    >>> is_text_type("text/csv"), is_text_type("application/ld+json"), is_text_type("image/png")
    (True, True, False)
    """
    return bool(re.fullmatch(_TEXT_TYPES, mime_type))


def agrees(label: str, found: str | None, head: bytes) -> bool:
    """Return whether content with these first bytes and this detected type may have the declared type."""
    if is_text_type(label):
        return _is_text(head, found)
    if label in _PROMISED:
        return found in _PROMISED[label]
    family = label.partition("/")[0]
    return found is None or found in _ANYWHERE or family in ("application", found.partition("/")[0])


def _is_text(head: bytes, found: str | None) -> bool:
    # Text may begin with the magic bytes of another type, but then the rest is still UTF-8.
    if found == "application/pdf" or (found and not is_utf8(head)):
        return False
    return not head or encoding_of(head) is not None
