"""Tools that an API runs itself: whether a model has them, and their blocks as text for another model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from outrider.conversation.messages import (
    Block,
    Citation,
    Message,
    ProviderState,
    RawBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
)
from outrider.errors import RequestRefusedError
from outrider.providers.base import Provider, Request
from outrider.providers.catalogue.capabilities import Capabilities
from outrider.text import shorten
from outrider.tools.server_tool import ServerTool

LONGEST_RESULT = 20_000
"""Characters of a result that are kept as text, for people and other models. The API gets back the whole."""
SEARCH = "tool_search"  # the name under which people and other models see an API's search for deferred tools
_LEFT_OUT = "[{left_out} of {total} characters left out]"


def searches_tools(provider: Provider) -> bool:
    return bool(getattr(provider, "searches_tools", False))


def check_server_tools(capabilities: Capabilities, request: Request, model: str) -> None:
    """Raise RequestRefusedError for a server tool that a model lacks: an answer must not only seem to use it."""
    for tool in request.server_tools:
        if tool.name not in capabilities.server_tools:
            known = ", ".join(capabilities.server_tools) or "none"
            raise RequestRefusedError(
                f"{model} has no {tool.name} (server tools that it has: {known}); leave it out of the tools, or choose "
                "another model"
            )
        if request.tools and not capabilities.server_tools_with_functions:
            raise RequestRefusedError(
                f"{model} does not take {tool.name} together with other tools; leave out the one or the others, or "
                "choose another model"
            )


def check_options(tool: ServerTool, taken: Collection[str], label: str) -> None:
    """Raise RequestRefusedError for an option that an API does not have: a limit must not be dropped silently."""
    for name in tool.given:
        if name not in taken:
            raise RequestRefusedError(f"{label} has no {name} for {tool.name}; leave it out")


def described(
    tools: Iterable[ServerTool], label: str, describe: Mapping[str, tuple[dict[str, Any], Collection[str]]]
) -> list[dict[str, Any]]:
    """Return tools as an API declares them. `describe` has the fields of each, and the options that it takes as is."""
    found = []
    for tool in tools:
        fields, taken = describe[tool.name]
        check_options(tool, taken, label)
        given = {name: getattr(tool, name) for name in tool.given}
        found.append({**fields, **given, **tool.options})
    return found


def portable(message: Message, is_own: Callable[[ProviderState | None], bool]) -> Message:
    """Return a message in which server tools and sources of another model are text; the same object if it has none."""
    if not any(map(_is_bound, message.content)):
        return message
    names = {block.id: block.name for block in message.content if isinstance(block, ServerToolUseBlock)}
    found = "".join(block.text for block in message.content if isinstance(block, ServerToolResultBlock))
    kept = [block for block in message.content if type(block) is not RawBlock or is_own(block.state)]
    blocks = [block if is_own(getattr(block, "state", None)) else _portable(block, names, found) for block in kept]
    return Message(message.role, tuple(blocks))


def _is_bound(block: Block) -> bool:
    """Return whether a block has something that only the API of its model understands."""
    if type(block) is TextBlock:
        return bool(block.citations)
    return type(block) in (ServerToolUseBlock, ServerToolResultBlock, RawBlock)


def _portable(block: Block, names: Mapping[str, str], found: str) -> Block:
    if isinstance(block, ServerToolUseBlock | ServerToolResultBlock):
        return TextBlock(as_text(block, names))
    cited = block.citations if isinstance(block, TextBlock) else ()
    # The sources that no result in the message names, each address once.
    sources = {each.url: each for each in cited if each.url and each.url not in found}
    if isinstance(block, TextBlock) and sources:
        return TextBlock(f"{block.text}\n[sources: {', '.join(map(markdown_link, sources.values()))}]")
    return block


def as_text(block: ServerToolUseBlock | ServerToolResultBlock, names: Mapping[str, str]) -> str:
    if isinstance(block, ServerToolUseBlock):
        return f"\n[{block.name} was called with {msgspec.json.encode(block.input).decode()}]\n"
    name = names.get(block.tool_use_id, "a tool")
    outcome = "failed" if block.is_error else "returned"
    return f"\n[{name} {outcome}: {block.text.strip() or 'nothing'}]\n"


def result_text(text: str) -> str:
    return shorten(text, LONGEST_RESULT, _LEFT_OUT)


def source_lines(sources: Iterable[Citation]) -> str:
    return "\n".join(f"- {markdown_link(each)}" for each in sources)


def markdown_link(source: Citation) -> str:
    """Return a source as a Markdown link, or its title if it has no address.

    >>> markdown_link(Citation("https://a.test/x(1)", "A [new] page"))
    '[A \\\\[new\\\\] page](<https://a.test/x(1)>)'
    """
    label = source.label.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    if not source.url:
        return label
    address = source.url.replace("<", "%3C").replace(">", "%3E").replace("\n", "").replace(" ", "%20")
    return f"[{label}](<{address}>)" if set(address) & set("()") else f"[{label}]({address})"


def text_field(value: Any, name: str) -> str:
    """Return a text of an untrusted object, or ""."""
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else ""
