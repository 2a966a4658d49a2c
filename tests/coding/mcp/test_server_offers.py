"""The arguments of a prompt, as people type them after its name."""

from __future__ import annotations

import pytest

from outrider.coding.mcp.server_offers import arguments_of, usage_of
from outrider.errors import McpError
from outrider.mcp.protocol import Prompt, PromptArgument

REVIEW = Prompt("review", arguments=[PromptArgument("file", required=True), PromptArgument("focus")])


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("a.py", {"file": "a.py"}),
        ("a.py the error paths", {"file": "a.py", "focus": "the error paths"}),
        ("'my file.py' speed", {"file": "my file.py", "focus": "speed"}),
        ("focus=speed a.py", {"file": "a.py", "focus": "speed"}),
        ("file=x=y", {"file": "x=y"}),
        ("a.py it's slow", {"file": "a.py", "focus": "it's slow"}),
        ("a.py other=1", {"file": "a.py", "focus": "other=1"}),
    ],
)
def test_words_become_arguments(line: str, arguments: dict[str, str]) -> None:
    assert arguments_of(REVIEW, line) == arguments


def test_a_missing_argument_and_one_too_many_say_how_to_write_it() -> None:
    with pytest.raises(McpError, match=r"^The prompt needs file\. Write: /SERVER:review FILE \[FOCUS\]$"):
        arguments_of(REVIEW, "")
    with pytest.raises(McpError, match="takes no more arguments"):
        arguments_of(Prompt("plain"), "something")
    assert usage_of(Prompt("plain")) == ""
