"""Questions that wait for a person, as JSON, and their answers."""

from __future__ import annotations

from typing import Any

from outrider.coding.mcp.forms import fields_of
from outrider.coding.remote.questions import json_text, shown_diff
from outrider.log.questions import Body, ChoiceQuestion, ElicitationQuestion, PlanQuestion, Question, ResultQuestion
from outrider.text.visible import revealed, revealed_line, safe_line, safe_lines
from outrider.web.markdown_nodes import render, safe_address

Json = dict[str, Any]
MAX_TEXT = 500_000
"""Characters of a command or a diff that a list of questions has; one question alone has all."""


def question_fields(question: Question, limit: int | None = MAX_TEXT) -> Json:
    """Return a question as the page shows it: the whole command or diff, so that nothing is approved unseen.

    A longer text is cut at the limit; `cut` says how many characters are left out, and the page offers them.
    """
    return {
        "id": question.id,
        "session": question.session,
        "call_id": question.call_id,
        "asked": question.asked,
        **_body(question.body, limit),
        "options": [
            {"id": each.id, "label": revealed_line(each.label), "allows": each.allows, "words": each.takes_words}
            for each in question.body.options
        ],
        "answer": question.answer.option if question.answer else "",
        "answered_by": revealed_line(question.answered_by),
    }


def _body(body: Body, limit: int | None) -> Json:
    if isinstance(body, ElicitationQuestion):
        return _elicitation(body)
    if isinstance(body, ChoiceQuestion):
        return _choices(body)
    if isinstance(body, ResultQuestion):
        return {"kind": "result", "title": revealed_line(body.title)}
    if isinstance(body, PlanQuestion):
        return {"kind": "plan", "title": revealed_line(body.title), "nodes": render(revealed(body.plan))}
    command = body.input.get("command")
    texts = {
        "command": command if body.tool == "Bash" and isinstance(command, str) else "",
        "diff": shown_diff(body),
        "input": json_text(body.input),
    }
    return {
        "kind": "permission",
        "tool": revealed_line(body.tool),
        "title": revealed_line(body.title),
        "reason": revealed_line(body.reason),
        "access": revealed_line(body.access),
        "asker": revealed_line(body.asker),
        "facts": [revealed_line(each) for each in body.facts],
        **{name: revealed(text[:limit]) for name, text in texts.items()},
        "cut": {name: len(text) - limit for name, text in texts.items() if limit is not None and len(text) > limit},
        "always": [revealed_line(rule) for rule in body.always],
        "prefix": [revealed_line(rule) for rule in body.prefix],
    }


def _elicitation(body: ElicitationQuestion) -> Json:
    """Return a question of a server. The page shows `labels`, and sends the names and values of the schema."""
    return {
        "kind": "elicitation",
        "server": revealed_line(body.server),
        "message": safe_lines(body.message),
        "schema": body.schema,
        "labels": {
            each.name: {
                "label": each.label,
                "description": each.description,
                "options": [option.label for option in each.options],
            }
            for each in fields_of(body.schema or {})
        },
        "url": safe_address(body.url),
        "address": revealed_line(body.url),
    }


def _choices(body: ChoiceQuestion) -> Json:
    """Return what the model wants to know. The page shows the texts, and sends the keys and values."""
    return {
        "kind": "choice",
        "title": safe_line(body.title),
        "questions": [
            {
                "key": each.key,
                "header": safe_line(each.header),
                "text": safe_lines(each.text),
                "multiple": each.multiple,
                "own_words": each.own_words or not each.choices,
                "choices": [
                    {"value": c.label, "label": safe_line(c.label), "description": safe_line(c.description)}
                    for c in each.choices
                ],
            }
            for each in body.questions
        ],
    }
