"""The calls, results and citations of Gemini's server tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from outrider.conversation.messages import Block, Citation, TextBlock
from outrider.providers.rendering.server_tools import result_text, source_lines, text_field

_NAMES = {"GOOGLE_SEARCH_WEB": "web_search", "URL_CONTEXT": "web_fetch"}


def server_call(code: dict[str, Any] | None, call: dict[str, Any] | None) -> tuple[str, str, dict[str, Any]]:
    """Return the name, the id and the arguments of a call: a part with code, or any other tool."""
    if code is not None:
        return "code_execution", text_field(code, "id"), {"code": text_field(code, "code")}
    kind, given = text_field(call, "toolType"), (call or {}).get("args")
    return _NAMES.get(kind, kind.lower()), text_field(call, "id"), given if isinstance(given, dict) else {}


def server_result(ran: dict[str, Any] | None, response: dict[str, Any] | None) -> tuple[str, str, bool]:
    """Return the id of the call, the text and whether it failed."""
    if ran is not None:
        failed = text_field(ran, "outcome") not in ("", "OUTCOME_OK")
        return text_field(ran, "id"), result_text(text_field(ran, "output")), failed
    found = (response or {}).get("response")
    text = msgspec.json.encode(found).decode() if found else ""
    return text_field(response, "id"), result_text(text), False


def grounding_text(grounding: dict[str, Any]) -> str:
    return source_lines(filter(None, _sources(grounding)))


def fetched(metadata: dict[str, Any]) -> dict[str, str]:
    """Return the pages that the API has read, each with its status."""
    pages = metadata.get("urlMetadata")
    found = [each for each in pages if isinstance(each, dict)] if isinstance(pages, list) else []
    named = {text_field(each, "retrievedUrl"): text_field(each, "urlRetrievalStatus") for each in found}
    return {url: status.removeprefix("URL_RETRIEVAL_STATUS_") for url, status in named.items() if url}


def cited(blocks: list[Block], grounding: dict[str, Any]) -> list[Block]:
    """Return the blocks with the citations of their texts.

    The API counts bytes from the start of a part, but a streamed text comes in many parts. So a segment is looked for
    in each text and in all texts together, and its words decide.
    """
    sources, supports = _sources(grounding), grounding.get("groundingSupports")
    places = [place for place, block in enumerate(blocks) if isinstance(block, TextBlock)]
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    found: dict[int, list[Citation]] = {}
    for support in supports if isinstance(supports, list) else ():
        place = _place(support, texts)
        indices = support.get("groundingChunkIndices") if isinstance(support, dict) else None
        for index in indices if place and isinstance(indices, list) else ():
            source = sources[index] if isinstance(index, int) and 0 <= index < len(sources) else None
            if source and place:
                number, start, end = place
                found.setdefault(number, []).append(msgspec.structs.replace(source, start=start, end=end))
    result = blocks.copy()
    for number, citations in found.items():
        result[places[number]] = msgspec.structs.replace(blocks[places[number]], citations=tuple(citations))
    return result


def _sources(grounding: dict[str, Any]) -> list[Citation | None]:
    """Return a source for each chunk, or None for one without an address: supports refer to them by number."""
    chunks = grounding.get("groundingChunks")
    return [_source(each) for each in chunks] if isinstance(chunks, list) else []


def _source(chunk: Any) -> Citation | None:
    kinds = [chunk.get(name) for name in ("web", "retrievedContext", "maps")] if isinstance(chunk, dict) else []
    for kind in kinds:
        if url := text_field(kind, "uri"):
            return Citation(url, text_field(kind, "title"))
    return None


def _place(support: Any, texts: list[str]) -> tuple[int, int, int] | None:
    """Return the text that a support belongs to, and the characters that it covers there."""
    segment = support.get("segment") if isinstance(support, dict) else None
    words = text_field(segment, "text")
    for number, start, end in _by_bytes(segment, texts):
        if not words or texts[number][start:end] == words:
            return number, start, end
    for number, text in enumerate(texts):
        if words and (start := text.find(words)) >= 0:
            return number, start, start + len(words)
    return None


def _by_bytes(segment: Any, texts: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield where the byte offsets of a segment lead, in each text and in all texts together."""
    if not isinstance(segment, dict):
        return
    first, last = segment.get("startIndex") or 0, segment.get("endIndex")
    if not isinstance(first, int) or not isinstance(last, int) or not 0 <= first < last:
        return
    before = 0
    for number, text in enumerate(texts):
        data = text.encode()
        for start, end in ((first - before, last - before), (first, last)):
            if 0 <= start < end <= len(data):
                yield number, len(data[:start].decode(errors="ignore")), len(data[:end].decode(errors="ignore"))
        before += len(data)
