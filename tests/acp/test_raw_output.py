"""The details of a finished call as `rawOutput`: reported data stays, and one long value does not hide the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from outrider.acp.tool_calls import final_fields
from outrider.acp.updates.call_state import CallState
from outrider.conversation.messages import TextBlock, ToolResultBlock

SHORT = {"session": "a", "status": "done"}


@pytest.mark.parametrize(
    ("details", "kept"),
    [
        (SHORT, SHORT),
        (SHORT | {"long": "x" * 10_000}, SHORT),
        ({"structured_output": {"n": "x" * 20_000}} | SHORT, {"structured_output": {"n": "x" * 20_000}} | SHORT),
        (SHORT | {"structured_output": "x" * 100_000}, SHORT),
        ({"diff": "- a", "todos": []}, UNSET),
        (None, UNSET),
    ],
)
def test_what_an_editor_gets_of_the_details(details: Any, kept: Any) -> None:
    result = ToolResultBlock("c", (TextBlock("done"),))
    assert final_fields(CallState("c", "Task"), result, details, Path("/"))["raw_output"] == kept
