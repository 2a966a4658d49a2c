"""A call that the reply was cut off in is not run with the arguments that it happens to have."""

from __future__ import annotations

import pytest

from outrider.providers.adapters.anthropic import Anthropic
from tests.adapters import heard

START = b'data: {"type":"message_start","message":{"usage":{"input_tokens":1}}}\n\n'
CALL = (
    b'data: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"tool_use","id":"t1","name":"wipe","input":{}}}\n\n'
)
CLOSED = b'data: {"type":"content_block_stop","index":0}\n\n'
STOP = b'data: {"type":"message_stop"}\n\n'


def piece(text: str) -> bytes:
    escaped = text.replace('"', '\\"')
    delta = f'{{"type":"input_json_delta","partial_json":"{escaped}"}}'
    return f'data: {{"type":"content_block_delta","index":0,"delta":{delta}}}\n\n'.encode()


def ended(reason: str) -> bytes:
    return f'data: {{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}\n\n'.encode() + STOP


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal"])
@pytest.mark.parametrize("rest", [CLOSED, b"", piece("") + CLOSED, piece('{"path": "/"}'), piece('{"path": "')])
def test_it_is_kept_as_text_and_marked_as_no_arguments(reason: str, rest: bytes) -> None:
    reply = heard(Anthropic("claude-sonnet-4-5"), START + CALL + rest + ended(reason))[-1]
    (call,) = reply.message.tool_calls  # type: ignore[union-attr]
    assert call.input == {}
    assert call.invalid_input is not None


@pytest.mark.parametrize(("rest", "arguments"), [(CLOSED, {}), (piece('{"path": "a"}') + CLOSED, {"path": "a"})])
def test_a_whole_call_is_one(rest: bytes, arguments: dict[str, str]) -> None:
    reply = heard(Anthropic("claude-sonnet-4-5"), START + CALL + rest + ended("tool_use"))[-1]
    (call,) = reply.message.tool_calls  # type: ignore[union-attr]
    assert (call.input, call.invalid_input) == (arguments, None)
