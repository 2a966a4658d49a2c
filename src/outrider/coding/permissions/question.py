"""The modes, and the question to the user about a call with its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

Mode: TypeAlias = Literal["ask", "edits", "all", "plan"]
"""`ask` before anything changes; allow `edits` in the folder; allow `all` calls; `plan` only reads."""

MODES: tuple[Mode, ...] = ("ask", "edits", "all", "plan")
MODE_WORDS: Mapping[Mode, str] = {
    "ask": "You are asked before anything is changed.",
    "edits": "Files in the folder are changed without asking, also by commands in the sandbox.",
    "all": "You are asked only about what rules name; secrets stay closed.",
    "plan": "Nothing is changed: the model reads and plans.",
}


WIDTH: tuple[Mode, ...] = ("plan", "ask", "edits", "all")
"""The modes, from the one that allows the least."""


def parse_mode(name: str | None) -> Mode | None:
    """Return the mode of that name, or None."""
    return next((mode for mode in MODES if mode == name), None)


def narrower(one: Mode, other: Mode) -> Mode:
    """Return the mode that allows less.

    >>> narrower("edits", "ask")
    'ask'
    """
    return min(one, other, key=WIDTH.index)


ALL_EDITS = "yes, and all edits in this session (permissions: edits)"


class Question(msgspec.Struct, frozen=True):
    """A call that needs approval."""

    call_id: str
    tool: str
    input: dict[str, Any]
    reason: str
    """Why the call needs approval, in a few words."""
    always: tuple[str, ...] = ()
    """The rules that "always" would store for this project; none if no rule can allow the call."""
    asker: str = ""
    """The caller, if it is a sub-agent: its profile and its task.

    Or the tool that attaches a file: that question is about a Read of the file, while the call of the tool goes on. Or
    the model that wants to use a tool of its API: that question is about the tool as a whole.
    """


class Answer(msgspec.Struct, frozen=True):
    """The user's answer."""

    verdict: Literal["once", "edits", "always", "no", "never"]
    """`edits` allows the call, and all edits in this session. `never` denies calls like this one in this session."""
    words: str = ""
    """What the model reads with a denial."""


Ask: TypeAlias = Callable[[Question], Awaitable[Answer]]
