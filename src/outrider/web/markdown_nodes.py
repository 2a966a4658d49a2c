"""Markdown as a tree of a few known elements, which the page turns into DOM nodes. There is no HTML at any step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.token import Token

from outrider.text.visible import safe_lines

Node: TypeAlias = "str | list[Any]"
"""A text, or an element: its name, its attributes and its children."""

MAX_CHARACTERS = 200_000
"""Longer texts are shown as they are."""
MAX_BRACKETS = 3_000
"""So are texts with more of what may begin a link or a picture: each of them is looked into for a long time."""
_PLAIN = ("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "em", "strong", "s", "table")
_TABLE = ("thead", "tbody", "tr", "th", "td")
_ELEMENTS = frozenset((*_PLAIN, *_TABLE))
_SCHEMES = ("https://", "http://", "mailto:")


def render(text: str) -> list[Node]:
    """Return the nodes of a Markdown text. Raw HTML is text. Links lead to the web or to mail, nowhere else."""
    text = safe_lines(text)
    if len(text) > MAX_CHARACTERS or text.count("[") > MAX_BRACKETS:
        return [["pre", {}, text]]
    try:
        return _nodes(_parser().parse(text))
    except (RecursionError, ValueError):  # nested too deeply, or an address that cannot be parsed
        return [["pre", {}, text]]


def safe_address(address: str) -> str:
    """Return an address if a link may lead there, else ""."""
    return address if address.lower().startswith(_SCHEMES) and not any(map(str.isspace, address)) else ""


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 40})
    return parser.enable(["table", "strikethrough"])


def _nodes(tokens: Sequence[Token]) -> list[Node]:
    top: list[Node] = []
    open_lists = [top]
    for token in tokens:
        here = open_lists[-1]
        if token.nesting > 0:
            element = _element(token)
            if not token.hidden:
                here.append(element)
            open_lists.append(here if token.hidden else element[2])
        elif token.nesting < 0:
            open_lists.pop()
        else:
            here.extend(_leaf(token))
    return top


def _element(token: Token) -> list[Any]:
    if token.tag == "a":
        address = safe_address(str(token.attrGet("href") or ""))
        return ["a", {"href": address}, []] if address else ["span", {}, []]
    attributes: dict[str, Any] = {}
    if token.tag == "ol" and isinstance(start := token.attrGet("start"), int):
        attributes["start"] = start
    if token.tag in ("th", "td") and (style := str(token.attrGet("style") or "")):
        attributes["align"] = style.removeprefix("text-align:")
    return [token.tag if token.tag in _ELEMENTS else "span", attributes, []]


def _leaf(token: Token) -> list[Node]:
    match token.type:
        case "inline":
            return _nodes(token.children or [])
        case "code_inline":
            return [["code", {}, [token.content]]]
        case "fence" | "code_block":
            language = token.info.split()[0][:40] if token.info.split() else ""
            return [["pre", {"language": language}, token.content.removesuffix("\n")]]
        case "hardbreak":
            return [["br", {}, []]]
        case "softbreak":
            return ["\n"]
        case "hr":
            return [["hr", {}, []]]
        case "image":  # a picture elsewhere is not loaded: it would tell its server who reads
            return [_picture(token)]
    return [token.content] if token.content else []


def _picture(token: Token) -> Node:
    address = safe_address(str(token.attrGet("src") or ""))
    label = f"🖼 {token.content or address or 'picture'}"
    return ["a", {"href": address}, [label]] if address else ["span", {}, [label]]
