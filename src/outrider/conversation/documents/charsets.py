"""Decode texts with a declared charset, even if it is missing or wrong."""

from __future__ import annotations

import codecs
import re

from outrider.conversation.encodings import encoding_of, is_utf8

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_LABEL = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:+-]{1,40})", re.IGNORECASE)
_HEAD = 4096
"""The number of bytes at the beginning of a page in which to look for its charset."""
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "mbcs", "oem"})
"""Python codecs that no page uses."""
_AS_BROWSERS_DO = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}


def decoded(body: bytes, content_type: str = "", *, is_html: bool = False) -> str:
    """Decode a body by its byte order mark, its header or the page's charset, else as UTF-8 or Windows-1252.

    >>> decoded("déjà".encode("latin-1"), "text/plain; charset=ISO-8859-1"), decoded("déjà".encode())
    ('déjà', 'déjà')
    """
    for bom, charset in _BOMS:
        if body.startswith(bom):
            return body.decode(charset, errors="replace")
    charset = _declared(content_type) or (_declared(body[:_HEAD].decode("latin-1")) if is_html else "")
    if charset:
        return body.decode(charset, errors="replace")
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode("cp1252", errors="replace")


def in_utf8(data: bytes, content_type: str) -> bytes:
    """Return a text in UTF-8 if its content type declares another charset that fits, else unchanged.

    A charset that the bytes contradict is ignored.

    >>> in_utf8("Привет".encode("cp1251"), "text/plain; charset=windows-1251").decode()
    'Привет'
    """
    charset = _declared(content_type)
    if not charset or charset == "utf-8" or any(data.startswith(bom) for bom, _ in _BOMS):
        return data
    if charset.startswith("utf-16") and re.fullmatch(rb"[\t\n\r -~]*", data):
        return data  # plain ASCII
    if charset == "utf-16":  # without a byte order mark
        found = encoding_of(data)
        charset = found.codec if found and found.codec.startswith("utf-16") else "utf-16-le"
    try:
        text = data.decode(charset)
    except UnicodeDecodeError:
        return data
    is_single_byte = len(text) == len(data)  # such a charset fits any bytes, so that valid UTF-8 says more
    if "\0" in text or (is_single_byte and (is_utf8(data) or encoding_of(data) is None)):
        return data
    is_page = "html" in content_type.lower()  # a page may name its old charset; the mark counts for more
    return text.encode("utf-8-sig" if is_page else "utf-8", "replace")


def _declared(text: str) -> str:
    """Return the codec for the charset that the text declares; empty if there is none."""
    label = _LABEL.search(text)
    try:
        codec = codecs.lookup(label.group(1)) if label else None
        "".encode(codec.name if codec else "utf-8")  # some codecs are not for text
    except (LookupError, ValueError):
        return ""
    if codec is None or codec.name in _NO_CHARSETS:
        return ""
    return _AS_BROWSERS_DO.get(codec.name, codec.name)
