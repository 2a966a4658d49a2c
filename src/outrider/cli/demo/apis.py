"""The four model APIs, and the request that a conversation becomes for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec

from outrider.coding.stored_request import sending_provider
from outrider.providers.base import Request
from outrider.runtime.session import Session

Json: TypeAlias = dict[str, Any]


class Api(NamedTuple):
    """An API and a model to render requests for."""

    name: str
    model: str
    results: str
    """The form of tool results in this API."""


APIS = (
    Api("Anthropic Messages", "anthropic/claude-sonnet-5-5", "blocks of one user message"),
    Api("OpenAI Responses", "openai/gpt-6.1-terra", "items of the input"),
    Api("OpenAI Chat", "openai-chat/gpt-6.1-terra", "messages of the role tool"),
    Api("Gemini", "gemini/gemini-4-argon", "parts of one user content"),
)
LOCAL = Api("a small local model", "ollama/qwen3", "messages of the role tool")


def body_for(api: Api, session: Session) -> Json:
    """Return the request body for the session's conversation."""
    body = sending_provider(api.model).render(Request(session.history.sendable(), session.store))
    decoded: Json = msgspec.json.decode(body)
    return decoded


def parts_of(value: Any) -> Iterator[Json]:
    """Yield every object in a request, outer objects first."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts_of(item)


def results_of(body: Json) -> list[Json]:
    """Return the tool results in a request, whatever the API calls them."""
    return [
        part
        for part in parts_of(body)
        if part.get("type") in ("tool_result", "function_call_output")
        or part.get("role") == "tool"
        or "functionResponse" in part
    ]
