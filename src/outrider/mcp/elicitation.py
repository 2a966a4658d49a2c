"""Questions of servers to the person: a form to fill in, or a page to open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

import msgspec

from outrider.errors import McpError
from outrider.mcp.handshake import decoded
from outrider.mcp.protocol import ELICIT, INVALID_PARAMS, RELATED_TASK_KEY, ElicitParams
from outrider.mcp.schemas import accepted_schema
from outrider.text.visible import plain_text, revealed

_LONGEST_MESSAGE = 4_000
_LONGEST_URL = 4_000


class Elicitation(msgspec.Struct, frozen=True):
    server: str
    message: str
    schema: dict[str, Any] | None = None
    """The JSON Schema of the answer: an object of strings, numbers, booleans and choices. None if `url` is set."""
    url: str = ""
    """A page for the person to open, for example to sign in. Show the address and ask before opening it."""


class ElicitationAnswer(msgspec.Struct, frozen=True):
    """The person's answer. `content` satisfies the schema of the question."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


OnElicit: TypeAlias = Callable[[Elicitation], Awaitable[ElicitationAnswer]]
"""Asks the person. Declines if there is no one to ask."""


async def elicit(server: str, params: msgspec.Raw, ask: OnElicit) -> dict[str, Any]:
    """Ask the person, and return the result for the server. Raises McpError if the question is not valid."""
    asked = decoded(params, ElicitParams, server, ELICIT)
    question = _question(server, asked)
    answer = await ask(question)
    result: dict[str, Any] = {"action": answer.action}
    if answer.action == "accept" and question.schema is not None:
        result["content"] = with_defaults(question.schema, answer.content or {})
    if asked.meta and RELATED_TASK_KEY in asked.meta:
        result["_meta"] = {RELATED_TASK_KEY: asked.meta[RELATED_TASK_KEY]}
    return result


def with_defaults(schema: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """Return the content with the schema's defaults for fields that the person left empty.

    >>> with_defaults({"properties": {"n": {"default": 3}, "s": {}}}, {"s": "x"})
    {'n': 3, 's': 'x'}
    """
    properties = schema.get("properties")
    fields = properties.items() if isinstance(properties, dict) else ()
    defaults = {name: each["default"] for name, each in fields if isinstance(each, dict) and "default" in each}
    return {**defaults, **content}


def _question(server: str, asked: ElicitParams) -> Elicitation:
    message = plain_text(revealed(asked.message), _LONGEST_MESSAGE)
    if asked.mode == "url":
        url = asked.url or ""
        if not url.startswith(("https://", "http://")) or len(url) > _LONGEST_URL or not url.isprintable():
            raise McpError("The url of the elicitation is not a web address.", code=INVALID_PARAMS)
        return Elicitation(server, message, url=url)
    if asked.mode != "form":
        raise McpError(f"The mode {asked.mode[:40]!r} of elicitation is not supported.", code=INVALID_PARAMS)
    try:
        schema = accepted_schema(asked.requested_schema or {}).json
    except McpError as error:
        raise McpError(f"The form of the elicitation is not valid: {error}", code=INVALID_PARAMS) from None
    return Elicitation(server, message, schema)
