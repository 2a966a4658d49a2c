"""The `WWW-Authenticate` header of a server that wants a token (RFC 6750, RFC 9728)."""

from __future__ import annotations

import re

import msgspec

_LONGEST = 16_000
_BEARER = re.compile(r"(?:^|,)\s*bearer(?:\s+|$)", re.IGNORECASE)
_PARAMETER = re.compile(r'\s*,?\s*([a-zA-Z0-9_-]{1,50})\s*=\s*(?:"((?:[^"\\]|\\.){0,4000})"|([^\s,"]{1,4000}))')


class Challenge(msgspec.Struct, frozen=True):
    """What a server says about the token that it wants."""

    error: str = ""
    scope: str = ""
    resource_metadata: str = ""


def parse_challenge(header: str | None) -> Challenge:
    """Return the Bearer challenge in a header; an empty one if there is none.

    >>> parse_challenge('Basic realm="x", Bearer error="insufficient_scope", scope="a b"')
    Challenge(error='insufficient_scope', scope='a b', resource_metadata='')
    """
    header = (header or "")[:_LONGEST]
    found = _BEARER.search(header)
    if found is None:
        return Challenge()
    values: dict[str, str] = {}
    place = found.end()
    while parameter := _PARAMETER.match(header, place):
        name, quoted, plain = parameter.groups()
        values.setdefault(name.lower(), plain or re.sub(r"\\(.)", r"\1", quoted or ""))
        place = parameter.end()
    return Challenge(values.get("error", ""), values.get("scope", ""), values.get("resource_metadata", ""))
