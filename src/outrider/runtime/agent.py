"""An agent: a frozen description of who answers, with which tools, within which limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from outrider.conversation.prompt import Prompt
from outrider.providers import resolve
from outrider.providers.base import Provider
from outrider.runtime.limits import Limits
from outrider.tools.tool import make_tools

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.conversation.store import AttachmentStore
    from outrider.runtime.events import Event
    from outrider.tools.approval import Approver

T = TypeVar("T")


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

    @overload
    async def ask(
        self,
        prompt: Prompt,
        *,
        cwd: str | Path | None = None,
        store: AttachmentStore | None = None,
        observer: Callable[[Event], None] | None = None,
        approve: Approver | None = None,
    ) -> str: ...
    @overload
    async def ask(
        self,
        prompt: Prompt,
        output: type[T],
        *,
        cwd: str | Path | None = None,
        store: AttachmentStore | None = None,
        observer: Callable[[Event], None] | None = None,
        approve: Approver | None = None,
    ) -> T: ...
    @overload
    async def ask(
        self,
        prompt: Prompt,
        output: Any,
        *,
        cwd: str | Path | None = None,
        store: AttachmentStore | None = None,
        observer: Callable[[Event], None] | None = None,
        approve: Approver | None = None,
    ) -> Any: ...
    async def ask(self, prompt: Prompt, output: Any = None, **session: Any) -> Any:
        """Ask in a session of its own, and get the answer: text, or what `output` describes.

        `output` is a Python type, of which a value comes back, or a JSON Schema, for which decoded JSON does. `cwd`,
        `store`, `observer` and `approve` are those of a Session. Raises AnswerError if no answer comes;
        its `result` has the run.

        >>> import asyncio
        >>> asyncio.run(Agent(model="demo").ask("What is 2+2?"))
        '4'
        """
        from outrider.runtime.answers import answer  # it needs the loop, which needs agents

        return await answer(self, prompt, output, **session)

    @cached_property
    def instructions(self) -> str:
        """The system prompt, with what the tools have to say in it."""
        guidance = (tool.guidance_for(self) for tool in make_tools(self.tools))
        return "\n\n".join(part for part in (self.system, *guidance) if part.strip())

    @cached_property
    def provider(self) -> Provider:
        """Who answers to the model's name. The agent's sessions share it, and with it its connections."""
        return resolve(self.model)
