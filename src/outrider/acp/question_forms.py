"""The questions of the model and of MCP servers, as forms of the editor."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from outrider.acp.client import AskingSession
from outrider.acp.schema import (
    CreateElicitationRequest,
    PermissionOption,
    RequestPermissionRequest,
    ToolCallFields,
)
from outrider.acp.tool_calls import MAX_TITLE, single_line
from outrider.acp.updates.call_state import CallState, Text
from outrider.coding.mcp.forms import Field, Option, fields_of
from outrider.errors import ConversationError
from outrider.jsonrpc import RpcError
from outrider.log.questions import Answer, ChoiceField, ChoiceQuestion
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
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


_KEYS = {
    *("type", "title", "description", "default", "enum", "oneOf", "items", "format", "pattern"),
    *("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"),
}
"""The keys of a field that the protocol has."""


class _DeclinedError(Exception):
    """The user does not answer."""


class ElicitationRequester:
    """Asks the user through the editor. Implements `OnElicit`."""

    def __init__(self, session: AskingSession, notice: Callable[[str], None]) -> None:
        self._session, self._notice = session, notice
        self._asked = 0

    async def __call__(self, question: Elicitation) -> ElicitationAnswer:
        """Ask, and return the answer. If the editor cannot ask, decline."""
        offered = self._session.client.capabilities.elicitation
        try:
            if question.url:
                return await (self._native(question) if offered and offered.url is not None else self._page(question))
            if offered and offered.form is not None:
                return await self._native(question)
            return await self._choices(question)
        except (RpcError, _DeclinedError):
            return ElicitationAnswer("decline")

    async def _native(self, question: Elicitation) -> ElicitationAnswer:
        message = safe_lines(f"The MCP server {question.server} asks: {question.message}")
        session, form = self._session.id, _schema(question.schema or {})
        request = CreateElicitationRequest(session, "form", message, requested_schema=form)
        if question.url:
            name = os.urandom(8).hex()
            request = CreateElicitationRequest(session, "url", message, elicitation_id=name, url=question.url)
        response = await self._session.client.elicit(request)
        if response.action not in ("accept", "decline", "cancel"):
            return ElicitationAnswer("decline")
        return ElicitationAnswer(response.action, response.content)  # type: ignore[arg-type]  # checked above

    async def _page(self, question: Elicitation) -> ElicitationAnswer:
        options = [Option("done", "I have opened the page")]
        await self._choose(question, f"{question.message}\n\n{question.url}", options)
        return ElicitationAnswer("accept")

    async def _choices(self, question: Elicitation) -> ElicitationAnswer:
        """Ask for each field with the options of a permission request. Text cannot be asked for like this."""
        fields = fields_of(question.schema or {})
        unanswerable = [field.label for field in fields if field.is_required and not _options(field)]
        if unanswerable:
            self._notice(
                f"The MCP server {question.server} asks for {', '.join(unanswerable)}, and this editor has no forms. "
                "It was told no. Use `outrider` in a terminal to answer."
            )
            return ElicitationAnswer("decline")
        if not fields:
            await self._choose(question, question.message, [Option(True, "Accept")])
        content = {}
        for field in fields:
            if options := _options(field):
                content[field.name] = await self._choose(question, _asked_for(question, field), options)
        return ElicitationAnswer("accept", content)

    async def _choose(self, question: Elicitation, text: str, options: list[Option]) -> Any:
        self._asked += 1
        title = single_line(f"The MCP server {question.server} asks", MAX_TITLE)
        call = CallState(f"elicitation-{self._asked}-{os.urandom(4).hex()}", title, content=(Text(safe_lines(text)),))
        engine = self._session.engine
        engine.announce(call)
        engine.flush()
        chosen: int | None = None
        try:
            fields = ToolCallFields(tool_call_id=call.id, title=title)
            chosen = await pick_option(self._session, fields, [each.label for each in options])
        finally:
            engine.finish(call.id, "failed" if chosen is None else "completed")
        if chosen is None:
            raise _DeclinedError
        return options[chosen].value


def _options(field: Field) -> list[Option]:
    if field.kind == "boolean":
        return [Option(True, "Yes"), Option(False, "No")]
    return list(field.options) if field.kind == "choice" else []


def _asked_for(question: Elicitation, field: Field) -> str:
    about = f": {field.description}" if field.description else ""
    return f"{question.message}\n\n**{field.label}**{about}"


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the form with the keys that the protocol has."""
    properties = schema.get("properties")
    items = properties.items() if isinstance(properties, dict) else ()
    kept = {
        name: {key: value for key, value in each.items() if key in _KEYS}
        for name, each in items
        if isinstance(each, dict)
    }
    required = schema.get("required")
    names = {"required": [name for name in required if name in kept]} if isinstance(required, list) else {}
    return {"type": "object", "properties": kept, **names}
