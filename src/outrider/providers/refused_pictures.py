"""What an API means when it refuses a request that has pictures: that this model takes none, or that one is at fault.

There is no status or code for it: each server says it in its own words, so the words are looked at. The request is sent
again without the pictures; if that is refused as well, it was about something else, and the error stands.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Fault: TypeAlias = Literal["model", "picture"]

REFUSALS = frozenset({400, 404, 415, 422})
BROKEN = frozenset({500, 501})
"""Local servers that were started without their part for pictures fail instead of refusing."""

_SUBJECT = r"(?:\bimages?\b|image_url|input_image|\bvision\b|\bpictures?\b|\bmulti-?modal\b)"
_ABOUT_PICTURES = re.compile(_SUBJECT, re.IGNORECASE)
_ONE_PICTURE = re.compile(
    r"format|media.?type|mime|too (?:large|many|big|small)|exceed|at least|dimension|pixel|corrupt|decod|base64|"
    r"could not process|unable to process|invalid image|unsupported image|download",
    re.IGNORECASE,
)
_NO_PICTURES = re.compile(
    rf"{_SUBJECT}[^.;]{{0,80}}(?:\bnot\b[^.;]{{0,20}}(?:support|enabled|allowed|accept|available)|unsupported|"
    rf"only supported|n't support)|"
    rf"(?:\bnot\b|n't|cannot|no endpoints)[^.;]{{0,40}}(?:support|accept|handle|take|have)[^.;]{{0,40}}{_SUBJECT}|"
    r"not a multi-?modal model|missing data required for image|at most 0 image|"
    r"unknown variant\W{0,3}(?:image|input_image)|"
    r"content\b[^.;]{0,40}\b(?:must|should) be a (?:valid )?string",
    re.IGNORECASE,
)


def fault_of(status: int | None, said: str) -> Fault | None:
    """Whose fault it is that a request with pictures was refused; None if it is not about them.

    >>> fault_of(404, "No endpoints found that support image input")
    'model'
    >>> fault_of(400, "image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes")
    'picture'
    >>> fault_of(400, "max_tokens: 64000 > 32000")
    """
    if status not in REFUSALS | BROKEN:
        return None
    if _NO_PICTURES.search(said) and not _ONE_PICTURE.search(said):
        return "model"
    return "picture" if status in REFUSALS and _ABOUT_PICTURES.search(said) else None
