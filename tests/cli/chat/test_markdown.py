"""Streaming Markdown: finished blocks do not change, and nothing is lost, however the text is split."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.cli.chat.markdown import MarkdownStream, rendered
from outrider.cli.styles import columns, unstyled

CODES = re.compile(r"\x1b\[[0-9;]*m")

WORDS = st.text("abcdefghijklmnopqrstuvwxyzäöß", min_size=1, max_size=12)
LINES = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)
BLOCKS = st.one_of(
    LINES,
    st.tuples(st.sampled_from(["# ", "## ", "### ", "> ", "- ", "1. "]), LINES).map("".join),
    st.lists(LINES, min_size=1, max_size=4).map(lambda lines: "\n".join(f"- {line}" for line in lines)),
    st.lists(LINES, min_size=1, max_size=4).map(lambda lines: "\n\n".join(f"1. {line}" for line in lines)),
    st.lists(LINES, min_size=1, max_size=4).map(lambda lines: "```\n{}\n```".format("\n\n".join(lines))),
    st.lists(LINES, min_size=1, max_size=3).map(
        lambda lines: "| a | b |\n|---|---|\n" + "\n".join(f"| {x} | y |" for x in lines)
    ),
)
DOCUMENTS = st.lists(BLOCKS, min_size=1, max_size=6).map("\n\n".join)


def cut(text: str, places: list[int]) -> list[str]:
    """The text in pieces."""
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[begin:end] for begin, end in pairwise(ends)]


def visible(lines: list[str]) -> str:
    return CODES.sub("", "\n".join(lines))


def letters_of(text: str) -> Counter[str]:
    """Each letter and how often; the cells of a table break into lines side by side."""
    return Counter(re.findall(r"[a-zäöß]", text))


@given(st.text(), st.lists(st.integers(min_value=0)))
def test_what_is_finished_and_the_rest_are_the_text(text: str, places: list[int]) -> None:
    stream = MarkdownStream()
    finished = "".join(stream.feed(piece) for piece in cut(text, places))
    assert finished + stream.open == text
    assert finished + stream.end() == text
    assert stream.open == ""


@given(DOCUMENTS, st.lists(st.integers(min_value=0), max_size=30))
def test_what_is_finished_does_not_depend_on_the_pieces(text: str, places: list[int]) -> None:
    whole, pieces = MarkdownStream(), MarkdownStream()
    at_once = whole.feed(text)
    assert "".join(pieces.feed(piece) for piece in cut(text, places)) == at_once
    assert pieces.open == whole.open


@given(DOCUMENTS, st.lists(st.integers(min_value=0), max_size=30), st.integers(30, 120))
def test_no_word_is_lost_when_blocks_are_drawn_one_after_the_other(text: str, places: list[int], width: int) -> None:
    stream = MarkdownStream()
    lines = [line for piece in cut(text, places) for line in rendered(stream.feed(piece), width)]
    lines += rendered(stream.end(), width)
    assert letters_of(visible(lines)) == letters_of(text)


@given(
    st.text(st.sampled_from("ab \n\t\r\x1b\x07\x9b#*`|-_[]()<>äß漢字🙂e\u0301\u202e")) | DOCUMENTS, st.integers(20, 120)
)
def test_no_line_is_wider_than_it_may_be_and_none_holds_a_control_character(text: str, width: int) -> None:
    for line in rendered(text, width, is_live=True):
        assert columns(line) <= width
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", CODES.sub("", line))


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", 0),
        ("One line", 0),
        ("One.\n\n", 0),
        ("One.\n\nTwo", 6),
        ("One.\n\n  still the item above?", 0),
        ("- a\n\n  more of a\n\n- b", 18),
        ("```\na\n\nb\n", 0),
        ("```\na\n\nb\n```\n\nc", 14),
        ("~~~\n```\n\nb\n", 0),
        ("````\n```\n\nb\n", 0),
        ("```\n```python\n\nb", 0),
        ("One.\r\n\r\nTwo", 8),
    ],
)
def test_a_block_is_settled_when_another_begins(text: str, at: int) -> None:
    assert len(MarkdownStream().feed(text)) == at


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("# A title\n\nand text", "A title\n\nand text"),
        ("**bold** and `code`", "bold and code"),
        ("1. one\n2. two", " 1 one\n 2 two"),
        ("[a link](http://example.org/x)", "a link (http://example.org/x)"),
        ("a\n\n\n\n", "a"),
        ("\n\n\na", "a"),
        (" \n \n", ""),
        ("[bold]not markup of rich[/bold]", "[bold]not markup of rich[/bold]"),
        (":smile: 12:30:45", ":smile: 12:30:45"),
    ],
)
def test_it_looks_as_people_expect(text: str, seen: str) -> None:
    assert visible(rendered(text, 60)) == seen


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("A std::vector<int> and a List<String>.", "int"),
        ("A std::vector<int> and a List<String>.", "String"),
        ("Put it into a <div> element.", "div"),
        ("<details>\nThe words inside.\n</details>", "inside"),
        ("<T>This is what I found</T>", "<T>"),
        ("Replace <your-name> with yours.", "your-name"),
        ("before\n\n<!-- TODO: not done -->\n\nafter", "TODO"),
    ],
)
def test_what_looks_like_html_is_shown_as_it_stands(text: str, word: str) -> None:
    assert word in visible(rendered(text, 80))


@given(st.text(), st.integers(1, 120))
def test_any_text_can_be_drawn_in_any_width(text: str, width: int) -> None:
    rendered(text, width)


def test_deep_nesting_neither_breaks_nor_takes_for_ever() -> None:
    for text in (">" * 500 + " a", "- " * 500 + "a", "[" * 500 + "a" + "]" * 500, "*" * 500 + "a" + "*" * 500):
        rendered(text, 40)


def test_of_a_long_code_block_only_a_screenful_is_drawn_while_it_arrives() -> None:
    stream = MarkdownStream()
    for number in range(1_000):
        stream.feed(f"x = {number}\n" if number else "```python\n")
    ending = stream.ending(24)
    assert ending.startswith("```python\n")
    assert ending.endswith("x = 999\n")
    assert ending.count("\n") == 25
    assert stream.open.count("\n") == 1_000


def test_a_table_folds_what_does_not_fit() -> None:
    words = ["a_name_that_is_longer_than_its_column", "src/outrider/cli/chat/current_session.py", "x" * 50]
    lines = rendered(f"| a | b | c |\n| --- | --- | --- |\n| {' | '.join(words)} |\n", 60)
    assert not any("…" in line for line in lines)
    assert all(columns(line) <= 60 for line in lines)
    cells = [unstyled(line) for line in lines[2:]]
    assert "".join(cells).count("x") == 50


def test_code_can_be_copied_as_it_is() -> None:
    long = f"def {'long_' * 20}name(argument): return argument"
    lines = [unstyled(line) for line in rendered(f"Look:\n\n```python\n{long}\n    pass\n```\n\nEnd", 40)]
    assert lines == ["Look:", "", long, "    pass", "", "End"]
    item = [unstyled(line) for line in rendered(f"- see\n  ```\n  {long}\n  ```", 40)]
    assert max(map(len, item)) <= 40  # a list indents its lines
    assert "".join(item).replace(" ", "").endswith(long.replace(" ", ""))
