"""The frozen description of an agent, as the loop uses it. `Agent` adds the verbs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from outrider.prompts import prompt as prompt_text
from outrider.providers import resolve
from outrider.providers.base import Effort, ModelSettings, Provider
from outrider.runtime.answer_schema import AnswerSchema
from outrider.runtime.compaction import Compaction
from outrider.runtime.limits import Limits
from outrider.runtime.retry import Retry
from outrider.tools.server_tool import ServerTool, separate
from outrider.tools.tool import Tool, check_tool_list, make_tools

if TYPE_CHECKING:
    from outrider.runtime.session_servers import Mcp
else:
    Mcp = Any  # tools that evaluate annotations, such as help(), need not import MCP

Self = TypeVar("Self", bound="AgentSpec")


class _Answering(msgspec.Struct, frozen=True, dict=True):
    """The one field that is given by position."""

    model: str | Provider
    """The name of the model, or a provider object."""


class AgentSpec(_Answering, frozen=True, kw_only=True, dict=True):
    """A model with its instructions, tools, settings and limits. Many sessions may share one."""

    system: str = ""
    """The system prompt."""
    situation: str = ""
    """What differs from session to session, such as the folder and the date. It ends the system prompt, so that the
    provider's prompt cache holds for all that is before it."""
    tools: tuple[Tool, ...] = ()
    """The tools; functions that are given here are made into tools."""
    server_tools: tuple[ServerTool, ...] = ()
    """Tools that the model's API runs itself. Those that are given in `tools` move here."""
    mcp: Mcp = ()
    """MCP servers, whose tools join the agent's: descriptions, which each session starts for itself, or
    `RunningServers`, which sessions share."""
    limits: Limits = Limits()
    """Where a run stops."""
    compaction: Compaction = Compaction()
    """When a conversation is shortened because the model's context window fills up."""
    retry: Retry = Retry()
    """How long a request is retried that failed for the moment."""
    name: str = "agent"
    """The name that observers and logs show."""
    deps: Any = None
    """The dependencies that tools receive as `ToolContext.deps`."""
    effort: Effort | None = None
    """How much a reasoning model thinks; None for the provider's default."""
    temperature: float | None = None
    """The sampling temperature; None for the provider's default."""
    max_tokens: int | None = None
    """The longest reply, in tokens; None for the default of the model."""
    tool_choice: str | None = None
    """`auto`, `required`, `none` or the name of a tool. It holds for the first request of a run."""
    options: Mapping[str, Any] = {}
    """Fields for the body of each request, as the provider's API has them, for what no argument covers."""
    answer: AnswerSchema | None = None
    """The schema that the API holds the answers to. `Report.attached_to` sets it."""

    def __post_init__(self) -> None:
        functions, served = separate((*self.server_tools, *check_tool_list(self.tools)))
        msgspec.structs.force_setattr(self, "tools", make_tools(functions))
        msgspec.structs.force_setattr(self, "server_tools", tuple(served))
        if self.mcp:
            msgspec.structs.force_setattr(self, "mcp", _checked_servers(self.mcp))
        choice = self.tool_choice
        names = [tool.name for tool in self.tools]
        served_later = bool(self.mcp and choice and choice.startswith("mcp__"))
        if choice is not None and not served_later and choice not in ("auto", "required", "none", *names):
            known = ", ".join(names) or "none"
            raise ValueError(f"tool_choice is {choice!r}; it is auto, required, none, or a tool of the agent ({known})")
        self.settings  # noqa: B018 - refuses wrong values now, not in the first request

    @cached_property
    def settings(self) -> ModelSettings:
        """The settings of each request."""
        return ModelSettings(self.effort, self.temperature, self.max_tokens, self.tool_choice, dict(self.options))

    @cached_property
    def instructions(self) -> str:
        """The system prompt, with the guidance of the tools."""
        guidance = (tool.guidance_for(self) for tool in self.tools)
        answer = prompt_text("output_answer") if self.answer else ""
        return "\n\n".join(part for part in (self.system, *guidance, answer, self.situation) if part.strip())

    @cached_property
    def provider(self) -> Provider:
        """The provider of the model. The agent's sessions share it, and with it its connections."""
        return resolve(self.model)

    def replace(self: Self, **changes: Any) -> Self:
        """Return a copy with these fields changed.

        >>> AgentSpec("demo").replace(system="Be brief.").system
        'Be brief.'
        """
        return msgspec.structs.replace(self, **changes)


def _checked_servers(mcp: Mcp) -> Mcp:
    """Return the servers. Raises TypeError for anything else, and ConfigError if two have the same name."""
    from outrider.runtime.session_servers import checked_servers  # imports MCP, which most agents do not need

    return checked_servers(mcp)
