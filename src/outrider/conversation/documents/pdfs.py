"""PDFs, opened without a word on the terminal about what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pypdf import PdfReader


def opened_pdf(stream: BinaryIO) -> PdfReader:
    """A reader of the file. Raises whatever pypdf raises."""
    import logging

    from pypdf import PdfReader  # takes long to import

    logger = logging.getLogger("pypdf")
    if not logger.handlers:  # what it says of faults in a file belongs to whoever asks for it, not on the terminal
        logger.addHandler(logging.NullHandler())
    return PdfReader(stream)
