"""AskUser: what the person is asked, what the model hears, and what is refused before anybody is asked."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.coding.toolbox.ask_user import DECLINED, LONGEST, NOBODY, ask_user
from outrider.coding.toolbox.titles import title
from outrider.log.questions import Answer, ChoiceQuestion
from outrider.text.visible import HIDDEN
from tests.coding.toolbox.calling import call
from tests.lengths import examples

COLOUR = {"question": "Which colour?", "header": "Colour", "options": [{"label": "red"}, {"label": "blue"}]}
PARTS = {**COLOUR, "question": "Which parts?", "multiSelect": True}
TOOL = ask_user(has_user=True)
WORDS = {"question": "What is it called?"}


class Person:
    """Somebody who gives one answer."""

    def __init__(self, answer: Answer = Answer("decline")) -> None:  # noqa: B008 - it is frozen
        self.answer = answer
        self.asked: list[ChoiceQuestion] = []

    async def pose(self, body: ChoiceQuestion) -> Answer:
        self.asked.append(body)
        return self.answer


async def test_the_model_reads_each_question_with_its_answer() -> None:
    person = Person(Answer("answer", content={"q1": "red", "q2": ["blue", "a stripe"], "q3": "  Ada\n"}))
    result = await call(TOOL, asker=person, questions=[COLOUR, PARTS, WORDS])
    assert result.text == "Which colour? → red\nWhich parts? → blue, a stripe\nWhat is it called? → Ada"
    assert not result.is_error
    (body,) = person.asked
    assert [(each.key, each.header, each.multiple, len(each.choices)) for each in body.questions] == [
        ("q1", "Colour", False, 2),
        ("q2", "Colour", True, 2),
        ("q3", "", False, 0),
    ]


async def test_somebody_who_declines_and_nobody_at_all() -> None:
    declined = await call(TOOL, asker=Person(), questions=[COLOUR])
    assert (declined.text, declined.is_error) == (DECLINED, False)
    nobody = await call(ask_user(has_user=False), questions=[COLOUR])
    assert (nobody.text, nobody.is_error) == (NOBODY, True)
    assert "Decide yourself" in nobody.text


@pytest.mark.parametrize(
    ("questions", "problem"),
    [
        ([], "there are 0 questions; ask 1 to 4"),
        ([COLOUR] * 5, "there are 5 questions; ask 1 to 4"),
        ([{"question": " \n"}], "question 1 or one of its options is blank"),
        (
            [COLOUR, {**COLOUR, "options": [{"label": "a"}, {"label": " "}]}],
            "question 2 or one of its options is blank",
        ),
        ([{**COLOUR, "options": [{"label": "a"}]}], "question 1 has 1 options; give 2 to 5"),
        ([{**COLOUR, "options": [{"label": str(n)} for n in range(6)]}], "question 1 has 6 options; give 2 to 5"),
        ([{**WORDS, "multiSelect": True}], "question 1 has 0 options; give 2 to 5, or none and no multiSelect"),
        (
            [{**COLOUR, "options": [{"label": "a b"}, {"label": "a  b"}]}],
            "two options of question 1 have the same label",
        ),
        ([{"question": "x" * 1001}], "a question of question 1 has over 1,000 characters"),
        ([{**COLOUR, "header": "x" * 31}], "a header of question 1 has over 30 characters"),
        ([{**COLOUR, "options": [{"label": "x" * 101}, {"label": "a"}]}], "a label of question 1 has over 100"),
        (
            [{**COLOUR, "options": [{"label": "b", "description": "x" * 301}, {"label": "a"}]}],
            "a description of question 1 has over 300 characters",
        ),
    ],
)
async def test_questions_out_of_bounds_are_not_asked(questions: list[Any], problem: str) -> None:
    person = Person()
    result = await call(TOOL, asker=person, questions=questions)
    assert result.is_error
    assert result.text.startswith("The user was not asked: ")
    assert problem in result.text
    assert not person.asked


@pytest.mark.parametrize(
    "answer",
    [
        Answer("answer"),
        Answer("answer", content={}),
        Answer("answer", content={"q1": ""}),
        Answer("answer", content={"q1": ["red"]}),
        Answer("answer", content={"q1": "red", "q2": "more"}),
        Answer("decline", content={"q1": "red"}),
        Answer("once"),
    ],
)
async def test_an_answer_that_does_not_fit_is_an_error_and_no_answer(answer: Answer) -> None:
    result = await call(TOOL, asker=Person(answer), questions=[COLOUR])
    assert result.is_error
    assert result.text.startswith("The answer cannot be used: ")


@settings(max_examples=examples(100))
@given(st.text(max_size=60), st.text(max_size=20), st.text(max_size=60))
async def test_no_character_of_the_model_is_hidden(question: str, header: str, label: str) -> None:
    person = Person()
    options = [{"label": label, "description": question}, {"label": "\u202eesle"}]
    await call(TOOL, asker=person, questions=[{"question": question, "header": header, "options": options}])
    for body in person.asked:
        (field,) = body.questions
        texts = [field.text, field.header, *(text for each in field.choices for text in (each.label, each.description))]
        assert "⟨U+202E⟩esle" in texts
        for text in texts:
            hidden = [
                found for found in HIDDEN.findall(text) if found not in "\u200c\u200d" and not _is_selector(found)
            ]
            assert not hidden
        assert "\n" not in field.header + field.choices[0].label
        assert len(field.choices[0].label) <= LONGEST["label"]


def _is_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


async def test_a_call_takes_as_long_as_the_person_and_ends_when_it_is_cancelled() -> None:
    class Thinker:
        async def pose(self, body: ChoiceQuestion) -> Answer:
            return await asyncio.get_running_loop().create_future()

    tool = TOOL
    assert (tool.timeout, tool.effect, tool.concurrent) == (math.inf, "read", False)
    calling = asyncio.ensure_future(call(tool, asker=Thinker(), questions=[COLOUR]))
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


@pytest.mark.parametrize(
    ("input", "shown"),
    [
        ({"questions": [COLOUR]}, "AskUser(Which colour?)"),
        ({"questions": [COLOUR, WORDS]}, "AskUser(Colour, What is it called?)"),
        ({}, "AskUser()"),
        ({"questions": "red?"}, "AskUser()"),
        ({"questions": [1, {"question": 2, "header": ["x"]}, {}]}, "AskUser()"),
    ],
)
def test_the_title_of_a_call(input: dict[str, Any], shown: str) -> None:
    assert title("AskUser", input) == shown


def test_the_model_sees_the_names_that_the_tool_takes() -> None:
    tool = TOOL
    seen = tool.parameters["properties"]["questions"]["items"]["properties"]
    taken = tool.signature.schema.json["$defs"]
    assert list(seen) == list(taken["AskedQuestion"]["properties"])
    assert list(seen["options"]["items"]["properties"]) == list(taken["AskedOption"]["properties"])
