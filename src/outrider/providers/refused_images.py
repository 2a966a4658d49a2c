"""Classify the error of an API that refuses a request with images: the model takes no images, or one image is bad.

There is no status or code for it, so the text of the error is matched. The request is then sent again without the
images. If the API refuses that as well, the images were not the cause, and the error is raised.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

ImageFault: TypeAlias = Literal["model", "image"]

REFUSALS = frozenset({400, 404, 415, 422})
BROKEN = frozenset({500, 501})
"""Local servers without image support fail with these instead of refusing."""

# These are compiled when the first error is seen.
_SUBJECT = r"(?:\bimages?\b|image_url|input_image|\bvision\b|\bpictures?\b|\bmulti-?modal\b)"
_ONE_IMAGE = (
    r"format|media.?type|mime|too (?:large|many|big|small)|exceed|at least|dimension|pixel|corrupt|decod|base64|"
    r"could not process|unable to process|invalid image|unsupported image|download"
)
_NO_IMAGES = (
    rf"{_SUBJECT}[^.;]{{0,80}}(?:\bnot\b[^.;]{{0,20}}(?:support|enabled|allowed|accept|available)|unsupported|"
    rf"only supported|n't support)|"
    rf"(?:\bnot\b|n't|cannot|no endpoints)[^.;]{{0,40}}(?:support|accept|handle|take|have)[^.;]{{0,40}}{_SUBJECT}|"
    r"not a multi-?modal model|missing data required for image|at most 0 image|"
    r"unknown variant\W{0,3}(?:image|input_image)|"
    r"content\b[^.;]{0,40}\b(?:must|should) be a (?:valid )?string"
)

_URL_WORDS = r"\burls?\b|download|fetch|_url\b"
"""Words in the error of an API that could not fetch a file."""


def image_fault(status: int | None, message: str) -> ImageFault | None:
    """Return why an API refused a request with images, or None if the images are not the cause.

    >>> image_fault(404, "No endpoints found that support image input")
    'model'
    >>> image_fault(400, "image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes")
    'image'
    >>> image_fault(400, "max_tokens: 64000 > 32000")
    """
    if status not in REFUSALS | BROKEN:
        return None
    if re.search(_NO_IMAGES, message, re.I) and not re.search(_ONE_IMAGE, message, re.I):
        return "model"
    return "image" if status in REFUSALS and re.search(_SUBJECT, message, re.I) else None


def is_about_url(status: int | None, message: str) -> bool:
    """Return whether an API refused a request because it could not fetch a file by its URL."""
    return status in (400, 404, 422) and bool(re.search(_URL_WORDS, message, re.I))
