"""Two tools in place of very many: one finds tools by words, the other calls one.

The pair stays the same whatever the servers offer, so that the prompt cache of a conversation survives.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from outrider.errors import ValidationError
from outrider.prompts import prompt
from outrider.text import counted
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, make_tool

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_NAME_WEIGHT, _TEXT_WEIGHT, _PARAMETER_WEIGHT = 4.0, 1.0, 0.5
_PREFIX_SHARE, _SYNONYM_SHARE = 0.5, 0.4
_SHORTEST_PREFIX = 3
_MOST_TEXT = 1_000  # characters of a description that count: a long one must not hide the others
_SATURATION, _LENGTH_SHARE = 1.2, 0.5

_STOP_TEXT = """a an and are as at be by can for from have how i in into is it mcp me my of on or please that the this
    to tool us want we what which with you your"""
_STOP_WORDS = frozenset(_STOP_TEXT.split())
_SYNONYMS = (
    "create add new make insert open",
    "delete remove erase drop",
    "update edit modify change set",
    "get read fetch show view retrieve load",
    "list enumerate all",
    "search find query lookup",
    "send post write publish",
    "run execute start invoke",
    "picture image photo screenshot",
    "mail email message",
    "folder directory",
    "repo repository",
    "pr pull",
    "ticket issue bug",
    "doc document page",
    "calendar event meeting appointment",
    "database db table sql",
    "user person member account",
)


def words_of(text: str) -> list[str]:
    """Return the words of a text or a name, in lower case and without common endings.

    >>> words_of("listPullRequests for HTTPServer_v2")
    ['list', 'pull', 'request', 'http', 'server', 'v', '2']
    """
    found = (_stem(word.lower()) for word in _WORDS.findall(text))
    return [word for word in found if word not in _STOP_WORDS]


def _stem(word: str) -> str:
    for ending, least in (("ies", 5), ("ing", 6), ("ed", 5), ("es", 6), ("s", 4)):
        if word.endswith(ending) and len(word) >= least and not word.endswith("ss"):
            stem = word[: -len(ending)]
            return f"{stem}y" if ending == "ies" else stem.rstrip("e")
    return word.rstrip("e") if len(word) > 3 else word


_GROUPS: dict[str, set[str]] = defaultdict(set)
for _line in _SYNONYMS:
    _group = {_stem(word) for word in _line.split()}
    for _word in _group:
        _GROUPS[_word] |= _group


class ToolIndex:
    """An index over a list of tools. Building it for 1,000 tools takes tens of milliseconds."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tuple(tools)
        self._by_name = {tool.name: tool for tool in self.tools}
        self._weights: dict[str, dict[int, float]] = defaultdict(dict)
        """For each word, the tools that have it and how much it counts there."""
        lengths = [self._add(number, tool) for number, tool in enumerate(self.tools)]
        average = sum(lengths) / len(lengths) if lengths else 1.0
        self._norms = [_SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length / average) for length in lengths]
        self._vocabulary = sorted(self._weights)

    def get(self, name: str) -> Tool | None:
        return self._by_name.get(name)

    def search(self, query: str, limit: int) -> list[Tool]:
        """Return the best matches, best first. Exact names in the query come first."""
        named = [self._by_name[name] for name in dict.fromkeys(re.split(r"[\s,;:]+", query)) if name in self._by_name]
        query_words = list(dict.fromkeys(words_of(query)))
        scores: dict[int, float] = defaultdict(float)
        hits: Counter[int] = Counter()
        for word in query_words:
            for number, score in self._matches(word).items():
                scores[number] += score
                hits[number] += 1
        found = sorted(scores, key=lambda number: (-scores[number] * hits[number], self.tools[number].name))
        ranked = [*named, *(self.tools[number] for number in found if self.tools[number] not in named)]
        return ranked[:limit]

    def _matches(self, word: str) -> dict[int, float]:
        """Return the tools that match one word of a query, each with its best match."""
        best: dict[int, float] = {}
        for known, share in self._related(word):
            holders = self._weights[known]
            rarity = math.log(1 + (len(self.tools) - len(holders) + 0.5) / (len(holders) + 0.5))
            for number, weight in holders.items():
                score = share * rarity * weight * (_SATURATION + 1) / (weight + self._norms[number])
                best[number] = max(best.get(number, 0.0), score)
        return best

    def _related(self, word: str) -> Iterator[tuple[str, float]]:
        """Yield known words: the word itself, words that begin with it, synonyms; each with its share."""
        if word in self._weights:
            yield word, 1.0
        for synonym in _GROUPS.get(word, ()):
            if synonym != word and synonym in self._weights:
                yield synonym, _SYNONYM_SHARE
        if len(word) >= _SHORTEST_PREFIX:
            start = bisect_left(self._vocabulary, word)
            for known in self._vocabulary[start : start + 50]:
                if not known.startswith(word):
                    break
                if known != word:
                    yield known, _PREFIX_SHARE

    def _add(self, number: int, tool: Tool) -> float:
        length = 0.0
        for text, weight in _fields(tool):
            for word in words_of(text):
                holders = self._weights[word]
                holders[number] = holders.get(number, 0.0) + weight
                length += weight
        return length


