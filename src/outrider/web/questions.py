"""Questions that wait for a person, as JSON, and their answers."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.coding.remote.bodies import shown_diff
from outrider.log.log import Log
from outrider.log.questions import Answer, Body, ElicitationQuestion, Question
from outrider.web.entries import json_text
from outrider.web.markdown import safe_address
from outrider.web.visible import visible

Json = dict[str, Any]
PLACE = "on the web page"
"""Where an answer was given, as the terminal and the editor say it."""
MAX_TEXT = 500_000


def question_fields(question: Question) -> Json:
    """Return a question as the page shows it: the whole command or diff, so that nothing is approved unseen."""
    return {
        "id": question.id,
        "session": question.session,
        "call_id": question.call_id,
        "asked": question.asked,
        **_body(question.body),
        "options": [
            {"id": each.id, "label": visible(each.label), "allows": each.allows, "words": each.takes_words}
            for each in question.body.options
        ],
        "answer": question.answer.option if question.answer else "",
        "answered_by": visible(question.answered_by),
    }


def _body(body: Body) -> Json:
    if isinstance(body, ElicitationQuestion):
        fields = {"kind": "elicitation", "server": visible(body.server), "message": visible(body.message)}
        return fields | {"schema": body.schema, "url": safe_address(body.url), "address": visible(body.url)}
    command = body.input.get("command")
    return {
        "kind": "permission",
        "tool": visible(body.tool),
        "title": " ".join(visible(body.title).split()),
        "reason": visible(body.reason),
        "access": body.access,
        "asker": visible(body.asker),
        "command": visible(command[:MAX_TEXT]) if isinstance(command, str) else "",
        "diff": visible(shown_diff(body)[:MAX_TEXT]),
        "input": visible(json_text(body.input)[:MAX_TEXT]),
        "always": [visible(rule) for rule in body.always],
    }


def answer_question(log: Log, id: str, answer: Answer) -> Json:
    """Answer a question. Return whether this answer counts, and who gave the one that does."""
    is_first = log.inbox.answer(id, answer, PLACE)
    return {"first": is_first, "question": read_question(log, id)}


def read_question(log: Log, id: str) -> Json | None:
    """Return a question, also one that was answered; None if it is gone."""
    found = log.inbox.question(id)
    return question_fields(found) if found else None


class GivenAnswer(msgspec.Struct, frozen=True):
    """An answer as a page sends it."""

    option: str
    words: str = ""
    content: dict[str, Any] | None = None

    @property
    def answer(self) -> Answer:
        """The answer for the log."""
        return Answer(self.option, self.words, self.content)
