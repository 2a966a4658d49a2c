"""Answers to choices: what fits the question counts, and nothing else, whatever it is."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import ValidationError
from outrider.log.questions import (
    LONGEST_WORDS,
    Answer,
    Body,
    Choice,
    ChoiceField,
    ChoiceQuestion,
    check_answer,
)
from tests.lengths import examples

labels = st.lists(st.text("abcä⟨ \n", min_size=1, max_size=5), min_size=0, max_size=5, unique=True)
fields = st.builds(
    lambda text, labels, multiple, own_words: ChoiceField(
        key="", text=text, choices=tuple(map(Choice, labels)), multiple=multiple, own_words=own_words
    ),
    *(st.text(max_size=9), labels, st.booleans(), st.booleans()),
)
bodies = st.lists(fields, min_size=1, max_size=4).map(
    lambda found: ChoiceQuestion(
        questions=tuple(msgspec.structs.replace(each, key=f"q{at}") for at, each in enumerate(found))
    )
)
junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=6)
    | st.just("x" * 10_001),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def fits(field: ChoiceField, value: Any) -> bool:
    """The rule, said again."""
    if field.multiple:
        is_list = isinstance(value, list) and 1 <= len(value) <= len(field.choices) + 1
        one = msgspec.structs.replace(field, multiple=False)
        return is_list and all(fits(one, each) for each in value) and len(set(value)) == len(value)
    if not isinstance(value, str):
        return False
    if field.choices and not field.own_words:
        return value in [each.label for each in field.choices]
    return len(value) <= LONGEST_WORDS and bool(re.sub(r"[\x1c-\x1f]", "x", value).strip())  # no space in the schema


def answers(field: ChoiceField) -> st.SearchStrategy[Any]:
    """Answers that fit, unless a label is blank."""
    known = st.sampled_from([each.label for each in field.choices]) if field.choices else st.nothing()
    words = st.text("abc", min_size=1, max_size=3) if field.own_words or not field.choices else st.nothing()
    if not field.multiple:
        return known | words
    return st.lists(known | words, min_size=1, max_size=len(field.choices) + 1, unique=True)


@settings(max_examples=examples(300))
@given(bodies, st.data())
def test_an_answer_counts_if_and_only_if_it_fits(body: ChoiceQuestion, data: st.DataObject) -> None:
    content = {each.key: data.draw(answers(each)) for each in body.questions}
    if data.draw(st.booleans()):
        spoiled = data.draw(st.sampled_from(body.questions))
        known = st.sampled_from([each.label for each in spoiled.choices] or ["own"])
        content[spoiled.key] = data.draw(known | st.lists(known, max_size=6) | st.text(max_size=6) | junk)
    expected = all(fits(each, content[each.key]) for each in body.questions)
    kept = data.draw(st.sampled_from(["all", "all", "less", "more"]))
    if kept == "more":
        content |= data.draw(st.dictionaries(st.sampled_from(["q9", "__proto__", ""]), junk, max_size=1))
        expected = expected and len(content) == len(body.questions)
    if kept == "less":
        content.pop("q0")
        expected = False
    assert is_accepted(body, Answer("answer", content=content)) == expected
    assert not is_accepted(body, Answer("decline", content=content))


def is_accepted(body: Body, answer: Answer) -> bool:
    try:
        check_answer(body, answer)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("answer", [Answer("accept"), Answer("once"), Answer("answer", "words"), Answer("answer")])
def test_other_answers_are_refused(answer: Answer) -> None:
    body = ChoiceQuestion(questions=(ChoiceField(key="q1", text="Which?"),))
    assert not is_accepted(body, answer)
    assert is_accepted(body, Answer("decline"))


@given(bodies)
def test_a_question_is_read_as_it_was_written(body: ChoiceQuestion) -> None:
    assert msgspec.json.decode(msgspec.json.encode(body), type=Body) == body
