"""Requests for which the server needs input first.

Since 2026-07-28 the result of a request may ask for input; the request is then sent again with the answers. In version
2025-11-25 an error may name pages that the person must open first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from outrider.errors import McpError
from outrider.mcp.handshake import decoded
from outrider.mcp.protocol import ELICIT, URL_ELICITATION_REQUIRED, Outcome

T = TypeVar("T", bound=Outcome)
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[msgspec.Raw]]
AnswerServer: TypeAlias = Callable[[str, msgspec.Raw], Awaitable[Any]]

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


async def call_with_input(
    send: Send, params: dict[str, Any], type: type[T], answer: AnswerServer, name: str, method: str, rounds: int
) -> T:
    """Send a request, and again with the answers to what the server asks for, at most `rounds` times.

    Raises McpError if the server asks too often, or for something that is refused.
    """
    pause = _FIRST_PAUSE
    sent = params
    for _ in range(rounds + 1):
        try:
            raw = await send(sent)
        except McpError as error:
            if error.code != URL_ELICITATION_REQUIRED:
                raise
            await _open_pages(error, answer)
            continue
        outcome = decoded(raw, type, name, method)
        if outcome.result_type == "complete":
            return outcome
        if outcome.result_type != "input_required":
            raise McpError(f"The MCP server {name} sent a result of an unknown type, {outcome.result_type[:40]!r}.")
        sent = dict(params)
        if asked := outcome.input_requests:  # answered one after the other: two questions at once would confuse
            sent["inputResponses"] = {key: await answer(each.method, each.params) for key, each in asked.items()}
        else:  # the server only needs more time
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        if outcome.request_state is not None:
            sent["requestState"] = outcome.request_state
    raise McpError(f"The MCP server {name} asked for input more than {rounds} times for one {method}.")


async def _open_pages(error: McpError, answer: AnswerServer) -> None:
    """Ask the person to open the pages that the server names. Raises the error again if one is not opened."""
    pages = error.data.get("elicitations") if isinstance(error.data, dict) else None
    if not isinstance(pages, list) or not pages:
        raise error
    for page in pages:
        result = await answer(ELICIT, msgspec.Raw(msgspec.json.encode(page)))
        if result.get("action") != "accept":
            raise error
