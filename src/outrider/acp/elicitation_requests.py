"""Asks the user for MCP servers: with a form of the editor, or as a choice where an editor has no forms."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from outrider.acp.choice_requests import pick_option
from outrider.acp.client import AskingSession
from outrider.acp.schema import CreateElicitationRequest, ToolCallFields
from outrider.acp.tool_calls import MAX_TITLE, single_line
from outrider.acp.updates.call_state import CallState, Text
from outrider.coding.mcp.forms import Field, Option, fields_of
from outrider.jsonrpc import RpcError
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
from outrider.text.visible import safe_lines

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
