"""An agent: a frozen description of who answers, with which tools, within which limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import msgspec

from outrider.limits import Limits
from outrider.provider import Provider
from outrider.providers import resolve
from outrider.tools import make_tools


class Agent(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Who answers: a model, its instructions, its tools and its limits. Many sessions may share one agent.

    >>> def shout(text: str) -> str:
    ...     "Say it louder."
    ...     return text.upper()
    >>> Agent(model="demo", tools=[shout]).tools[0].description
    'Say it louder.'
    """

    model: str | Provider
    system: str = ""
    """The system prompt."""
    tools: Sequence[Callable[..., Any]] = ()
    """Functions, which are made into tools, and tools."""
    limits: Limits = Limits()
    name: str = "agent"

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "tools", make_tools(self.tools))

    @cached_property
    def provider(self) -> Provider:
        """Who answers to the model's name. The agent's sessions share it, and with it its connections."""
        return resolve(self.model)
