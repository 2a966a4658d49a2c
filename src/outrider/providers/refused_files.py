"""Classify the error of an API that refuses a request with files: the model takes no such files, or one file is bad.

There is no status or code for it, so the text of the error is matched. The request is then sent again without the
files, or with their text. If the API refuses that as well, the files were not the cause, and the error is raised.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from outrider.providers.shown_files import Kind

Cause: TypeAlias = Literal["model", "file"]
"""The model takes no files of the kind, or the API refused one file."""

REFUSALS = frozenset({400, 404, 415, 422})
BROKEN = frozenset({500, 501})
"""Local servers without support for a kind fail with these instead of refusing."""

# These are compiled when the first error is seen.
_SUBJECTS: Mapping[Kind, str] = {
    "image": r"(?:\bimages?\b|image_url|input_image|\bvision\b|\bpictures?\b|\bmulti-?modal\b)",
    "audio": r"(?:\baudios?\b|input_audio|\bmulti-?modal\b)",
    "video": r"(?:\bvideos?\b|video_url|input_video|\bmulti-?modal\b)",
    "document": r"(?:\bpdfs?\b|\bdocuments?\b|document_url|\bfiles?\b|file_data|file_url|input_file|\bmulti-?modal\b)",
}
_ONE_FILE = (
    r"format|media.?type|mime|file type|too (?:large|many|big|small|long)|exceed|at least|dimension|pixel|corrupt|"
    r"decod|base64|could not process|unable to process|invalid (?:image|audio|video|pdf|document|file)|"
    r"unsupported (?:image|audio|video|pdf|document|file)|download|\bpages?\b|password|encrypted"
)
_PLAIN_TEXT_ONLY = (
    r"not a multi-?modal model|unknown variant\W{0,3}(?:image|input_image|file|document|input_audio|video)|"
    r"unknown part type|content\b[^.;]{0,40}\b(?:must|should) be a (?:valid )?string|"
    r"input should be a valid string"
)
_NO_IMAGES = r"missing data required for image|at most 0 image"


def _none_taken(subject: str) -> str:
    """Return the pattern of an error that says that no such file is taken."""
    return (
        rf"{subject}[^.;]{{0,80}}(?:\bnot\b[^.;]{{0,20}}(?:support|enabled|allowed|accept|available)|unsupported|"
        rf"only supported|n't support)|"
        rf"(?:\bnot\b|n't|cannot|no endpoints)[^.;]{{0,40}}(?:support|accept|handle|take|have)[^.;]{{0,40}}{subject}"
    )


_URL_WORDS = r"\burls?\b|download|fetch|_url\b"
"""Words in the error of an API that could not fetch a file."""


def file_fault(status: int | None, message: str, sent: Collection[Kind]) -> tuple[Kind, Cause] | None:
    """Return which kind of the sent files an API refused, and why. None if no file is the cause.

    >>> file_fault(404, "No endpoints found that support image input", ["image"])
    ('image', 'model')
    >>> file_fault(400, "The PDF specified was not valid.", ["image", "document"])
    ('document', 'file')
    >>> file_fault(400, "max_tokens: 64000 > 32000", ["image"])
    """
    if status not in REFUSALS | BROKEN:
        return None
    one_file = re.search(_ONE_FILE, message, re.I)
    kinds = [kind for kind in _SUBJECTS if kind in sent]
    for kind in kinds:
        no_kind = f"{_none_taken(_SUBJECTS[kind])}|{_PLAIN_TEXT_ONLY}{f'|{_NO_IMAGES}' if kind == 'image' else ''}"
        if re.search(no_kind, message, re.I) and not one_file:
            return kind, "model"
    if status in REFUSALS:
        for kind in kinds:
            if re.search(_SUBJECTS[kind], message, re.I):
                return kind, "file"
    return None


def is_about_url(status: int | None, message: str) -> bool:
    """Return whether an API refused a request because it could not fetch a file by its URL."""
    return status in (400, 404, 422) and bool(re.search(_URL_WORDS, message, re.I))
