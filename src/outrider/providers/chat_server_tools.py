"""Server tools and citations of Chat Completions. OpenRouter has a web search; other servers only name sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from outrider.conversation.messages import Citation
from outrider.providers.server_tools import check_options, text_field
from outrider.tools.server_tool import ServerTool

_OPTIONS = {"allowed_domains": "allowed_domains", "blocked_domains": "excluded_domains"}
"""Our names of the options that OpenRouter takes, and its names."""


def openrouter_tools(tools: Iterable[ServerTool]) -> Iterator[dict[str, Any]]:
    """Yield tools as OpenRouter declares them: the model decides when to use them."""
    for tool in tools:
        check_options(tool, _OPTIONS, "OpenRouter")
        given = {_OPTIONS[name]: getattr(tool, name) for name in tool.given} | dict(tool.options)
        yield {"type": f"openrouter:{tool.name}"} | ({"parameters": given} if given else {})


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
