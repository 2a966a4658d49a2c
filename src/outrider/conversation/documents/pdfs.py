"""Open PDFs without pypdf's warnings on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pypdf import PdfReader


def opened_pdf(stream: BinaryIO) -> PdfReader:
    """Return a reader for the file. Errors of pypdf are passed on."""
    import logging

    from pypdf import PdfReader  # slow to import

    logger = logging.getLogger("pypdf")
    if not logger.handlers:  # without a handler its warnings would go to the terminal
        logger.addHandler(logging.NullHandler())
    return PdfReader(stream)
