"""The types that the vendors' SDKs define. Importing the SDKs takes seconds: a test that needs them does so itself."""

from __future__ import annotations

from typing import Any, get_args

from anthropic.types.beta import BetaContentBlock, BetaRawContentBlockDelta, BetaRawMessageStreamEvent, BetaStopReason
from google.genai import types as google
from openai.types.chat import ChatCompletionMessageToolCallUnion
from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta
from openai.types.responses import ResponseOutputItem, ResponseOutputMessage, ResponseStreamEvent
from openai.types.responses.response import IncompleteDetails
from openai.types.responses.response_error import ResponseError

from tests.sdk_samples import members, tag, values

_UNIONS: dict[str, Any] = {
    "anthropic blocks": BetaContentBlock,
    "anthropic deltas": BetaRawContentBlockDelta,
    "anthropic events": BetaRawMessageStreamEvent,
    "responses items": ResponseOutputItem,
    "responses events": ResponseStreamEvent,
    "responses parts": get_args(ResponseOutputMessage.model_fields["content"].annotation)[0],
    "chat calls": ChatCompletionMessageToolCallUnion,
}
_MODELS: dict[str, Any] = {
    "chat delta fields": ChoiceDelta,
    "gemini part fields": google.Part,
    "gemini candidate fields": google.Candidate,
}
_WORDS: dict[str, set[str]] = {
    "anthropic stop reasons": values(BetaStopReason),
    "responses incomplete reasons": values(IncompleteDetails.model_fields["reason"].annotation),
    "responses error codes": values(ResponseError.model_fields["code"].annotation),
    "chat finish reasons": values(Choice.model_fields["finish_reason"].annotation),
    "gemini finish reasons": {each.value for each in google.FinishReason},
    "gemini block reasons": {each.value for each in google.BlockedReason},
}


def defined() -> dict[str, list[str]]:
    """The names in each table, in the form of `sdk_types.json`."""
    tagged = {table: [tag(member) for member in members(union)] for table, union in _UNIONS.items()}
    fields = {table: list(model.model_fields) for table, model in _MODELS.items()}
    return {table: sorted(names) for table, names in (tagged | fields | _WORDS).items()}


def member(table: str, name: str) -> Any:
    """The member of a union that has this name on the wire."""
    [found] = [member for member in members(_UNIONS[table]) if tag(member) == name]
    return found


def model(table: str) -> Any:
    """The model whose fields are in this table."""
    return _MODELS[table]


def field(table: str, name: str) -> Any:
    """The type of a field of the model whose fields are in this table."""
    return _MODELS[table].model_fields[name].annotation
