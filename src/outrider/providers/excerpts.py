"""How much of a text file a model gets to read: a share of its window, kept from the head and the tail of the file.

Half of the window is for the text of files. Each file may take half of what the files before it have left of that, so
that any number of files fits, and a file keeps its share whatever comes after it.
"""

from __future__ import annotations

from outrider.text import human_size

UNKNOWN_WINDOW = 64_000
"""Tokens, for a model whose window is not known."""
TOKEN_BYTES = 3
"""Bytes of UTF-8 for a token: few, because tables of numbers and other scripts than Latin have short tokens."""
NEWLINE = "\n"
SMALLEST = 1_000
"""Bytes. A file of this size is always shown, and of a larger one at least so much or nothing."""


def room_for_file(context_tokens: int | None, taken: int) -> int:
    """Bytes for the next file, if those before it have taken so many.

    >>> room_for_file(200_000, 0), room_for_file(200_000, 150_000)
    (150000, 75000)
    """
    for_files = (context_tokens or UNKNOWN_WINDOW) * TOKEN_BYTES // 2
    return max(0, for_files - taken) // 2


def excerpt(text: str, room: int, where: str, *, by_line: bool = True) -> str:
    """The same text if it fits; else its head and tail with a note between them that says where the whole is.

    `by_line`: say also which lines are left out, for a file that can be read from a line on.
    """
    if len(text) <= max(room, SMALLEST) // 4:  # no character has more than four bytes
        return text
    data = text.encode()
    if len(data) <= max(room, SMALLEST):
        return text
    if room < SMALLEST:
        return f"[Nothing of its {human_size(len(data))} is shown: earlier files have taken the room. {where}]"
    start, end = _end_of_head(data, room - room // 4), _start_of_tail(data, room // 4)
    said = f"{human_size(end - start)} of {human_size(len(data))} left out here"
    if by_line and (lines := _lines(data, start, end)):
        said += f", {lines}"
    head, tail = data[:start].decode(errors="ignore"), data[end:].decode(errors="ignore")
    return f"{head.removesuffix(NEWLINE)}{NEWLINE}[{said}. {where}]{NEWLINE}{tail}"


def _end_of_head(data: bytes, size: int) -> int:
    """Where the beginning ends: after a line if one ends near."""
    return data.rfind(b"\n", size // 2, size) + 1 or size


def _start_of_tail(data: bytes, size: int) -> int:
    """Where the end begins: with a line if one begins near."""
    start = len(data) - size
    return data.find(b"\n", start - 1, start + size // 2) + 1 or start


def _lines(data: bytes, start: int, end: int) -> str:
    """Which lines stand between two places; empty if these are not between lines."""
    if not (data.startswith(b"\n", start - 1) and data.startswith(b"\n", end - 1)):
        return ""
    first = data.count(b"\n", 0, start) + 1
    last = data.count(b"\n", 0, end)
    total = data.count(b"\n") + (not data.endswith(b"\n"))
    return f"from line {first:,} to line {last:,} of {total:,}"
