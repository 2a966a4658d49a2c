"""Open PDFs without pypdf's warnings on the terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pypdf import PdfReader


LOCKED = (
    "it is protected with a password; save it without one first, for example with "
    "`qpdf --decrypt --password=… locked.pdf open.pdf`"
)
"""Why a PDF cannot be read, and what to do."""


def is_locked(error: Exception) -> bool:
    """Return whether a PDF cannot be opened because it needs a password. Only the text of PDFium's error says so."""
    return bool(re.search(r"incorrect password|not been decrypted", str(error), re.I))


def opened_pdf(stream: BinaryIO) -> PdfReader:
    """Return a reader for the file. Errors of pypdf are passed on."""
    import logging

    from pypdf import PdfReader  # slow to import

    logger = logging.getLogger("pypdf")
    if not logger.handlers:  # without a handler its warnings would go to the terminal
        logger.addHandler(logging.NullHandler())
    return PdfReader(stream)
