"""The frozen description of an agent, as the loop uses it. `Agent` adds the verbs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from outrider.prompts import prompt as prompt_text
from outrider.providers.base import CacheLifetime, Effort, ModelSettings, Provider
from outrider.providers.resolution import resolve_all, several
from outrider.runtime.budget import NO_BUDGET, Budget
from outrider.runtime.compaction import Compaction
from outrider.runtime.hooks import NO_HOOKS, Hooks
from outrider.runtime.limits import Limits
from outrider.runtime.retry import Retry
from outrider.runtime.system_prompt import SystemFunction, check_system
from outrider.tools.context import AnyDepsT
from outrider.tools.server_tool import ServerTool, separate
from outrider.tools.tool import Tool, check_tool_list, make_tools

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.mcp.session_servers import Mcp
    from outrider.runtime.answer_schema import AnswerSchema
    from outrider.skills.skill import Skill
else:
    AnswerSchema = Mcp = Skill = Any  # tools that evaluate annotations, such as help(), need not import these

Self = TypeVar("Self", bound="AgentSpec[Any]")


class _Answering(msgspec.Struct, frozen=True, dict=True):
    """The one field that is given by position."""

    model: str | Provider
    """The name of the model, or a provider object. Of several that are given, the first; the others are `fallbacks`."""


class AgentSpec(_Answering, Generic[AnyDepsT], frozen=True, kw_only=True, dict=True):
    """A model with its instructions, tools, settings and limits. Many sessions may share one."""

    system: str | SystemFunction[AnyDepsT] = ""
    """The system prompt, or a function that returns it for each run; it may be async."""
    situation: str = ""
    """What differs from session to session, such as the folder and the date. It begins the first message, so that
    the provider's prompt cache holds for the tools and the system prompt."""
    tools: tuple[Tool, ...] = ()
    """The tools; functions that are given here are made into tools."""
    server_tools: tuple[ServerTool, ...] = ()
    """Tools that the model's API runs itself. Those that are given in `tools` move here."""
    mcp: Mcp = ()
    """MCP servers, whose tools join the agent's: descriptions, which each session starts for itself, or
    `RunningServers`, which sessions share."""
    skills: tuple[Skill, ...] = ()
    """Skills, which the model reads when a task needs one; folders that are given here are read. Without a tool named
    Read the agent gets one that reads the files of its skills."""
    hooks: Hooks = NO_HOOKS
    """Async functions that are called at certain points, such as before each call of a tool."""
    limits: Limits = Limits()
    """Where a run stops."""
    budget: Budget = NO_BUDGET
    """US dollars that a day may cost, over all sessions of the log."""
    compaction: Compaction | None = Compaction()
    """When a conversation is shortened because the model's context window fills up. None: never. Each request then has
    the whole conversation, and one that does not fit raises ContextExceededError."""
    retry: Retry = Retry()
    """How long a request is retried that failed for the moment."""
    name: str = "agent"
    """The name that observers and logs show, and other agents hand over to."""
    description: str = ""
    """What the agent is for, in a sentence that agents read that may hand over to it."""
    handoffs: tuple[AgentSpec[Any] | str, ...] = ()
    """The agents that the model may hand the conversation over to. One that leads back is given by its name."""
    deps_type: type[AnyDepsT] | None = None
    """The type of the dependencies that tools receive as `ToolContext.deps`. A run or its session gives them."""
    effort: Effort | None = None
    """How much a reasoning model thinks; None for the provider's default."""
    temperature: float | None = None
    """The sampling temperature; None for the provider's default."""
    max_tokens: int | None = None
    """The longest reply, in tokens; None for the default of the model."""
    tool_choice: str | None = None
    """`auto`, `required`, `none` or the name of a tool. It holds for the first request of a run."""
    keeps_on_task: bool = False
    """Whether each request after results repeats the task, for a small model, which is also warned at once if it
    repeats a call."""
    options: Mapping[str, Any] = {}
    """Fields for the body of each request, as the provider's API has them, for what no argument covers."""
    cache: CacheLifetime | None = None
    """How long the provider keeps the prompt cache after each request, where that can be chosen: `5m` or `1h`, which
    costs more to write and saves it when people pause. None for the provider's default."""
    fallbacks: tuple[str | Provider, ...] = ()
    """The models that are asked, in this order, if `model` cannot answer."""
    answer: AnswerSchema | None = None
    """The schema that the API holds the answers to. `Report.attached_to` sets it."""

    def __post_init__(self) -> None:
        first, *others = several(self.model)
        if others or first is not self.model:
            msgspec.structs.force_setattr(self, "model", first)
            msgspec.structs.force_setattr(self, "fallbacks", tuple(others))
        if not isinstance(self.system, str):
            check_system(self.system)
        functions, served = separate((*self.server_tools, *check_tool_list(self.tools)))
        tools = make_tools(functions)
        if self.skills:
            skills, reading = _skills_with_tools(self.skills, [tool.name for tool in tools])
            msgspec.structs.force_setattr(self, "skills", skills)
            tools = make_tools((*tools, *reading))
        msgspec.structs.force_setattr(self, "tools", tools)
        msgspec.structs.force_setattr(self, "server_tools", tuple(served))
        self._check_types()
        if self.mcp:
            msgspec.structs.force_setattr(self, "mcp", _checked_servers(self.mcp))
        choice = self.tool_choice
        names = [tool.name for tool in self.tools]
        if self.handoffs:
            msgspec.structs.force_setattr(self, "handoffs", _checked_handoffs(self.handoffs))
        served_later = bool(self.mcp and choice and choice.startswith("mcp__"))
        if choice is not None and not served_later and choice not in ("auto", "required", "none", *names):
            known = ", ".join(names) or "none"
            raise ValueError(f"tool_choice is {choice!r}; it is auto, required, none, or a tool of the agent ({known})")
        self.settings  # noqa: B018 - refuses wrong values now, not in the first request

    def _check_types(self) -> None:
        """Refuse values of another type now: the loop would fail on them with an error that names neither."""
        for name in ("situation", "name", "description"):
            if not isinstance(value := getattr(self, name), str):
                raise TypeError(f"{name} must be a string, not {type(value).__name__}; leave it out for none")
        wanted = {
            "hooks": (Hooks, "before_tool=check"),
            "limits": (Limits, "max_turns=10"),
            "budget": (Budget, "day=5.0"),
            "retry": (Retry, "seconds=60"),
        }
        for name, (kind, example) in wanted.items():
            if not isinstance(value := getattr(self, name), kind):
                word = kind.__name__
                raise TypeError(f"{name} must be {word}(…), as in {word}({example}), not {type(value).__name__}")
        if not isinstance(self.compaction, Compaction | None):
            raise TypeError("compaction must be Compaction(…), or None to turn it off")
        if not isinstance(self.options, Mapping):
            raise TypeError(f"options must be a mapping of fields of the request, not {type(self.options).__name__}")

    @cached_property
    def settings(self) -> ModelSettings:
        """The settings of each request."""
        limited = self.effort, self.temperature, self.max_tokens, self.tool_choice
        return ModelSettings(*limited, dict(self.options), self.cache)

    @cached_property
    def system_prompt(self) -> str:
        """The system prompt, with the guidance of the tools. One that is a function is not called here."""
        guidance = (tool.guidance_for(self) for tool in self.tools)
        answer = prompt_text("output_answer") if self.answer else ""
        parts = (self.stored_system, *guidance, self._skills_section(), answer)
        return "\n\n".join(part for part in parts if part.strip())

    @property
    def stored_system(self) -> str:
        """The system prompt that a log keeps; "" if it is a function, whose texts the log has with the requests."""
        return self.system if isinstance(self.system, str) else ""

    def _skills_section(self) -> str:
        if not self.skills:
            return ""
        from outrider.skills.skill import (
            INDEX,
            list_skills,  # most agents have no skills
        )

        return list_skills(self.skills, INDEX).text

    @property
    def provider(self) -> Provider:
        """The provider of the model. The agent's sessions share it, and with it its connections."""
        return self.providers[0]

    @cached_property
    def providers(self) -> tuple[Provider, ...]:
        """The providers of the model and of its fallbacks."""
        return resolve_all((self.model, *self.fallbacks))

    def alternatives(self: Self) -> Iterator[Self]:
        """Yield the agent with each of its fallbacks as the model; the ones before it become the last fallbacks."""
        models, providers = (self.model, *self.fallbacks), self.providers
        for at in range(1, len(models)):
            other = self.replace(model=models[at], fallbacks=(*models[at + 1 :], *models[:at]))
            other.__dict__["providers"] = (*providers[at:], *providers[:at])  # the same connections
            yield other

    def replace(self: Self, **changes: Any) -> Self:
        """Return a copy with these fields changed. Another `model` replaces the fallbacks as well.

        >>> AgentSpec("demo").replace(system="Be brief.").system
        'Be brief.'
        """
        if "model" in changes:
            changes.setdefault("fallbacks", ())
        return msgspec.structs.replace(self, **changes)


