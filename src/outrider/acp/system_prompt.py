"""The system prompt that an editor gives with `_meta.systemPrompt`, as other agents take it."""

from __future__ import annotations

from outrider.acp.connection import RpcError
from outrider.acp.schema.base import Meta
from outrider.coding.system_prompt import USUAL_PROMPT, SystemPrompt

MAX_CHARACTERS = 100_000
_USAGE = '_meta.systemPrompt must be a text, or {"append": a text}'


def system_prompt_of(meta: Meta | None) -> SystemPrompt:
    """Return the system prompt in the `_meta` of a request. Raises RpcError if it cannot be used."""
    given = (meta or {}).get("systemPrompt")
    match given:
        case None:
            return USUAL_PROMPT
        case str():
            prompt = SystemPrompt(given)
        case {"append": str(appended)}:
            prompt = SystemPrompt(appended=appended)
        case _:
            raise RpcError.invalid_params(_USAGE)
    if len(prompt.replacement or prompt.appended) > MAX_CHARACTERS:
        raise RpcError.invalid_params(f"_meta.systemPrompt is longer than {MAX_CHARACTERS:,} characters")
    return prompt
