"""The readable document types: MIME types and file name suffixes."""

from __future__ import annotations

from collections.abc import Mapping

_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN = "application/vnd.oasis.opendocument."

DOCX = f"{_OFFICE}wordprocessingml.document"
XLSX = f"{_OFFICE}spreadsheetml.sheet"
PPTX = f"{_OFFICE}presentationml.presentation"
DOCM = "application/vnd.ms-word.document.macroenabled.12"
XLSM = "application/vnd.ms-excel.sheet.macroenabled.12"
PPTM = "application/vnd.ms-powerpoint.presentation.macroenabled.12"
ODT, ODS, ODP = f"{_OPEN}text", f"{_OPEN}spreadsheet", f"{_OPEN}presentation"
EPUB = "application/epub+zip"
RTF = "application/rtf"
NOTEBOOK = "application/x-ipynb+json"
ZIP = "application/zip"
OLE = "application/x-ole-storage"
"""The format of Office before 2007, and of password-protected files today. It cannot be read."""
DOC, XLS, PPT = "application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint"

OLD = frozenset({DOC, XLS, PPT})

ZIPPED = frozenset({DOCX, XLSX, PPTX, DOCM, XLSM, PPTM, ODT, ODS, ODP, EPUB})
"""Documents that are zip archives; often only the file name tells them apart."""

READABLE: Mapping[str, str] = {
    DOCX: "Word document",
    DOCM: "Word document",
    XLSX: "Excel workbook",
    XLSM: "Excel workbook",
    PPTX: "PowerPoint presentation",
    PPTM: "PowerPoint presentation",
    ODT: "OpenDocument text",
    ODS: "OpenDocument spreadsheet",
    ODP: "OpenDocument presentation",
    EPUB: "EPUB book",
    RTF: "RTF document",
    "text/rtf": "RTF document",
    NOTEBOOK: "notebook",
}
"""The readable documents, with a name for people."""

BY_SUFFIX: Mapping[str, str] = {
    ".docx": DOCX,
    ".docm": DOCM,
    ".xlsx": XLSX,
    ".xlsm": XLSM,
    ".pptx": PPTX,
    ".pptm": PPTM,
    ".odt": ODT,
    ".ods": ODS,
    ".odp": ODP,
    ".epub": EPUB,
    ".rtf": RTF,
    ".ipynb": NOTEBOOK,
    ".doc": DOC,
    ".xls": XLS,
    ".ppt": PPT,
}


def suffix_of(mime_type: str) -> str:
    """Return the file name suffix of a type; empty if the type is not listed.

    >>> suffix_of(DOCX), suffix_of("image/png")
    ('.docx', '')
    """
    return next((suffix for suffix, kind in BY_SUFFIX.items() if kind == mime_type), "")
