"""The Task tool and `spawn`: start a sub-agent, wait for it, and return only its result."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET

from outrider.errors import OutriderError, SchemaError
from outrider.prompts import prompt
from outrider.prompts import prompt as prompt_text
from outrider.providers.base import Provider
from outrider.providers.catalogue.tiers import TIERS
from outrider.runtime.agent import Agent
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.offer import Offer
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.subagents.profile import Profile, describe_model
from outrider.tools.approval import Approver
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, make_tool, make_tools

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.runtime.structured_output import Report


TOOL = "Task"
AT_ONCE = 8
"""Sub-agents that one Task tool runs at the same time; the others wait."""
RESULT_CHARACTERS = 10_000
"""Characters that the parent reads of one sub-agent's result; the whole result is stored."""
SHORT_SCHEMA = 10_000
"""Bytes up to which a schema is checked on the event loop."""
_ALIASES = {"generalpurpose": "General"}
"""Names of these profiles in other programs, normalized."""

_STATUS_TEXTS = {
    "max_turns": "its turns were used up",
    "max_total_tokens": "the tokens were used up",
    "max_cost": "the budget was used up",
    "max_seconds": "its time was used up",
    "max_repeats": "it repeated the same calls again and again",
    "cancelled": "it was cancelled",
}


class SubagentSetup(msgspec.Struct, frozen=True):
    """A sub-agent that is ready to start."""

    agent: Agent[Any]
    approve: Approver | None = None
    """The approver of its calls; None for the parent's approver."""
    cwd: Path | None = None
    offer: Callable[[AgentSpec], Offer] | None = None
    """Returns what a request of its session offers beside the tools of its agent."""


PrepareSubagent: TypeAlias = Callable[[Profile, str, str], AbstractContextManager[SubagentSetup]]
"""Set up a sub-agent for a profile, a short title and a requested tier ("" for none); clean up on exit."""


