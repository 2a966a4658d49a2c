"""The output of a command as a terminal shows it: overwritten lines as they ended, no colours, no escape sequences.

`rendered` takes a whole text. `TerminalText` and `LiveText` take it in pieces; where the pieces are cut makes no
difference. A carriage return goes to the beginning of the line, a backspace one character back, and text that follows
overwrites what was there. Of the escape sequences, those that erase the line, or go to its beginning, are followed;
all others are dropped. Other control characters are replaced by a mark. Lines above are not changed any more.
"""

from __future__ import annotations

import re

from outrider.text.visible import safe_line

LONGEST_LINE = 16_384
"""Characters of a line that can still be overwritten. Those of a longer line are final."""
RESTART = "\r\x1b[K"
"""In live output: the text that follows replaces the last line."""

_MARK = "\N{REPLACEMENT CHARACTER}"
_TOKEN = re.compile(r"(?P<text>[^\x00-\x08\x0a\x0d-\x1f\x7f-\x9f]+)|(?P<control>.)", re.DOTALL)
_PLAIN = re.compile(r"[^\x00-\x08\x0d-\x1f\x7f-\x9f]*")
_REST = {
    "[": re.compile(r"[ -?]*"),  # the parameters of a colour or of a movement
    "]": re.compile(r"[^\x07\x1b\n]*"),  # a title or a link; a line break ends one that is not finished
    " ": re.compile(r"[ -/]*"),
}
"""What follows the beginning of a sequence, before its last character."""
_MAX_PARAMETERS = 64


def rendered(text: str) -> str:
    """Return a whole output as a terminal shows it.

    >>> rendered("10 %\\r100 %\\n\\x1b[32mok\\x1b[0m\\n")
    '100 %\\nok\\n'
    """
    if _PLAIN.fullmatch(text):
        return text
    terminal = TerminalText()
    return terminal.add(text) + terminal.line


def command_output_lines(output: str) -> list[str]:
    """Return the lines of a whole output to read, for another place of a terminal or of a page.

    >>> command_output_lines("10 %\\r100 %\\n\\x1b[32mok\\x1b[0m\\n")
    ['100 %', 'ok']
    """
    return [safe_line(line) for line in rendered(output).rstrip("\n").split("\n")] if output else []


class TerminalText:
    """Renders output that comes in pieces. It keeps the current line alone."""

    def __init__(self) -> None:
        self._characters: list[str] = []
        self._column = 0
        self._sequence = ""
        """The kind of the sequence that is not finished: its first character after Escape, or Escape itself."""
        self._parameters = ""

    @property
    def line(self) -> str:
        """The current line, which more output may still overwrite."""
        return "".join(self._characters)

    def add(self, text: str) -> str:
        """Add output. Return the text that is final now: all lines before the current one."""
        final: list[str] = []
        at = 0
        while at < len(text):
            if self._sequence:
                at = self._go_on(text, at)
                continue
            found = _TOKEN.match(text, at)
            assert found
            at = found.end()
            if found["text"] is not None:
                self._write(found["text"], final)
            else:
                self._control(found["control"], final)
        return "".join(final)

    def _write(self, run: str, final: list[str]) -> None:
        while run:
            part = run[: LONGEST_LINE - self._column]
            run = run[len(part) :]
            end = self._column + len(part)
            self._characters[self._column : end] = part
            self._column = end
            if end == LONGEST_LINE:
                self._finish(final)

    def _finish(self, final: list[str]) -> None:
        final.append("".join(self._characters))
        self._characters, self._column = [], 0

    def _control(self, control: str, final: list[str]) -> None:
        match control:
            case "\n":
                self._characters.append(control)
                self._finish(final)
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
            case "\x1b":
                self._sequence = control
            case _:
                self._write(_MARK, final)

    def _go_on(self, text: str, at: int) -> int:
        """Go on with a sequence. Return where its end, or the end of the text, is."""
        if self._sequence == "\x1b":
            return self._start_sequence(text, at)
        found = _REST[self._sequence].match(text, at)
        assert found
        self._parameters = (self._parameters + found[0])[:_MAX_PARAMETERS]
        at = found.end()
        return self._end_sequence(text, at) if at < len(text) else at

    def _start_sequence(self, text: str, at: int) -> int:
        self._parameters = ""
        first = text[at]
        if first == "[":
            self._sequence = first
        elif first in "]PX^_":
            self._sequence = "]"
        elif " " <= first <= "/":
            self._sequence = " "
        else:
            self._sequence = ""
            return at + 1 if "0" <= first <= "~" else at
        return at + 1

    def _end_sequence(self, text: str, at: int) -> int:
        kind, last, self._sequence = self._sequence, text[at], ""
        if kind == "]":
            return at + 1 if last == "\x07" else at  # `ESC \` is a sequence of its own
        if kind == "[" and "@" <= last <= "~":
            self._follow(last)
            return at + 1
        return at + 1 if kind == " " and "0" <= last <= "~" else at

    def _follow(self, last: str) -> None:
        if last == "K" and self._parameters in ("", "0"):
            del self._characters[self._column :]
        elif last == "K" and self._parameters == "2":
            self._characters, self._column = [], 0
        elif last == "G" and self._parameters in ("", "0", "1"):
            self._column = 0


class LiveText:
    """Turns output into plain text that can be appended, and RESTART where the last line is to be replaced.

    `rendered` of all that it returns is `rendered` of the output, for lines of up to `LONGEST_LINE` characters.
    """

    def __init__(self) -> None:
        self._terminal = TerminalText()
        self._shown = ""

    def add(self, text: str) -> str:
        """Add output. Return what is to be appended to the text that is shown."""
        text = self._terminal.add(text) + self._terminal.line
        shown, self._shown = self._shown, self._terminal.line
        return text[len(shown) :] if text.startswith(shown) else f"{RESTART}{text}"
