"""What a person or a model searches for in conversations. Any text is a valid query."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence, Set
from typing import Any, TypeVar

from outrider.text import clean

T = TypeVar("T", bound=Any)

MAX_WORDS = 16
"""Words of a query that count; the others are left out."""
MAX_CHARACTERS = 200
"""Characters of one word that count."""
AROUND = 160
"""Characters before and after the match in a snippet."""

_WORDS = re.compile(r'"([^"]+)"|([^\s"]+)')


class SearchQuery:
    """A query: words, and phrases in double quotes. Letters of either case match each other.

    A passage is found if it contains every word, anywhere; those with all words whole come first. If no passage
    contains all, those with the rarest of the words are found.

    >>> SearchQuery('Port "main database"').words
    ('port', 'main database')
    """

    def __init__(self, query: str) -> None:
        found = (fold(phrase or word).strip() for phrase, word in _WORDS.findall(query[: MAX_WORDS * MAX_CHARACTERS]))
        self.words: tuple[str, ...] = tuple(dict.fromkeys(word[:MAX_CHARACTERS] for word in found if word))[:MAX_WORDS]
        self._whole = [re.compile(rf"(?<!\w){re.escape(word)}(?!\w)") for word in self.words]

    def has_whole(self, folded: str) -> bool:
        """Return whether all words occur whole, and not only as parts of longer words: "door 1", but not "door 12"."""
        return all(
            word in folded and pattern.search(folded) for word, pattern in zip(self.words, self._whole, strict=True)
        )

    def snippet(self, text: str) -> str:
        """Return the surroundings of the first match of the longest word that the text contains, in one line."""
        folded = fold(text)
        for word, whole in sorted(zip(self.words, self._whole, strict=True), key=lambda each: -len(each[0])):
            if (at := folded.find(word)) >= 0:
                found = whole.search(folded, at)
                start = found.start() if found else at
                return _excerpt(text, start, start + len(word))
        return _excerpt(text, 0, 0)


def fold(text: str) -> str:
    """Return the text for comparing: lower case, and of the same length, so that positions stay valid.

    >>> fold("Straße İ\\0"), len(fold("İ"))
    ('straße İ ', 1)
    """
    text = clean(text).replace("\0", " ")
    lower = text.lower()
    # No letter gets shorter: the same length means that each letter has kept its position.
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def best(
    matches: Sequence[Set[T]], total: int, limit: int, is_preferred: Callable[[T], bool] = lambda _: False
) -> list[T]:
    """Return what is found, given what each word matches: what is preferred first, then the highest, the newest.

    `total` is the number of passages that were searched.

    >>> best([{1, 2, 3}, {2, 3}], 9, 5), best([{1, 2, 3}, {8}], 9, 2)
    ([3, 2], [8, 3])
    """
    if everywhere := set(matches[0]).intersection(*matches[1:]) if matches else set():
        return sorted(everywhere, key=lambda each: (is_preferred(each), each), reverse=True)[:limit]
    scores: dict[T, float] = {}
    for found in matches:
        weight = math.log((total + 1) / len(found)) if found else 0.0
        for each in found:
            scores[each] = scores.get(each, 0.0) + weight
    return sorted(sorted(scores, reverse=True), key=lambda each: -scores[each])[:limit]


def _excerpt(text: str, start: int, end: int) -> str:
    first, last = max(0, start - AROUND), min(len(text), end + AROUND)
    words = " ".join(text[first:last].replace("\0", " ").split())
    return f"{'…' if first else ''}{words}{'…' if last < len(text) else ''}"