class Task:
    """The Task tool of one session, which starts its sub-agents."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        prepare: PrepareSubagent,
        *,
        at_once: int = AT_ONCE,
        result_characters: int = RESULT_CHARACTERS,
    ) -> None:
        if not isinstance(at_once, int) or at_once < 1:
            raise ValueError(f"at_once is {at_once!r}; at least 1 sub-agent must be able to run")
        self._profiles = _by_name(profiles)
        self._prepare = prepare
        self._at_once = at_once
        self._semaphores: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        self.tool: Tool = make_tool(
            self._run_task,
            name=TOOL,
            built_in=True,
            description=prompt_text("task_tool"),
            effect="idempotent",  # run again after a crash, it resumes the same session
            timeout=math.inf,  # sub-agents have limits of their own
            schema=_parameters(list(self._profiles.values())),
            guidance=partial(guidance, tuple(self._profiles.values())),
            result_characters=result_characters,
            prepare=self._normalize_arguments,
        )

    async def _run_task(
        self,
        context: ToolContext,
        description: str,
        prompt: str,
        subagent_type: str,
        model: str = "",
        output_schema: dict[str, Any] | None = None,
    ) -> ToolResult:
        profile = self._profiles[subagent_type]
        if output_schema is not None and not profile.takes_schemas:  # {} is a schema too
            instead = "leave it out" if profile.output is not None else "ask for text, or use another profile"
            return _not_started(f"{profile.name} takes no output_schema: {instead}")
        try:
            report = await _report(profile, output_schema)
        except SchemaError as error:
            return _not_started(f"output_schema cannot be used: {error}")
        async with self._semaphore():
            with self._prepare(profile, description, model) as setup:
                child = await spawn(context, setup.agent, title=description, approve=setup.approve, cwd=setup.cwd)
                if setup.offer:
                    child.use_offer(setup.offer)
                with child:
                    result = await child.run(_prompt_for(child, prompt), output=report)
        context.wait_for(result.questions)
        return _tool_result(profile, child, result)

    def _normalize_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Drop arguments that are null, and correct the spelling of the profile's name."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if (default := _default_profile(self._profiles)) and "subagent_type" not in given:
            given["subagent_type"] = default
        if isinstance(name := given.get("subagent_type"), str) and name not in self._profiles:
            given["subagent_type"] = self._match_profile(name)
        return given

    def _match_profile(self, name: str) -> str:
        """Return the profile with this name in another spelling, or the name itself if no single one matches."""
        normalized = _normalized(name)
        matches = [each for each in self._profiles if _normalized(each) == normalized]
        if not matches and _ALIASES.get(normalized) in self._profiles:
            return _ALIASES[normalized]
        return matches[0] if len(matches) == 1 else name

    def _semaphore(self) -> asyncio.Semaphore:
        """Return the semaphore of the running loop: an agent may run in several loops, a semaphore in only one."""
        loop = asyncio.get_running_loop()
        if loop not in self._semaphores:
            self._semaphores = {each: found for each, found in self._semaphores.items() if not each.is_closed()}
            self._semaphores[loop] = asyncio.Semaphore(self._at_once)
        return self._semaphores[loop]


async def _report(profile: Profile, schema: Any) -> Report | None:
    """Return what the sub-agent has to report: what its profile says, or what the call says. None for text.

    A long schema is checked in a thread. A short one is checked here, so that its call keeps its place in the order.
    """
    if profile.output is None and schema is None:
        return None
    from outrider.runtime.structured_output import Report  # imports the schemas of types

    if profile.output is not None:
        return Report(profile.output)
    is_short = len(msgspec.json.encode(schema)) <= SHORT_SCHEMA
    make = partial(Report, schema, is_trusted=False)
    return make() if is_short else await asyncio.to_thread(make)


def _prompt_for(child: Session, prompt: str) -> str:
    """Return what to tell the sub-agent: nothing if its session is resumed after a crash."""
    return prompt if child.history.last is None else ""


def _tool_result(profile: Profile, child: Session, result: RunResult[Any]) -> ToolResult:
    """Return the last words of the sub-agent, or its data as JSON."""
    details: dict[str, Any] = {
        "session": child.id,
        "profile": profile.name,
        "status": result.status,
        "turns": result.turns,
        "cost": result.usage.cost,
    }
    if result.value is not UNSET:
        return ToolResult(result.text, details=details | {"structured_output": result.structured_output}, is_json=True)
    words = result.text if result.text.strip() else _last_words(child)
    if result.status == "done":
        return ToolResult(words or "(The sub-agent returned no text.)", details=details)
    why = _reason(result)
    last = f"\n\nIts last message was:\n{words}" if words and words not in why else ""
    return ToolResult(f"The sub-agent did not finish: {why}.{last}", is_error=True, details=details)


def _last_words(child: Session) -> str:
    """Return the newest text of the sub-agent: its last reply may be empty."""
    said = (message.text for message in reversed(child.messages) if message.role == "assistant")
    return next((text for text in said if text.strip()), "")


def _reason(result: RunResult[Any]) -> str:
    """Return why a sub-agent did not finish. An error that says more than a limit comes with it or in its place."""
    limit = _STATUS_TEXTS.get(result.status, "")
    if result.status == "max_repeats" and result.error:
        return result.error
    return ": ".join(filter(None, (limit, result.error))) or result.status


def _not_started(why: str) -> ToolResult:
    return ToolResult(f"No sub-agent was started: {why}.", is_error=True)


def _by_name(profiles: Sequence[Profile]) -> dict[str, Profile]:
    found: dict[str, Profile] = {}
    for profile in profiles:
        if found.setdefault(profile.name, profile) is not profile:
            raise ValueError(f"two profiles are called {profile.name}; give each a name of its own")
    return found


def _normalized(name: str) -> str:
    return name.replace("-", "").replace("_", "").replace(" ", "").casefold()


def _default_profile(names: Collection[str]) -> str | None:
    """Return the profile for a task that names none: the only one, or General."""
    return next(iter(names)) if len(names) == 1 else "General" if "General" in names else None


def _parameters(profiles: Sequence[Profile]) -> Mapping[str, Any]:
    """Return the JSON Schema of the arguments. `output_schema` is offered only if a profile supports it."""
    if not profiles:
        raise OutriderError("there are no profiles, so no sub-agent could be started")
    properties: dict[str, Any] = {
        "description": {"type": "string", "description": "The task in three to six words, shown to the user."},
        "prompt": {
            "type": "string",
            "minLength": 1,
            "description": "The whole task. The sub-agent knows nothing of this conversation: say what it is for, "
            "where to look, what to do and what to leave alone, and what to return.",
        },
        "subagent_type": {
            "type": "string",
            "enum": [profile.name for profile in profiles],
            "description": "Which sub-agent to start.",
        },
    }
    if with_schemas := [profile.name for profile in profiles if profile.takes_schemas]:
        only = "" if len(with_schemas) == len(profiles) else f" Only for: {', '.join(with_schemas)}."
        properties["output_schema"] = _output_schema(only)
    properties["model"] = {
        "type": "string",
        "enum": list(TIERS),
        "description": "The model's tier; leave it out unless the task needs another than the profile's.",
    }
    required = ["description", "prompt"]
    if not _default_profile([profile.name for profile in profiles]):
        required.append("subagent_type")
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _output_schema(only: str) -> Mapping[str, Any]:
    return {
        "type": "object",
        "description": "A JSON Schema. If given, the sub-agent returns data that satisfies it, as JSON, "
        f"instead of text.{only}",
    }


_FOR_TOOLS = r"\[([\w|]+)\] (.*)"
"""A line for agents that have one of these tools; `{tools}` is replaced by the ones that they have."""
_PROFILE = r"\{(\w+)\}"


def guidance(profiles: Sequence[Profile], agent: Agent[Any]) -> str:
    """Return the section for one agent. It names only the agent's own tools and the given profiles."""
    tools = [tool.name for tool in make_tools(agent.tools)]
    lines = _for_tools(prompt("task").splitlines(), tools)
    names = {profile.name for profile in profiles}
    filled = (re.sub(_PROFILE, lambda found: f" ({found[1]})" if found[1] in names else "", line) for line in lines)
    return "\n".join([*filled, "", *_profile_lines(profiles, agent.provider)])


def _for_tools(lines: Iterable[str], tools: Collection[str]) -> Iterator[str]:
    for line in lines:
        condition = re.fullmatch(_FOR_TOOLS, line)
        if not condition:
            yield line
        elif present := [name for name in condition[1].split("|") if name in tools]:
            yield condition[2].replace("{tools}", " or ".join(present))


def _profile_lines(profiles: Iterable[Profile], parent: Provider) -> Iterator[str]:
    for profile in profiles:
        model = describe_model(profile.model, parent, from_project=profile.from_project)
        returns = " Returns JSON." if profile.output is not None else ""
        yield f"- {profile.name}: {' '.join(profile.description.split())}{returns} Model: {model}."


async def spawn(
    context: ToolContext[Any],
    agent: AgentSpec,
    *,
    title: str = "",
    approve: Approver | None = None,
    cwd: Path | None = None,
) -> Session:
    """Open a session for a sub-agent of a running call. The caller runs it and closes it.

    Observers see its events below the call. In a log it is a session of its own. When the call runs again after a
    crash, `spawn` returns the same session with all its messages: continue it with `run()`. A sub-agent cannot start
    others. It uses the approver of the call's session unless `approve` is given. Its usage counts towards the call's
    run.
    """
    session: Session = await context.open_child(agent, title, approve, cwd)
    return session
