"""What a person is asked about a call, and what they answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

Mode: TypeAlias = Literal["ask", "edits", "all", "plan"]
"""`ask` before anything that changes something; `edits` inside the folder are free; `all` is; `plan` only reads."""

MODES: tuple[Mode, ...] = ("ask", "edits", "all", "plan")
MODE_WORDS: Mapping[Mode, str] = {
    "ask": "You are asked before anything is changed.",
    "edits": "Files in the folder are changed without asking; commands are asked about.",
    "all": "You are asked only about what rules name; secrets stay closed.",
    "plan": "Nothing is changed: the model reads and plans.",
}


class Question(msgspec.Struct, frozen=True):
    """A call that is not allowed yet."""

    call_id: str
    tool: str
    input: dict[str, Any]
    reason: str
    """Why it is asked about, in a few words."""
    always: tuple[str, ...] = ()
    """The rules that would allow it, and calls like it, for this project; none if it cannot be allowed for good."""
    asker: str = ""
    """Who wants to make the call, if it is a sub-agent: what it is and what it is to do.

    Or the tool that attaches a file: that is asked about as Read of the file, while the call of the tool goes on.
    """


class Answer(msgspec.Struct, frozen=True):
    """What the person says."""

    verdict: Literal["once", "always", "no"]
    words: str = ""
    """What to tell the model with a refusal."""


Ask: TypeAlias = Callable[[Question], Awaitable[Answer]]