def _fields(tool: Tool) -> Iterable[tuple[str, float]]:
    yield tool.name, _NAME_WEIGHT
    yield tool.description[:_MOST_TEXT], _TEXT_WEIGHT
    properties: Any = tool.parameters.get("properties")
    if isinstance(properties, dict):
        for name, schema in list(properties.items())[:30]:
            yield name, _PARAMETER_WEIGHT
            if isinstance(schema, dict) and isinstance(text := schema.get("description"), str):
                yield text[:200], _PARAMETER_WEIGHT / 2


SEARCH = "search_tools"
CALL = "call_tool"
FOUND_AT_MOST = 20
_FOUND_BY_DEFAULT = 5
_RESULT_CHARACTERS = 20_000
_LONGEST_DESCRIPTION = 600


class DeferredTools:
    """The pair of tools over a list of others. `current` returns the list as it is now."""

    def __init__(self, current: Callable[[], Sequence[Tool]]) -> None:
        self._current = current
        self._index = ToolIndex(())
        self.tools: tuple[Tool, Tool] = (
            make_tool(self._search, name=SEARCH, description=prompt("search_tools_tool"), effect="read", built_in=True),
            make_tool(
                self._call, name=CALL, description=prompt("call_tool_tool"), prepare=_decoded_arguments, built_in=True
            ),
        )

    def resolve(self, arguments: dict[str, Any]) -> tuple[Tool, dict[str, Any]] | None:
        """Return the tool and arguments that a call of `call_tool` stands for, for a person to judge; None if none."""
        given = _decoded_arguments(arguments)
        name, inner = given.get("name"), given.get("arguments", {})
        tool = self.index().get(name) if isinstance(name, str) else None
        return (tool, inner) if tool and isinstance(inner, dict) else None

    def index(self) -> ToolIndex:
        current = tuple(self._current())
        if current != self._index.tools:
            self._index = ToolIndex(current)
        return self._index

    def _search(self, query: str, limit: int = _FOUND_BY_DEFAULT) -> ToolResult:
        index = self.index()
        found = index.search(query, max(1, min(limit, FOUND_AT_MOST)))
        if not found:
            total = counted(len(index.tools), "tool")
            return ToolResult(f"No tool matches these words, of {total}. Try other words, or fewer.")
        return ToolResult(_listing(found))

    async def _call(self, name: str, context: ToolContext[Any], arguments: dict[str, Any] | None = None) -> ToolResult:
        tool = self.index().get(name)
        if tool is None:
            near = ", ".join(each.name for each in self.index().search(name, 3))
            hint = f" Did you mean {near}?" if near else f" Find one with {SEARCH}."
            return ToolResult(f"There is no tool named {name!r}.{hint}", is_error=True)
        try:
            return await tool.invoke(arguments or {}, context)
        except ValidationError as error:
            faults = "\n".join(f"- {violation}" for violation in error.violations)
            return ToolResult(
                f"The arguments of {name} are not valid, so it was not run:\n{faults}\n\n{_listing([tool])}",
                is_error=True,
            )


def _decoded_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with inner ones that a model wrote as a string of JSON decoded."""
    inner = arguments.get("arguments")
    if isinstance(inner, str):
        with suppress(msgspec.DecodeError, RecursionError):
            return {**arguments, "arguments": msgspec.json.decode(inner or "{}")}
    return arguments


def _listing(tools: Sequence[Tool]) -> str:
    """Return the descriptions and schemas of tools, as many as fit."""
    parts: list[str] = []
    for number, tool in enumerate(tools):
        description = tool.description
        if len(description) > _LONGEST_DESCRIPTION:
            description = f"{description[:_LONGEST_DESCRIPTION]}…"
        part = f"## {tool.name}\n{description}\nArguments: {msgspec.json.encode(tool.parameters).decode()}"
        if parts and sum(map(len, parts)) + len(part) > _RESULT_CHARACTERS:
            rest = ", ".join(each.name for each in tools[number:])
            parts.append(f"Not shown, because their schemas are long: {rest}")
            break
        parts.append(part)
    return "\n\n".join(parts)
