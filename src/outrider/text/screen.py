"""The screen of a terminal: what a full-screen program has drawn, and which lines are new since the last look.

It follows what the terminal description `xterm` offers: moving the cursor, erasing, inserting, scrolling, the alternate
screen. Colours, titles and unknown sequences are dropped.
"""

from __future__ import annotations

import re
import unicodedata

from outrider.text.visible import safe_line

KEPT = 30_000
"""Characters of the lines that have left the screen and were not taken yet; older ones are dropped."""
_LONGEST_SEQUENCE = 4096
_BLANK = " "
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|\x1b\[(?P<private>[<=>?]?)(?P<numbers>[0-9;:]{0,64})[ -/]*(?P<move>[@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b(?P<set>[ -/]+)(?P<named>[0-~])"
    r"|\x1b(?P<escape>[0-OQ-WYZ\\`-~])"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f-\x9f])"
)
_BEGUN = re.compile(r"\x1b(?:\[[ -?]*|[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?)")
"""A sequence whose end has not come yet."""
_LINES = str.maketrans("`afgijklmnopqrstuvwxyz{|}~", "◆▒°±␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")
"""The characters of the line-drawing set."""
_ALTERNATE = ("47", "1047", "1049")


class Screen:
    """Draws output, in pieces that may be cut anywhere."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self.column, self.row = 0, 0
        """Where the cursor is, from 0. The column after the last means that the next character wraps."""
        self.is_full = False
        """Whether a full-screen program shows its own screen, which leaves nothing behind."""
        self.answers = ""
        """What a terminal sends back, since some programs ask for the place of the cursor. Clear it once it is sent."""
        self._cells = [[_BLANK] * columns for _ in range(rows)]
        self._hidden: tuple[list[list[str]], int, int] | None = None
        """The usual screen and its cursor while another one is shown."""
        self._saved = (0, 0)
        self._margins = (0, rows - 1)
        self._draws_lines = False
        self._inserts = False
        self._last = _BLANK
        self._rest = ""
        self._gone: list[str] = []
        """New lines that have left the screen at its top."""
        self._size = 0
        self._dropped = 0
        self._changed = rows
        """The first row that has changed since the last look."""

    def add(self, text: str) -> None:
        """Add output."""
        text, at = self._rest + text, 0
        self._rest = ""
        while at < len(text):
            if found := _TOKEN.match(text, at):
                at = found.end()
                self._do(found)
            elif _BEGUN.fullmatch(text, at) and len(text) - at < _LONGEST_SEQUENCE:
                self._rest = text[at:]
                return
            else:
                at += 1

    def resize(self, columns: int, rows: int) -> None:
        """Change the size. Programs draw anew; lines that no longer fit leave the screen."""
        while self._cells and len(self._cells) > rows and self.row >= rows:
            self._scroll(0, len(self._cells) - 1)
            self._cells.pop()
            self.row -= 1
        cells = [(row + [_BLANK] * columns)[:columns] for row in self._cells[:rows]]
        self._cells = [*cells, *([_BLANK] * columns for _ in range(rows - len(cells)))]
        self.columns, self.rows = columns, rows
        self.row, self.column = min(self.row, rows - 1), min(self.column, columns - 1)
        self._margins, self._changed = (0, rows - 1), min(self._changed, rows)

    @property
    def has_open_line(self) -> bool:
        """Whether the cursor follows text in its line, as after a prompt."""
        return bool("".join(self._cells[self.row][: self.column]).strip())

    def take(self) -> str:
        """Return the lines that have changed since the last call; the whole screen of a full-screen program."""
        shown = ["".join(row).rstrip() for row in self._cells[0 if self.is_full else self._changed :]]
        note = [f"[{self._dropped:,} lines are left out here.]"] if self._dropped else []
        lines = [*note, *self._gone, *shown]
        self._gone, self._size, self._dropped, self._changed = [], 0, 0, self.rows
        return "\n".join(safe_line(line) for line in lines).rstrip("\n")

    def _do(self, found: re.Match[str]) -> None:
        if text := found["text"]:
            self._write(text.translate(_LINES) if self._draws_lines else text)
        elif found["move"]:
            self._sequence(found["private"], found["numbers"].replace(":", ";"), found["move"])
        elif found["set"] == "(":
            self._draws_lines = found["named"] == "0"
        elif found["escape"]:
            self._escape(found["escape"])
        elif found["control"]:
            self._control(found["control"])

    # Characters

    def _write(self, text: str) -> None:
        wide = text if text.isascii() else _cells_of(text)
        at = 0
        while at < len(wide):
            if self.column >= self.columns:
                self.column = 0
                self._line_feed()
            after = at + self.columns - self.column
            if after < len(wide) and not wide[after] and self.columns > 1:
                after -= 1  # a wide character that does not fit goes to the next row
            part = wide[at:after]
            row = self._touched(self.row)
            end = self.column + len(part)
            if self._inserts:
                row[self.column : self.column] = part
                del row[self.columns :]
            else:
                row[self.column : end] = part
            at += len(part)
            self.column = end if at == len(wide) else self.columns
        self._last = wide[-1] if wide else self._last

    def _control(self, control: str) -> None:
        match control:
            case "\r":
                self.column = 0
            case "\n" | "\v" | "\f" | "\x84":
                self._line_feed()
            case "\b":
                self.column = max(0, min(self.column, self.columns - 1) - 1)
            case "\t":
                self.column = min(self.columns - 1, (self.column // 8 + 1) * 8)
            case "\x0e" | "\x0f":
                self._draws_lines = control == "\x0e"

    def _escape(self, name: str) -> None:
        match name:
            case "7":
                self._saved = self.row, self.column
            case "8":
                self.row, self.column = min(self._saved[0], self.rows - 1), min(self._saved[1], self.columns - 1)
            case "D":
                self._line_feed()
            case "E":
                self.column = 0
                self._line_feed()
            case "M" if self.row == self._margins[0]:
                self._scroll_down(*self._margins)
            case "M":
                self.row = max(0, self.row - 1)
            case "c":
                self._margins, self._draws_lines, self._inserts = (0, self.rows - 1), False, False
                self._erase_rows(range(self.rows))
                self.row = self.column = 0

    # Sequences

    def _sequence(self, private: str, numbers: str, name: str) -> None:
        if private == "?" and name in "hl" and any(each in _ALTERNATE for each in numbers.split(";")):
            self._switch(name == "h")
        if private:
            return
        given = [min(int(each), 9999) if each else 0 for each in numbers.split(";")]
        first, count = given[0], max(1, given[0])
        if name in "ABCDEFGHade`f":
            self._move(name, count, max(1, given[1]) if len(given) > 1 else 1)
        elif name in "LMST@PX":
            self._shift(name, count)
        elif name in "JK":
            self._erase(name, first)
        else:
            self._set(name, first, given[1] if len(given) > 1 else 0)

    def _set(self, name: str, first: int, second: int) -> None:
        match name:
            case "r":
                top, bottom = max(1, first) - 1, min(second or self.rows, self.rows) - 1
                self._margins = (top, bottom) if top < bottom else (0, self.rows - 1)
                self.row = self.column = 0
            case "s" | "u":
                self._escape("7" if name == "s" else "8")
            case "b":
                self._write(self._last * min(max(1, first), self.columns * self.rows))
            case "h" | "l" if first == 4:
                self._inserts = name == "h"
            case "n" if first == 6:
                self.answers += f"\x1b[{self.row + 1};{min(self.column, self.columns - 1) + 1}R"
            case "c":
                self.answers += "\x1b[?6c"

    def _move(self, name: str, count: int, second: int) -> None:
        top, bottom = self._margins
        match name:
            case "A" | "F":
                self.row = max(top if self.row >= top else 0, self.row - count)
            case "B" | "E" | "e":
                self.row = min(bottom if self.row <= bottom else self.rows - 1, self.row + count)
            case "C" | "a":
                self.column = min(self.columns - 1, self.column + count)
            case "D":
                self.column = max(0, min(self.column, self.columns - 1) - count)
            case "G" | "`":
                self.column = min(count, self.columns) - 1
            case "d":
                self.row = min(count, self.rows) - 1
            case _:
                self.row, self.column = min(count, self.rows) - 1, min(second, self.columns) - 1
        if name in "EF":
            self.column = 0

    def _shift(self, name: str, count: int) -> None:
        """Insert or delete lines (L, M), scroll (S, T), or insert, delete or erase characters (@, P, X)."""
        top, bottom = self._margins
        if name in "LM" and top <= self.row <= bottom:
            for _ in range(min(count, self.rows)):
                (self._scroll_down if name == "L" else self._scroll)(self.row, bottom)
            self.column = 0
        elif name in "ST":
            for _ in range(min(count, self.rows)):
                (self._scroll if name == "S" else self._scroll_down)(top, bottom)
        elif name in "@PX":
            row, at = self._touched(self.row), self.column  # after a full row: behind it, where nothing is
            count = min(count, self.columns - at)
            blank = [_BLANK] * count
            if name == "X":
                row[at : at + count] = blank
            else:
                row[at:] = [*blank, *row[at:-count]] if name == "@" else [*row[at + count :], *blank]

    def _erase(self, name: str, how: int) -> None:
        if how < 2:
            row = self._touched(self.row)
            part = slice(self.column, None) if how == 0 else slice(0, self.column + 1)
            row[part] = [_BLANK] * len(row[part])
        if name == "J":
            self._erase_rows(range(self.row + 1, self.rows) if how == 0 else range(self.row if how == 1 else self.rows))
        elif how == 2:
            self._erase_rows([self.row])

    def _erase_rows(self, rows: range | list[int]) -> None:
        for row in rows:
            self._touched(row)[:] = [_BLANK] * self.columns

    def _switch(self, is_full: bool) -> None:
        """Show the alternate screen, or the usual one again as it was."""
        if is_full and not self._hidden:
            self._hidden = self._cells, self.row, self.column
            self._cells = [[_BLANK] * self.columns for _ in range(self.rows)]
        elif not is_full and self._hidden:
            columns, rows = self.columns, self.rows
            self._cells, self.row, self.column = self._hidden
            self._hidden = None
            self.resize(columns, rows)
        self.is_full, self._margins = is_full, (0, self.rows - 1)

    # Lines

    def _touched(self, row: int) -> list[str]:
        if not self.is_full:
            self._changed = min(self._changed, row)
        return self._cells[row]

    def _line_feed(self) -> None:
        if self.row == self._margins[1]:
            self._scroll(*self._margins)
        else:
            self.row = min(self.row + 1, self.rows - 1)

    def _scroll(self, top: int, bottom: int) -> None:
        line = self._cells.pop(top)
        self._cells.insert(bottom, [_BLANK] * self.columns)
        if self.is_full:
            return
        if top > 0:
            self._changed = min(self._changed, top)
        elif self._changed == 0:
            self._leave("".join(line).rstrip())
        else:
            self._changed -= 1

    def _scroll_down(self, top: int, bottom: int) -> None:
        self._cells.pop(bottom)
        self._cells.insert(top, [_BLANK] * self.columns)
        self._touched(top)

    def _leave(self, line: str) -> None:
        self._gone.append(line)
        self._size += len(line) + 1
        while self._size > KEPT and self._gone:
            self._size -= len(self._gone.pop(0)) + 1
            self._dropped += 1


def _cells_of(text: str) -> list[str]:
    """Return a cell for each column: after a wide character an empty one; a combining character joins the last."""
    cells: list[str] = []
    for character in text:
        if cells and unicodedata.combining(character):
            cells[-1 if cells[-1] else -2] += character
        else:
            cells.append(character)
            if unicodedata.east_asian_width(character) in "WF":
                cells.append("")
    return cells
