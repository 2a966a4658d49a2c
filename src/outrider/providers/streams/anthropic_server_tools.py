"""The results and citations of Anthropic's server tools, as text and sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from outrider.conversation.messages import Citation, Message, ProviderState, ServerToolResultBlock
from outrider.providers.rendering.server_tools import result_text, source_lines, text_field


def citation_of(raw: Any) -> Citation | None:
    """Return the source of a citation, which is a page or a document; None if it is neither."""
    if not isinstance(raw, dict):
        return None
    url = text_field(raw, "url") or text_field(raw, "source")
    title = text_field(raw, "title") or text_field(raw, "document_title")
    return Citation(url, title, text_field(raw, "cited_text")) if url or title else None


def tools_found(messages: Iterable[Message], is_own: Callable[[ProviderState | None], bool]) -> set[str]:
    """Return the tools that searches of this model have found. The API refuses a request that does not have them."""
    blocks = (block for message in messages for block in message.content if isinstance(block, ServerToolResultBlock))
    states = (block.state.data for block in blocks if block.state and is_own(block.state))
    kept = (data.get("block") for data in states if isinstance(data, dict))
    return {name for each in kept if isinstance(each, dict) for name in _references(each.get("content"))}


def _references(content: Any) -> list[str]:
    listed = content.get("tool_references") if isinstance(content, dict) else None
    return [name for each in listed if (name := text_field(each, "tool_name"))] if isinstance(listed, list) else []


def is_error_result(content: Any) -> bool:
    if not isinstance(content, dict):
        return False
    return "error_code" in content or content.get("return_code") not in (None, 0)


def result_text_of(content: Any) -> str:
    """Return the content of a result as text: the pages that were found, the text of a page, the output of code."""
    return result_text("\n".join(filter(None, _lines(content))))


def _lines(content: Any) -> Iterator[str]:
    if isinstance(content, list):
        yield source_lines(Citation(text_field(each, "url"), text_field(each, "title")) for each in content)
        return
    if not isinstance(content, dict):
        return
    if code := text_field(content, "error_code"):
        yield f"error: {code}"
    yield from (f"- {name}" for name in _references(content))
    if url := text_field(content, "url"):
        yield url
    document = content.get("content")
    if isinstance(document, dict):
        yield text_field(document, "title")
        source = document.get("source")
        yield text_field(source, "data") if text_field(source, "type") == "text" else "[a file]"
    yield from (text_field(content, name) for name in ("stdout", "stderr"))
    for each in document if isinstance(document, list) else ():
        if file := text_field(each, "file_id"):
            yield f"[file {file}]"
    if (status := content.get("return_code")) not in (None, 0):
        yield f"exit code {status}"
