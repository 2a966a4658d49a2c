"""A JSON object is read while its text arrives."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.conversation import json_text
from outrider.conversation.json_text import GrowingObject, partial_object
from tests.lengths import examples

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('0123456789eE.-+\\"😀 '), max_size=8)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(texts, inside, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=5)


def begins(part: Any, whole: Any, *, at_end: bool = True) -> bool:
    """Whether a value is what the beginning of the text of another one says. Only its last part may be unfinished."""
    if part is whole or (type(part) is type(whole) and part == whole):
        return True
    if not at_end or type(part) is not type(whole):
        return False
    if isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(whole, list):
        last = len(part) - 1
        return len(part) <= len(whole) and all(
            begins(each, whole[place], at_end=place == last) for place, each in enumerate(part)
        )
    if isinstance(whole, dict):
        last = len(part) - 1
        return list(part) == list(whole)[: len(part)] and all(
            begins(part[name], whole[name], at_end=place == last) for place, name in enumerate(part)
        )
    return False


@given(objects, st.booleans(), st.sampled_from([None, 1]), st.booleans())
@settings(max_examples=examples(200))
def test_any_cut_gives_the_beginning_of_the_data(
    whole: dict[str, Any], ascii_only: bool, indent: int | None, unfinished: bool
) -> None:
    text = json.dumps(whole, ensure_ascii=ascii_only, indent=indent)
    for place in range(len(text)):
        part = partial_object(text[:place], unfinished=unfinished)
        assert begins(part, whole), (text[:place], part)
    assert partial_object(text) == whole


@given(st.text(), st.text())
@settings(max_examples=examples(200))
def test_any_text_gives_an_object(text: str, more: str) -> None:
    for each in (text, "{" + text, '{"a": ' + text + more):
        assert isinstance(partial_object(each), dict)


@given(objects, st.lists(st.integers(0, 200), max_size=12))
@settings(max_examples=examples(100))
def test_chunks_give_ever_more_of_the_data(whole: dict[str, Any], cuts: list[int]) -> None:
    text, growing = json.dumps(whole), GrowingObject()
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    seen = [growing.add(text[start:end]) for start, end in pairwise(places)]
    parts = [part for part in seen if part is not None]
    assert all(begins(one, other) for one, other in zip(parts, [*parts[1:], whole], strict=False))


def test_examples() -> None:
    whole = '{"path": "src/main.py", "lines": [1, 20]}'
    seen = [partial_object(whole[:place]) for place in range(len(whole) + 1)]
    assert seen[0] == {}
    assert seen[whole.index("main")] == {"path": "src/"}
    assert seen[whole.index("0]")] == {"path": "src/main.py", "lines": [1]}, "20 is not 2 yet"
    assert seen[-1] == {"path": "src/main.py", "lines": [1, 20]}
    assert partial_object('{"to": "room 12', unfinished=False) == {}
    assert partial_object('{"to": "room 12') == {"to": "room 12"}, "a text may end with a number"
    assert partial_object("nonsense") == partial_object("[1]") == partial_object('{"a": NaN}') == {}


def test_a_long_text_is_not_parsed_for_each_chunk(monkeypatch: Any) -> None:
    parsed: list[int] = []

    def counted(text: str, mode: Any) -> Any:
        parsed.append(len(text))
        return {}

    monkeypatch.setattr(json_text, "_parsed", counted)
    for length in (20_000, 200_000):
        parsed.clear()
        growing = GrowingObject()
        for _ in range(length // 4):
            growing.add("text")
        assert sum(parsed) < 25 * length
