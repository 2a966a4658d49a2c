"""Excerpts of text files: head and tail of a file, limited to a share of the model's context window.

Half of the window is for the text of files. Each file may take half of what the files before it have left. So any
number of files fits, and later files do not change the share of earlier ones.
"""

from __future__ import annotations

from outrider.text import human_size

UNKNOWN_WINDOW = 64_000
"""Tokens, for a model with an unknown window."""
TOKEN_BYTES = 3
"""UTF-8 bytes of a token. The number is low because tables of numbers and non-Latin scripts have short tokens."""
NEWLINE = "\n"
SMALLEST = 1_000
"""Bytes. A file of this size is always shown. Of a larger file, at least this much is shown, or nothing."""


def room_for_file(context_tokens: int | None, taken: int) -> int:
    """Return the bytes for the next file, if the files before it have taken `taken` bytes.

    >>> room_for_file(200_000, 0), room_for_file(200_000, 150_000)
    (150000, 75000)
    """
    for_files = (context_tokens or UNKNOWN_WINDOW) * TOKEN_BYTES // 2
    return max(0, for_files - taken) // 2


def excerpt(text: str, room: int, where: str, *, by_line: bool = True) -> str:
    """Return the text if it fits, else its head and tail with a note between them. `where` says where the whole is.

    `by_line`: the note also gives the line numbers, for a file that tools can read by line.
    """
    if len(text) <= max(room, SMALLEST) // 4:  # no character has more than four bytes
        return text
    data = text.encode()
    if len(data) <= max(room, SMALLEST):
        return text
    if room < SMALLEST:
        return f"[None of its {human_size(len(data))} are shown: earlier files have taken the room. {where}]"
    start, end = _end_of_head(data, room - room // 4), _start_of_tail(data, room // 4)
    note = f"{human_size(end - start)} of {human_size(len(data))} left out here"
    if by_line and (lines := _lines(data, start, end)):
        note += f", {lines}"
    head, tail = data[:start].decode(errors="ignore"), data[end:].decode(errors="ignore")
    return f"{head.removesuffix(NEWLINE)}{NEWLINE}[{note}. {where}]{NEWLINE}{tail}"


def _end_of_head(data: bytes, size: int) -> int:
    """Return where the head ends: after a line, if a line ends nearby."""
    return data.rfind(b"\n", size // 2, size) + 1 or size


def _start_of_tail(data: bytes, size: int) -> int:
    """Return where the tail starts: with a line, if a line starts nearby."""
    start = len(data) - size
    return data.find(b"\n", start - 1, start + size // 2) + 1 or start


def _lines(data: bytes, start: int, end: int) -> str:
    """Describe the lines between two offsets. Return "" if these are not at the start of lines."""
    if not (data.startswith(b"\n", start - 1) and data.startswith(b"\n", end - 1)):
        return ""
    first = data.count(b"\n", 0, start) + 1
    last = data.count(b"\n", 0, end)
    total = data.count(b"\n") + (not data.endswith(b"\n"))
    return f"from line {first:,} to line {last:,} of {total:,}"
