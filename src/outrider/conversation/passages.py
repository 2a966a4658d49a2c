"""The searchable parts of a conversation: what was said, each call, and each result; and what is searched for."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from outrider.conversation.encodings import decoded
from outrider.conversation.messages import (
    AttachmentBlock,
    Block,
    Message,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.errors import OutriderError
from outrider.text import clean

Kind: TypeAlias = Literal["user", "assistant", "call", "result"]
T = TypeVar("T", bound=Any)

MAX_WORDS = 16
"""Words of a query that count; the others are left out."""
MAX_CHARACTERS = 200
"""Characters of one word that count."""
AROUND = 160
"""Characters before and after the match in a snippet."""

_WORDS = re.compile(r'"([^"]+)"|([^\s"]+)')


class Passage(msgspec.Struct, frozen=True):
    """One part of a conversation, with the reference by which it can be read again."""

    reference: str
    """`#N` for the words of message N, counted from 1; the id of a call for the call and for its result."""
    message: int
    """The number of the message that it belongs to."""
    kind: Kind
    tool: str
    """The name of the tool, for a call and a result."""
    text: str
    whole: AttachmentBlock | None = None
    """The stored file with the whole text, if the text of a result is only a part of it."""


class Found(msgspec.Struct, frozen=True):
    """A passage of a session that a search has found."""

    session: str
    reference: str
    """`#N` for message N, or the id of a call. `Log.recall` reads it."""
    message: int
    kind: Kind
    tool: str
    """The tool, for a call and a result."""
    time: float
    snippet: str
    """The surroundings of the match in one line."""
    seq: int = 0
    """The entry of the log that has the passage."""


class PassageReader:
    """Makes passages of a conversation that is read in order: messages, or results one at a time as in a log.

    `count` messages came before, and `calls` are the ids and tools of those that had no result yet.
    """

    def __init__(self, count: int = 0, calls: Mapping[str, str] | None = None) -> None:
        self.count = count
        """The number of messages so far."""
        self.calls = dict(calls or {})
        """The tools of the calls that have no result yet, by call id."""

    def message(self, message: Message) -> Iterator[Passage]:
        """Add a message; yield its passages."""
        self.count += 1
        number, kind = self.count, message.role
        if (said := clean(_said(message.content))) or not _has_calls_or_results(message):
            yield Passage(f"#{number}", number, kind, "", said)
        for result in message.tool_results:
            yield _result(result, number, self.calls.get(result.tool_use_id, ""))
        self.calls = {call.id: call.name for call in message.tool_calls} if message.role == "assistant" else {}
        for call in message.tool_calls:
            yield Passage(clean(call.id), number, "call", clean(call.name), f"{clean(call.name)} {_arguments(call)}")

    def result(self, result: ToolResultBlock) -> Iterator[Passage]:
        """Add the result of a call; yield its passage. With the last one, the message with all results is complete."""
        if (tool := self.calls.pop(result.tool_use_id, None)) is not None:
            yield _result(result, self.count + 1, tool)
            self.count += not self.calls


def passages_of(messages: Iterable[Message]) -> Iterator[Passage]:
    """Yield the passages of a whole conversation."""
    reader = PassageReader()
    for message in messages:
        yield from reader.message(message)


def _result(result: ToolResultBlock, number: int, tool: str) -> Passage:
    return Passage(clean(result.tool_use_id), number, "result", clean(tool), clean(_said(result.content)), result.whole)


def _said(content: Iterable[Block]) -> str:
    """Return the words of blocks, and the names of their files. Reasoning is left out."""
    parts: list[str] = []
    for block in content:
        match block:
            case TextBlock(text=text) | ServerToolResultBlock(text=text):
                parts.append(text)
            case AttachmentBlock(description=description):
                parts.append(f"[{block.label}]{f' {description}' if description else ''}")
            case ServerToolUseBlock(name=name):
                parts.append(f"{name} {_arguments(block)}")
    return "\n".join(part for part in parts if part.strip())


def _arguments(call: ToolUseBlock | ServerToolUseBlock) -> str:
    if isinstance(call, ToolUseBlock) and call.invalid_input is not None:
        return clean(call.invalid_input)
    try:
        return msgspec.json.encode(call.input, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError):  # lone surrogates, or keys of another type
        return clean(repr(call.input))


def _has_calls_or_results(message: Message) -> bool:
    return any(isinstance(block, ToolUseBlock | ToolResultBlock) for block in message.content)


def only_call(messages: Iterable[Message], reference: str) -> list[Message]:
    """Return the calls with an id and their results, each as a message of its own, without what is beside them."""
    found: list[Message] = []
    for message in messages:
        for block in message.content:
            match block:
                case ToolUseBlock(id=name) | ToolResultBlock(tool_use_id=name) if clean(name) == reference:
                    found.append(Message(message.role, (block,)))
    return found


def whole_text(read: Callable[[AttachmentBlock], bytes], whole: AttachmentBlock | None) -> str:
    """Return the text of the file that holds a whole result; empty if there is none, or if it is not text."""
    if whole is None or not whole.mime_type.startswith(("text/", "application/json")):
        return ""
    try:
        return decoded(read(whole))
    except OutriderError:  # the file was removed, or the log cannot be read
        return ""


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
