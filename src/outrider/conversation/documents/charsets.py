"""The characters of an answer from the web, whatever it says of itself."""

from __future__ import annotations

import codecs
import re

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_LABEL = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:+-]{1,40})", re.IGNORECASE)
_HEAD = 4096
"""Bytes of a page in which its charset is looked for."""
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "mbcs", "oem"})
"""Codecs of Python that no page is written in."""
_AS_BROWSERS_DO = {"iso8859-1": "cp1252", "ascii": "cp1252"}


def decoded(body: bytes, content_type: str = "", *, is_html: bool = False) -> str:
    """The text of an answer: by its first bytes, its header, its own words in a page, else UTF-8 or Windows' Latin.

    >>> decoded("déjà".encode("latin-1"), "text/plain; charset=ISO-8859-1"), decoded("déjà".encode())
    ('déjà', 'déjà')
    """
    for bom, charset in _BOMS:
        if body.startswith(bom):
            return body.decode(charset, errors="replace")
    charset = _named(content_type) or (_named(body[:_HEAD].decode("latin-1")) if is_html else "")
    if charset:
        return body.decode(charset, errors="replace")
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode("cp1252", errors="replace")


def _named(words: str) -> str:
    """The codec for the charset that the words name, if there is one."""
    label = _LABEL.search(words)
    try:
        codec = codecs.lookup(label.group(1)) if label else None
        "".encode(codec.name if codec else "utf-8")  # some codecs are not for text
    except (LookupError, ValueError):
        return ""
    if codec is None or codec.name in _NO_CHARSETS:
        return ""
    return _AS_BROWSERS_DO.get(codec.name, codec.name)
