"""Server tools and citations of Chat Completions. OpenRouter has a web search; Groq runs tools; others name sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from outrider.conversation.messages import Block, Citation, ProviderState, ServerToolResultBlock, ServerToolUseBlock
from outrider.providers.deltas import Delta, ServerToolFinished, ServerToolStarted
from outrider.providers.rendering.server_tools import check_options, result_text, text_field
from outrider.providers.streams.stream import finished_call
from outrider.tools.server_tool import ServerTool

_OPTIONS = {"allowed_domains": "allowed_domains", "blocked_domains": "excluded_domains"}
"""Our names of the options that OpenRouter takes, and its names."""

_EXECUTED = {"search": "web_search", "visit": "web_fetch", "python": "code_execution"}
"""Groq's names of the tools that it runs, and ours."""


def openrouter_tools(tools: Iterable[ServerTool]) -> Iterator[dict[str, Any]]:
    """Yield tools as OpenRouter declares them: the model decides when to use them."""
    for tool in tools:
        check_options(tool, _OPTIONS, "OpenRouter")
        given = {_OPTIONS[name]: getattr(tool, name) for name in tool.given} | dict(tool.options)
        yield {"type": f"openrouter:{tool.name}"} | ({"parameters": given} if given else {})


class ExecutedTools:
    """The tools that Groq has run, put together from the chunks that tell of them: first the call, then its output."""

    def __init__(self) -> None:
        self._calls: dict[int, dict[str, Any]] = {}
        self._shown: set[int] = set()
        self._ended: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, told: Any) -> Iterator[Delta]:
        """Read the field of a chunk. Yield the beginning and the end of each call once."""
        for place, each in enumerate(told) if isinstance(told, list) else ():
            if isinstance(each, dict):
                index = each["index"] if isinstance(each.get("index"), int) else place
                fields = {name: value for name, value in each.items() if value is not None}
                self._calls[index] = self._calls.get(index, {}) | fields
                yield from self._show(index)

    def end(self) -> Iterator[Delta]:
        """Yield what the chunks have not shown: calls without arguments, and results without a text."""
        for index in sorted(self._calls):
            yield from self._show(index, is_over=True)

    def _show(self, index: int, *, is_over: bool = False) -> Iterator[Delta]:
        """Yield the beginning of a call when its arguments are known, and its end when it has a result."""
        use, result = self._pair(index, None)
        is_over = is_over or bool(result.text)
        if index not in self._shown and (use.input or is_over):
            self._shown.add(index)
            yield ServerToolStarted(use.id, use.name, use.input)
        if is_over and index not in self._ended:
            self._ended.add(index)
            yield ServerToolFinished(use.id, use.name, result.text)

    def blocks(self, state: ProviderState) -> list[Block]:
        """Return the calls and their results. The server does not take them back, so the state has nothing."""
        return [block for index in sorted(self._calls) for block in self._pair(index, state)]

    def _pair(self, index: int, state: ProviderState | None) -> tuple[ServerToolUseBlock, ServerToolResultBlock]:
        call, call_id = self._calls[index], f"server_{index + 1}"
        kind = text_field(call, "type") or text_field(call, "name")
        given = call.get("arguments")
        called_with = given if isinstance(given, dict) else finished_call("", "", text_field(call, "arguments")).input
        use = ServerToolUseBlock(call_id, _EXECUTED.get(kind, kind or "tool"), called_with, state)
        found = call.get("output") or call.get("search_results") or call.get("code_results")
        text = found if isinstance(found, str) or not found else msgspec.json.encode(found).decode()
        return use, ServerToolResultBlock(call_id, result_text(text or ""), False, state)


def citations_of(annotations: Iterable[Any], text: str) -> tuple[Citation, ...]:
    """Return the sources in the annotations of a text, each place once."""
    found = (_citation(each.get("url_citation"), text) for each in annotations if isinstance(each, dict))
    return tuple(dict.fromkeys(filter(None, found)))


def _citation(raw: Any, text: str) -> Citation | None:
    url = text_field(raw, "url")
    if not url:
        return None
    start, end = raw.get("start_index"), raw.get("end_index")
    is_place = isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(text)
    place = {"start": start, "end": end} if is_place else {}
    return Citation(url, text_field(raw, "title"), text_field(raw, "content"), **place)
