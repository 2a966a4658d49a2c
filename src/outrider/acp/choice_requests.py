"""Asks the user what the model wants to know: with a form of the editor, or the options of a permission request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outrider.acp.client import AskingSession
from outrider.acp.schema import CreateElicitationRequest, PermissionOption, RequestPermissionRequest, ToolCallFields
from outrider.acp.tool_calls import MAX_TITLE, single_line
from outrider.acp.updates.call_state import Text
from outrider.errors import ConversationError
from outrider.jsonrpc import RpcError
from outrider.log.questions import Answer, ChoiceField, ChoiceQuestion
from outrider.text.visible import safe_line, safe_lines

DECLINED = Answer("decline")
OTHER = "Something else (write it below)"
NO_FORMS = (
    "this editor has no forms, so it can ask only for one choice at a time. Ask again with options and without "
    "multiSelect, or ask in your reply and stop"
)


class ChoiceRequester:
    """Asks the user through the editor. Implements `Choose`."""

    def __init__(self, session: AskingSession, tool_call_id: Callable[[str], str]) -> None:
        """`tool_call_id` returns the id by which the editor knows a call."""
        self._session, self._tool_call_id = session, tool_call_id

    async def __call__(self, call_id: str, question: ChoiceQuestion) -> Answer:
        """Ask, and return the answer. Raises ConversationError if the editor cannot ask this."""
        offered = self._session.client.capabilities.elicitation
        try:
            if offered and offered.form is not None:
                return await self._form(question)
            if any(each.multiple or not each.choices for each in question.questions):
                raise ConversationError(NO_FORMS)
            return await self._one_by_one(self._tool_call_id(call_id), question)
        except RpcError as error:
            raise ConversationError(f"the editor could not ask: {error}") from None

    async def _form(self, question: ChoiceQuestion) -> Answer:
        message = "\n\n".join(safe_lines(each.text) for each in question.questions)
        request = CreateElicitationRequest(self._session.id, "form", message, requested_schema=form_of(question))
        response = await self._session.client.elicit(request)
        if response.action != "accept":
            return DECLINED
        content = {each.key: answer_in(each, response.content or {}) for each in question.questions}
        return Answer("answer", content=content) if all(content.values()) else DECLINED

    async def _one_by_one(self, tool_call_id: str, question: ChoiceQuestion) -> Answer:
        content = {}
        engine = self._session.engine
        before = engine.state(tool_call_id)
        try:
            for field in question.questions:
                call = ToolCallFields(tool_call_id=tool_call_id, title=single_line(field.text, MAX_TITLE))
                engine.change(tool_call_id, title=call.title, content=(Text(safe_lines(field.text)),))
                engine.flush()
                labels = [_titled(each.label, each.description) for each in field.choices]
                chosen = await pick_option(self._session, call, labels)
                if chosen is None:
                    return DECLINED
                content[field.key] = field.choices[chosen].label
        finally:
            if before:
                engine.change(tool_call_id, title=before.title)
        return Answer("answer", content=content)


async def pick_option(session: AskingSession, call: ToolCallFields, labels: list[str]) -> int | None:
    """Let the user choose with a permission request. Return the number of the label; None if the user declines."""
    options = [PermissionOption(str(number), label, "allow_once") for number, label in enumerate(labels)]
    decline = PermissionOption("decline", "Decline", "reject_once")
    request = RequestPermissionRequest(session.id, call, [*options, decline])
    outcome = (await session.client.request_permission(request)).outcome
    chosen = outcome.option_id if outcome.outcome == "selected" else ""
    return next((number for number in range(len(labels)) if str(number) == chosen), None)


def form_of(question: ChoiceQuestion) -> dict[str, Any]:
    """Return the form: a list for each question, and a line for an answer in other words."""
    properties: dict[str, Any] = {}
    for field in question.questions:
        about = {"title": safe_line(field.header or field.text), "description": safe_lines(field.text)}
        choices = [{"const": each.label, "title": _titled(each.label, each.description)} for each in field.choices]
        if field.multiple:
            properties[field.key] = {"type": "array", **about, "items": {"anyOf": choices}}
        elif choices:
            other = [{"const": OTHER, "title": OTHER}] if field.own_words else []
            properties[field.key] = {"type": "string", **about, "oneOf": [*choices, *other]}
        else:
            properties[field.key] = {"type": "string", **about}
        if choices and field.own_words:
            properties[_own(field)] = {"type": "string", "title": f"{about['title']}: in your own words"}
    required = [each.key for each in question.questions if not (each.multiple and each.own_words)]
    return {"type": "object", "properties": properties, "required": required}


def answer_in(field: ChoiceField, content: dict[str, Any]) -> str | list[str]:
    """Return the answer to a question in the content of a form; empty if there is none."""
    given = content.get(field.key)
    taken = [*(given if isinstance(given, list) else [given]), content.get(_own(field))]
    said = [each for each in taken if isinstance(each, str) and each.strip() and each != OTHER]
    return list(dict.fromkeys(said)) if field.multiple else "; ".join(said)


def _own(field: ChoiceField) -> str:
    return f"{field.key}_own_words"


def _titled(label: str, description: str) -> str:
    return safe_line(f"{label} – {description}" if description else label)
