"""Excel workbooks: each sheet as CSV, with the displayed values instead of the formulas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from xml.etree.ElementTree import Element

from outrider.conversation.documents.archive import Archive, main_part, number, part_of_kind, relations, tree, trees
from outrider.conversation.documents.blocks import COLUMNS, Block, comma_separated

_DATES = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
"""The ids of the built-in date and time formats."""
_NOT_LETTERS = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|_.|\*.')
_CELL = re.compile(r"([A-Z]{1,3})(\d{1,7})")


def workbook_blocks(archive: Archive) -> Iterator[Block]:
    """Yield the sheets in order."""
    main = main_part(archive, "xl/workbook.xml")
    related = relations(archive, main)
    book = tree(archive.pieces(main), archive.budget)
    settings = book.find("workbookPr")
    reader = _Reader(
        _strings(archive, part_of_kind(related, "sharedStrings")),
        _date_styles(archive, part_of_kind(related, "styles")),
        from_1904=settings is not None and settings.get("date1904") in ("1", "true"),
    )
    for sheet in book.iter("sheet"):
        relation = related.get(sheet.get("r:id", ""))
        if relation and relation.kind == "worksheet" and relation.target in archive:
            hidden = " (hidden)" if sheet.get("state", "visible") != "visible" else ""
            yield Block(f"## {sheet.get('name', '')}{hidden}")
            yield from _rows(archive, relation.target, reader)


def _rows(archive: Archive, part: str, reader: _Reader) -> Iterator[Block]:
    expected = 1
    for row in trees(archive.pieces(part), archive.budget, {"row"}):
        at = number(row.get("r", ""), expected)
        line = comma_separated(reader.cells(row))
        if not line:
            continue
        if at > expected:
            empty = at - expected
            yield Block(f"[{empty:,} empty row{'' if empty == 1 else 's'}]", tight=True)
        expected = at + 1
        yield Block(line, tight=True)


class _Reader:
    """Reads cells, given the shared strings and the date styles."""

    def __init__(self, strings: Sequence[str], dates: frozenset[int], *, from_1904: bool) -> None:
        self._strings = strings
        self._dates = dates
        self._day_zero = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30)

    def cells(self, row: Element) -> list[str]:
        """Return the displayed values of a row, from the first column."""
        cells: list[str] = []
        for cell in row.iter("c"):
            column = _column(cell.get("r", ""), len(cells))
            cells += [""] * (column - len(cells))
            cells.append(self._shown(cell))
        return cells

    def _shown(self, cell: Element) -> str:
        kind, raw = cell.get("t", "n"), cell.findtext("v")
        if kind == "inlineStr":
            return _text(cell.find("is"))
        if not raw:
            formula = cell.findtext("f")
            return f"={formula}" if formula else ""
        if kind == "s":
            index = number(raw, len(self._strings))
            return self._strings[index] if index < len(self._strings) else ""
        if kind == "b":
            return "TRUE" if raw.strip() == "1" else "FALSE"
        return self._number(raw, cell.get("s", "")) if kind == "n" else raw

    def _number(self, raw: str, style: str) -> str:
        try:
            shown = float(raw)
            return _date(self._day_zero, shown) if number(style, -1) in self._dates else f"{shown:.15g}"
        except (ValueError, OverflowError):
            return raw


def _date(day_zero: datetime, days: float) -> str:
    """Format a number of days as a date; less than one day is a time."""
    moment = day_zero + timedelta(seconds=round(days * 86_400))
    if 0 <= days < 1:
        return moment.strftime("%H:%M:%S")
    return moment.isoformat(sep=" ") if moment.time() != moment.min.time() else moment.date().isoformat()


def _column(reference: str, expected: int) -> int:
    """Return the column index of a cell reference, or the expected index if there is none."""
    found = _CELL.fullmatch(reference)
    if not found:
        return expected
    index = 0
    for letter in found.group(1):
        index = index * 26 + ord(letter) - ord("A") + 1
    return min(max(index - 1, expected), COLUMNS)


def _strings(archive: Archive, part: str) -> list[str]:
    if part not in archive:
        return []
    return [_text(each) for each in trees(archive.pieces(part), archive.budget, {"si"})]


def _text(element: Element | None) -> str:
    """Return the text of a cell: all runs, without phonetic guides."""
    if element is None:
        return ""
    runs = (run if run.tag == "t" else run.find("t") for run in element if run.tag in ("t", "r"))
    return "".join(run.text or "" for run in runs if run is not None)


def _date_styles(archive: Archive, part: str) -> frozenset[int]:
    """Return the indices of the styles that display dates."""
    if part not in archive:
        return frozenset()
    styles = tree(archive.pieces(part), archive.budget)
    formats: Mapping[str, str] = {
        each.get("numFmtId", ""): each.get("formatCode", "") for each in styles.iterfind("numFmts/numFmt")
    }
    return frozenset(
        index
        for index, style in enumerate(styles.iterfind("cellXfs/xf"))
        if _shows_a_date(style.get("numFmtId", ""), formats)
    )


def _shows_a_date(format: str, formats: Mapping[str, str]) -> bool:
    if format in formats:
        letters = _NOT_LETTERS.sub("", formats[format].partition(";")[0]).lower()
        return bool(set(letters) & set("ymdhs")) and "general" not in letters
    return number(format, -1) in _DATES
