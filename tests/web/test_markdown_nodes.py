"""Markdown to nodes: known elements only, safe links only, and every text as it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.web.markdown_nodes import render, safe_address
from tests.lengths import examples

KNOWN = {
    *("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "em", "strong", "s", "table"),
    *("thead", "tbody", "tr", "th", "td", "a", "code", "pre", "br", "hr", "span"),
}
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x)",
    "[x](//evil.example)",
    "[x](file:///etc/passwd)",
    "![x](javascript:alert(1))",
    "<javascript:alert(1)>",
    "[x]: javascript:alert(1)\n\n[x]",
    "[a](<java\nscript:alert(1)>)",
    "[a](&#106;avascript:alert(1))",
    "`<b>`",
    "|a|\n|-|\n|<i>|",
]


def check(nodes: list[Any]) -> None:
    for node in nodes:
        if isinstance(node, str):
            continue
        tag, attributes, children = node
        assert tag in KNOWN
        assert set(attributes) <= {"href", "start", "align", "language"}
        if "href" in attributes:
            assert attributes["href"].lower().startswith(("https://", "http://", "mailto:"))
        if isinstance(children, str):
            assert tag == "pre"
        else:
            check(children)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_becomes_text(text: str) -> None:
    check(render(text))


@settings(max_examples=examples(60))
@given(st.text(st.sampled_from("<>[]()!`*_|-# \n:a&;\\\"'/javscript.0123\x1b\u202e")))
def test_any_text_becomes_known_elements(text: str) -> None:
    check(render(text))


@pytest.mark.long
def test_deeply_nested_markdown_is_shown() -> None:
    assert render("> " * 5_000 + "x")
    assert render("[" * 50_000)
    assert render("a" * 1_000_000) == [["pre", {}, "a" * 1_000_000]]


def test_links_lead_to_the_web() -> None:
    assert render("[x](https://example.com)") == [["p", {}, [["a", {"href": "https://example.com"}, ["x"]]]]]
    assert safe_address("https://a b") == ""


def test_terminal_sequences_and_directions_are_harmless() -> None:
    assert render("\x1b]0;title\x07 a\u202egnp.exe") == [["p", {}, ["⟨ESC⟩]0;title⟨BEL⟩ a⟨U+202E⟩gnp.exe"]]]
