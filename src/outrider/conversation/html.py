"""Conversations as HTML, for notebooks. It is imported when something is shown.

All text is untrusted. It is escaped, or rendered as Markdown without raw HTML. Nothing is loaded from elsewhere:
pictures are inline, and links lead to the web or to mail when a person clicks them. There are no scripts.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from outrider.errors import AttachmentError
from outrider.text import human_size, shorten
from outrider.text.visible import safe_lines

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MOST_MESSAGES = 200
LONGEST_TEXT = 20_000
LONGEST_SUMMARY = 100
LARGEST_PICTURE = 5_000_000
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The types that every browser shows. SVG is not among them: it can refer to other files."""
MARKS = {"done": "✅", "waiting": "⏳", "error": "❌", "cancelled": "⏹"}
"""By the status of a run; others have ⚠."""

_SCHEMES = ("https://", "http://", "mailto:")
_ROLE = '<div style="margin:.6em 0;padding-left:.8em;border-left:3px solid {colour}"><b>{role}</b>{body}</div>'
_COLOURS = {"user": "#4a90d9", "assistant": "#8a6fc0"}
_PRE = '<pre style="white-space:pre-wrap;max-height:30em;overflow:auto">{}</pre>'


class ShownMessage(Protocol):
    """A message: what is shown of `Message`, which is made of blocks and shows itself with this module."""

    @property
    def role(self) -> str: ...
    @property
    def content(self) -> Sequence[Any]: ...
    @property
    def tool_calls(self) -> Sequence[Any]: ...
    @property
    def tool_results(self) -> Sequence[Any]: ...


class PictureSource(Protocol):
    """An attachment store."""

    def read(self, reference: Any, /) -> bytes: ...


def plain(text: str) -> str:
    """Return a text as HTML that shows it as it is."""
    return escape(safe_lines(text))


def preformatted(text: str) -> str:
    """Return a long text as HTML that keeps its lines."""
    return _PRE.format(plain(shorten(text, LONGEST_TEXT, "[{left_out} of {total} characters left out]")))


def folded(summary: str, body: str) -> str:
    """Return HTML that shows the summary, and the body after a click. Both are HTML already."""
    return f"<details><summary>{summary}</summary>{body}</details>"


def markdown(text: str) -> str:
    """Return a Markdown text as HTML. HTML in it is shown as text, and pictures from elsewhere are not loaded."""
    if len(text) > LONGEST_TEXT:
        return preformatted(text)
    try:
        return str(_parser().render(safe_lines(text)))
    except (RecursionError, ValueError):  # nested too deeply, or an address that cannot be parsed
        return preformatted(text)


def call_summary(name: str, input: Mapping[str, Any], mark: str = "🔧") -> str:
    """Return a call in one line."""
    arguments = json.dumps(input, ensure_ascii=False, default=repr)  # takes lone surrogates, which are cleaned below
    return f"{mark} <code>{plain(name)}</code> <code>{plain(arguments[:LONGEST_SUMMARY])}</code>"


def conversation_html(messages: Sequence[ShownMessage], store: PictureSource | None = None) -> str:
    """Return a conversation, with each result inside its call."""
    left_out = max(0, len(messages) - MOST_MESSAGES)
    shown = list(messages[left_out:])
    results = {result.tool_use_id: result for message in shown for result in message.tool_results}
    called = {call.id for message in shown for call in message.tool_calls}
    head = f"<p><i>{left_out} earlier messages</i></p>" if left_out else ""
    return head + "".join(_message(message, store, results, called) for message in shown)


def message_html(message: ShownMessage, store: PictureSource | None = None) -> str:
    """Return one message."""
    return _message(message, store, {}, set())


def _message(
    message: ShownMessage, store: PictureSource | None, results: Mapping[str, Any], called: Iterable[str]
) -> str:
    parts = [
        block._repr_html_() if hasattr(block, "_repr_html_") else _block(block, message.role, store, results)
        for block in message.content
        if not (getattr(block, "type", "") == "tool_result" and block.tool_use_id in called)
    ]
    if not parts and message.content:
        return ""  # results only, and each is shown in its call
    return _ROLE.format(colour=_COLOURS.get(message.role, "#888"), role=plain(message.role), body="".join(parts))


def _block(block: Any, role: str, store: PictureSource | None, results: Mapping[str, Any]) -> str:
    match block.type:
        case "text":
            return markdown(block.text) if role == "assistant" else preformatted(block.text)
        case "thinking":
            return folded("💭 thinking", preformatted(block.thinking)) if block.thinking else ""
        case "tool_use" | "server_tool_use":
            return _call(block, results.get(block.id), store)
        case "tool_result":
            return folded("❌ result" if block.is_error else "↩ result", _result(block, store))
        case "server_tool_result":
            return folded("❌ result" if block.is_error else "↩ result", preformatted(block.text))
        case "raw":
            return folded(f"▫ {block.kind}", preformatted(json.dumps(block.state.data, default=repr)))
    return _stored(block, store)


def _call(block: Any, result: Any | None, store: PictureSource | None) -> str:
    mark = "🔧" if result is None else "❌" if result.is_error else "✅"
    arguments = json.dumps(block.input, ensure_ascii=False, indent=2, default=repr)
    pictures = "" if result is None else "".join(_stored(each, store) for each in result.attachments)
    body = preformatted(arguments) + ("" if result is None else preformatted(result.text))
    return folded(call_summary(block.name, block.input, mark), body) + pictures


def _result(block: Any, store: PictureSource | None) -> str:
    return preformatted(block.text) + "".join(_stored(each, store) for each in block.attachments)


def _stored(block: Any, store: PictureSource | None) -> str:
    data = b""
    if store is not None and block.mime_type in PICTURES and 0 <= block.size <= LARGEST_PICTURE:
        try:
            data = store.read(block)
        except AttachmentError as error:
            return f"<p>📎 {plain(str(error))}</p>"
    return file_html(data, block.mime_type, block.label, block.description, block.size)


def file_html(data: bytes, mime_type: str, name: str, description: str, size: int) -> str:
    """Return a file: a picture inline, any other by its name, type and size."""
    caption = f"📎 {plain(name)} <small>{plain(mime_type)}, {human_size(max(size, 0))}</small> {plain(description)}"
    if data and mime_type in PICTURES and len(data) <= LARGEST_PICTURE:
        source = f"data:{mime_type};base64,{b64encode(data).decode()}"
        caption = f'<img src="{source}" alt="{plain(name)}" style="max-width:100%;max-height:30em"><br>{caption}'
    return f"<p>{caption}</p>"


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 40})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = lambda url: url.lower().startswith(_SCHEMES)  # type: ignore[method-assign]
    parser.add_render_rule("image", _image)
    parser.add_render_rule("link_open", _link)
    return parser


def _image(_: Any, tokens: Sequence[Any], index: int, options: Any, env: Any) -> str:
    """Name a picture from elsewhere. To load it would tell its server who reads."""
    token = tokens[index]
    return f"🖼 {escape(token.content)} <code>{escape(str(token.attrGet('src') or ''))}</code>"


def _link(renderer: Any, tokens: Sequence[Any], index: int, options: Any, env: Any) -> str:
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    tokens[index].attrSet("target", "_blank")
    return str(renderer.renderToken(tokens, index, options, env))


def usage_line(usage: Any) -> str:
    """Return tokens and cost in a few words."""
    cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
    return f"{usage.input_tokens:,} input and {usage.output_tokens:,} output tokens{cost}"
