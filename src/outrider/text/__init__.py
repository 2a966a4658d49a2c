"""Text: surrogates that cannot be encoded, long texts, and sizes, counts and costs for people.

Text from outside (models, tools, servers, projects) is shown with `text.visible`, which has the one table of hidden
characters. The output of commands goes through `text.terminal` first.
"""

from __future__ import annotations

from typing import Any

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def clean(text: str) -> str:
    """Replace each lone surrogate, so that the text can be encoded. Return the same object if there is none.

    >>> clean("caf\\u00e9 \\ud800!") == "caf\\u00e9 \\ufffd!"
    True
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # A pair of surrogates becomes its character; lone ones are replaced.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, split at white space."""
    return frozenset(text.split())


def shell_words(text: str) -> list[str]:
    """Return the words of a text as a shell splits it; at white space if a quote does not close, as an apostrophe."""
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def clean_value(value: Any) -> Any:
    """Clean every string of a JSON value, keys included. Return the same object if all are clean.

    Raise ValueError if the value is nested too deeply.
    """
    import msgspec  # texts that a person sees before anything is loaded do not need it

    try:
        msgspec.json.encode(value)  # the quickest way to check every string
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
            while name in cleaned:  # two keys that differ only in surrogates: keep both values
                name += REPLACEMENT
            cleaned[name] = _cleaned(item)
        return cleaned
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value


def shorten(text: str, limit: int, note: str) -> str:
    """Return the head and tail of a long text with a note between them. Text within the limit is unchanged.

    The limit applies to the kept text; the note comes on top. The note is a format string that may use `{left_out}`
    and `{total}`, both in characters.

    >>> shorten("abcdefghij", 4, "[{left_out} of {total} left out]")
    'abc\\n[6 of 10 left out]\\nj'
    """
    total = len(text)
    if total <= limit:
        return text
    head = limit - limit // 4  # the beginning usually says more than the end
    tail = limit - head
    ending = text[total - tail :] if tail else ""
    middle = note.format(left_out=f"{total - limit:,}", total=f"{total:,}")
    return f"{text[:head]}\n{middle}\n{ending}"


def human_size(size: int) -> str:
    """Format a number of bytes for people.

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
    """Format a number with its noun in the singular or plural: "1 file", "1,200 files"."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def ago(seconds: float) -> str:
    """Format how long ago something was.

    >>> ago(5), ago(150), ago(7_200), ago(90_000), ago(300_000)
    ('just now', '2 min ago', '2 h ago', '1 day ago', '3 days ago')
    """
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    return f"{seconds // 3600:.0f} h ago" if seconds < 86_400 else f"{counted(int(seconds // 86_400), 'day')} ago"


def thousands(number: int) -> str:
    """Format a large number for people, in thousands or millions.

    >>> thousands(9_812), thousands(171_400), thousands(1_048_576)
    ('9,812', '171k', '1.05M')
    """
    if number >= 1_000_000:
        return f"{number / 1_000_000:.3g}M"
    return f"{number / 1000:.0f}k" if number >= 10_000 else f"{number:,}"


def dollars(cost: float | None) -> str:
    """Format a cost for people; empty if it is unknown.

    >>> dollars(0.0123), dollars(12.3), dollars(None)
    ('$0.0123', '$12.30', '')
    """
    return "" if cost is None else f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"
