"""The AskUser tool: the model asks the person, with choices or for free text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from outrider.errors import ValidationError
from outrider.log.questions import Answer, Choice, ChoiceField, ChoiceQuestion, check_answer
from outrider.text import clean
from outrider.text.visible import one_line, plain_text
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, tool

MOST_QUESTIONS = 4
FEWEST_OPTIONS, MOST_OPTIONS = 2, 5
LONGEST = {"question": 1000, "header": 30, "label": 100, "description": 300}
"""Characters of each text."""
NOBODY = (
    "Nobody can answer: no person is connected to this session. Decide yourself and say what you assumed, or stop and "
    "say what you need to know."
)
DECLINED = "The user declined to answer. Do not ask this again: go on without the answer, or stop."


_TEXT = {"type": "string"}
_OPTION = {"type": "object", "properties": {"label": _TEXT, "description": _TEXT}, "required": ["label"]}
_QUESTION = {
    "type": "object",
    "properties": {
        "question": _TEXT,
        "header": {"type": "string", "description": "its subject, 1 or 2 words"},
        "options": {"type": "array", "items": _OPTION, "description": "2 to 5; none for free text"},
        "multiSelect": {"type": "boolean"},
    },
    "required": ["question"],
}
_SHOWN = {
    "type": "object",
    "properties": {"questions": {"type": "array", "items": _QUESTION, "description": "1 to 4"}},
    "required": ["questions"],
}
"""What the model sees: the schema of the arguments in half as many tokens."""


class AskedOption(msgspec.Struct, frozen=True):
    """An answer to choose."""

    label: str
    description: str = ""


class AskedQuestion(msgspec.Struct, frozen=True):
    """A question, with options or for free text."""

    question: str
    header: str = ""
    options: tuple[AskedOption, ...] = ()
    multi_select: bool = msgspec.field(default=False, name="multiSelect")


def ask_user(*, has_user: bool) -> Tool:
    """Return the tool that asks the user of the session, if it has one: now, or whoever answers later."""

    @tool(name="AskUser", effect="read", concurrent=False, timeout=math.inf)
    async def ask(questions: list[AskedQuestion], context: ToolContext) -> ToolResult:
        """Ask the user what only the user can decide, and wait. Do not ask what you can find out.

        The user can always answer in other words, or decline. Put the option that you recommend first.
        """
        if not has_user:
            return ToolResult(NOBODY, is_error=True)
        body = _body(questions)
        if problem := next(_problems(questions, body), ""):
            return ToolResult(f"The user was not asked: {problem}", is_error=True)
        answer: Answer = await context.pose(body)
        try:
            check_answer(body, answer)
        except ValidationError as error:
            return ToolResult(f"The answer cannot be used: {'; '.join(error.violations)}", is_error=True)
        if answer.content is None:
            return ToolResult(DECLINED, details={"answers": []})
        said = list(_said(body, answer.content))
        return ToolResult("\n".join(f"{asked} → {text}" for asked, text in said), details={"answers": said})

    return msgspec.structs.replace(ask, built_in=True, shown=_SHOWN)


def _body(questions: list[AskedQuestion]) -> ChoiceQuestion:
    """Return the questions as a person sees them: no character of the model's texts is hidden."""
    fields = [
        ChoiceField(
            key=f"q{number}",
            text=plain_text(each.question.strip(), LONGEST["question"]),
            header=one_line(each.header, LONGEST["header"]),
            choices=tuple(
                Choice(one_line(option.label, LONGEST["label"]), one_line(option.description, LONGEST["description"]))
                for option in each.options
            ),
            multiple=each.multi_select,
        )
        for number, each in enumerate(questions, 1)
    ]
    return ChoiceQuestion(questions=tuple(fields))


def _problems(questions: list[AskedQuestion], body: ChoiceQuestion) -> Iterator[str]:
    if not 1 <= len(questions) <= MOST_QUESTIONS:
        yield f"there are {len(questions)} questions; ask 1 to {MOST_QUESTIONS}."
    for number, (asked, field) in enumerate(zip(questions, body.questions, strict=True), 1):
        labels = [each.label for each in field.choices]
        if not field.text or not all(labels):
            yield f"question {number} or one of its options is blank."
        if (labels or field.multiple) and not FEWEST_OPTIONS <= len(labels) <= MOST_OPTIONS:
            yield (
                f"question {number} has {len(labels)} options; give {FEWEST_OPTIONS} to {MOST_OPTIONS}, or none and "
                "no multiSelect for free text."
            )
        if len(set(labels)) < len(labels):
            yield f"two options of question {number} have the same label."
        texts = [("question", asked.question), ("header", asked.header)]
        texts += [pair for each in asked.options for pair in msgspec.structs.asdict(each).items()]
        for name, text in texts:
            if len(text) > LONGEST[name]:
                yield f"a {name} of question {number} has over {LONGEST[name]:,} characters."


def _said(body: ChoiceQuestion, content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each question with its answer."""
    for field in body.questions:
        given = content[field.key]
        yield field.text, clean(", ".join(given) if isinstance(given, list) else given).strip()