def _skills_with_tools(
    skills: Sequence[Skill | str | Path], names: Sequence[str]
) -> tuple[tuple[Skill, ...], list[Tool]]:
    """Return the skills, read from their folders, and the tools that the agent lacks to read them."""
    from outrider.skills.skill import (
        INDEX,
        Skill,
        list_skills,  # most agents have no skills
        skill_tools,
    )

    if isinstance(skills, str | os.PathLike):
        raise TypeError("skills must be a list of folders, as in skills=['skills/pdf']")
    found = tuple(map(Skill.of, skills))
    return found, [tool for tool in skill_tools(found, list_skills(found, INDEX).unlisted) if tool.name not in names]


def _checked_handoffs(handoffs: Iterable[Any]) -> tuple[AgentSpec[Any] | str, ...]:
    if isinstance(handoffs, AgentSpec | str):
        raise TypeError("handoffs must be a list of agents; write handoffs=[…]")
    for each in (given := tuple(handoffs)):
        if not isinstance(each, AgentSpec | str):
            raise TypeError(f"handoffs has agents, or the names of agents, not {type(each).__name__}")
    return given


def _checked_servers(mcp: Mcp) -> Mcp:
    """Return the servers. Raises TypeError for anything else, and ConfigError if two have the same name."""
    from outrider.mcp.session_servers import checked_servers  # imports MCP, which most agents do not need

    return checked_servers(mcp)


def check_agent(agent: object) -> None:
    if not isinstance(agent, AgentSpec):
        raise TypeError(f"a session is held with an Agent, not with {type(agent).__name__}; write Agent(model)")
