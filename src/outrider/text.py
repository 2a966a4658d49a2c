"""Text that can be sent: no lone surrogates, no more than a limit, cut between characters."""

from __future__ import annotations

from typing import Any

import msgspec

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def clean(text: str) -> str:
    """The text with each lone surrogate replaced, so that it can be encoded; usually the same object.

    >>> clean("caf\\u00e9 \\ud800!") == "caf\\u00e9 \\ufffd!"
    True
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # A pair of surrogates that stands for one character becomes that character; the rest is replaced.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_value(value: Any) -> Any:
    """A JSON value in which every string, keys included, has been cleaned; the same object if all were clean.

    Raises ValueError for a value that is nested too deeply to be looked through.
    """
    try:
        msgspec.json.encode(value)  # the quickest way to look at every string
    except (TypeError, ValueError, RecursionError):
        try:
            return _cleaned(value)
        except RecursionError:
            raise ValueError("the value is nested too deeply") from None
    return value


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        cleaned: dict[Any, Any] = {}
        for key, item in value.items():
            name = _cleaned(key)
            while name in cleaned:  # two keys that differ only in their surrogates: keep both values
                name += REPLACEMENT
            cleaned[name] = _cleaned(item)
        return cleaned
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value


def shorten(text: str, limit: int, note: str) -> str:
    """Head and tail of a text over the limit with a note between them; a text within it unchanged.

    The limit is on what is kept of the text; the note comes on top. It is a format string that may name
    `{left_out}` and `{total}`, both in characters.

    >>> shorten("abcdefghij", 4, "[{left_out} of {total} left out]")
    'abc\\n[6 of 10 left out]\\nj'
    """
    total = len(text)
    if total <= limit:
        return text
    head = limit - limit // 4  # the beginning usually says more than the end
    tail = limit - head
    ending = text[total - tail :] if tail else ""
    said = note.format(left_out=f"{total - limit:,}", total=f"{total:,}")
    return f"{text[:head]}\n{said}\n{ending}"


def human_size(size: int) -> str:
    """A number of bytes as a person writes it.

    >>> human_size(999), human_size(20_971_520)
    ('999 bytes', '20.0 MiB')
    """
    if size < 1024:
        return f"{size} byte{'' if size == 1 else 's'}"
    for unit, factor in (("KiB", 1024), ("MiB", 1024**2)):
        if round(size / factor, 1) < 1024:
            return f"{size / factor:.1f} {unit}"
    return f"{size / 1024**3:.1f} GiB"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, in the plural where that is due: "1 file", "1,200 files"."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def dollars(cost: float | None) -> str:
    """A cost for people; empty where it is not known.

    >>> dollars(0.0123), dollars(12.3), dollars(None)
    ('$0.0123', '$12.30', '')
    """
    return "" if cost is None else f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"
