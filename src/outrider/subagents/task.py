"""The Task tool: sends a sub-agent out, waits for it, and hands up only what it came to."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from outrider.errors import OutriderError, SchemaError
from outrider.prompts import prompt as prompt_text
from outrider.providers.tiers import TIERS
from outrider.runtime.agent import Agent
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.runtime.structured_output import Report, run_to_report
from outrider.subagents.guidance import guidance
from outrider.subagents.profile import Profile
from outrider.subagents.spawning import spawn
from outrider.tools.approval import Approver
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool, make_tool

TOOL = "Task"
AT_ONCE = 8
"""Sub-agents that one Task tool has at work at the same time; more of them wait for their turn."""
RESULT_CHARACTERS = 10_000
"""What a sender gets to read of one sub-agent's answer; the whole is stored."""
SHORT_SCHEMA = 10_000
"""Bytes."""
_ALSO_CALLED = {"generalpurpose": "General"}
"""Names that profiles have in other programs."""

_ENDINGS = {
    "max_turns": "its turns were used up",
    "max_tokens": "the tokens were used up",
    "max_cost": "the budget was used up",
    "max_seconds": "its time was used up",
    "max_repeats": "it repeated the same calls again and again",
    "cancelled": "it was cancelled",
}


class SubagentSetup(msgspec.Struct, frozen=True):
    """A sub-agent that is ready to be sent out."""

    agent: Agent
    approve: Approver | None = None
    """Who is asked about its calls; None for whoever is asked about those of its sender."""
    cwd: Path | None = None


PrepareSubagent: TypeAlias = Callable[[Profile, str, str], AbstractContextManager[SubagentSetup]]
"""Makes a worker of a profile, what it is to do in a few words, and a tier that is asked for; ends it afterwards."""


class Task:
    """Sends out the sub-agents of one session."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        engage: PrepareSubagent,
        *,
        at_once: int = AT_ONCE,
        result_characters: int = RESULT_CHARACTERS,
    ) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self._engage = engage
        self._at_once = at_once
        self._places: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        self.tool: Tool = make_tool(
            self._send,
            name=TOOL,
            description=prompt_text("task_tool"),
            effect="idempotent",  # carried out again, it goes on with the session that it began
            timeout=math.inf,  # a sub-agent has limits of its own
            schema=_parameters(list(self._profiles.values())),
            guidance=partial(guidance, tuple(self._profiles.values())),
            result_characters=result_characters,
            prepare=self._prepared,
        )

    async def _send(
        self,
        context: ToolContext,
        description: str,
        prompt: str,
        subagent_type: str,
        model: str = "",
        output_schema: dict[str, Any] | None = None,
    ) -> ToolResult:
        profile = self._profiles[subagent_type]
        report = None
        if output_schema is not None:  # {} is a schema too
            if not profile.schemas:
                return _refused(f"{profile.name} does not report by a schema: ask it for text, or send another")
            try:
                report = await _report_by(output_schema)
            except SchemaError as error:
                return _refused(f"output_schema cannot be used: {error}")
        async with self._places_here():
            with self._engage(profile, description, model) as worker:
                agent = _with_report(worker.agent, report)
                child = await spawn(context, agent, title=description, approve=worker.approve, cwd=worker.cwd)
                with child:
                    result = await _run(child, report, prompt)
        return _told(profile, child, result, report)

    def _prepared(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Without what is null, which counts as absent, and with the profile's name as it is written here."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if isinstance(name := given.get("subagent_type"), str) and name not in self._profiles:
            given["subagent_type"] = self._meant(name)
        return given

    def _meant(self, name: str) -> str:
        """The profile that is meant by a name in another spelling; the name itself if there is no telling."""
        plain = _plain(name)
        alike = [each for each in self._profiles if _plain(each) == plain]
        if not alike and _ALSO_CALLED.get(plain) in self._profiles:
            return _ALSO_CALLED[plain]
        return alike[0] if len(alike) == 1 else name

    def _places_here(self) -> asyncio.Semaphore:
        """Those of the running loop: an agent may be used in one after the other, and whoever waits does so in one."""
        loop = asyncio.get_running_loop()
        if loop not in self._places:
            self._places = {each: places for each, places in self._places.items() if not each.is_closed()}
            self._places[loop] = asyncio.Semaphore(self._at_once)
        return self._places[loop]


async def _report_by(schema: Any) -> Report:
    """A schema that is long is looked at in a thread; a short one takes no time, and its call keeps its turn."""
    is_short = len(msgspec.json.encode(schema)) <= SHORT_SCHEMA
    make = partial(Report, schema, is_trusted=False)
    return make() if is_short else await asyncio.to_thread(make)


def _with_report(agent: Agent, report: Report | None) -> Agent:
    return msgspec.structs.replace(agent, tools=[*agent.tools, report.tool]) if report else agent


async def _run(child: Session, report: Report | None, prompt: str) -> RunResult:
    """From the beginning, or from where the program stopped the last time."""
    said = prompt if child.history.last is None else ""
    return await (run_to_report(child, report, said) if report else child.run(said))


def _told(profile: Profile, child: Session, result: RunResult, report: Report | None) -> ToolResult:
    """What goes up: the last words, or the data as JSON."""
    details: dict[str, Any] = {
        "session": child.id,
        "profile": profile.name,
        "status": result.status,
        "turns": result.turns,
        "cost": result.usage.cost,
    }
    if report and report.has_data:
        return ToolResult(report.text, details=details | {"structured_output": report.data}, is_json=True)
    if result.status == "done":
        return ToolResult(result.text or "(The sub-agent ended without a word.)", details=details)
    why = result.error or _ENDINGS.get(result.status, result.status)
    last = f"\n\nIts last words were:\n{result.text}" if result.text.strip() else ""
    return ToolResult(f"The sub-agent did not finish: {why}.{last}", is_error=True, details=details)


def _refused(why: str) -> ToolResult:
    return ToolResult(f"No sub-agent was sent out: {why}.", is_error=True)


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").replace(" ", "").casefold()


def _parameters(profiles: Sequence[Profile]) -> Mapping[str, Any]:
    """The arguments as a JSON Schema. A report by a schema is offered only if somebody gives one."""
    if not profiles:
        raise OutriderError("there is no profile, so that nobody could be sent out")
    properties: dict[str, Any] = {
        "description": {"type": "string", "description": "The task in three to six words, for those who watch."},
        "prompt": {
            "type": "string",
            "minLength": 1,
            "description": "The whole task. The sub-agent knows nothing of this conversation: say what it is for, "
            "where to look, what to do and what to leave alone, and what to come back with.",
        },
        "subagent_type": {
            "type": "string",
            "enum": [profile.name for profile in profiles],
            "description": "Who is sent out.",
        },
    }
    with_schemas = [profile.name for profile in profiles if profile.schemas]
    if with_schemas:
        only = "" if len(with_schemas) == len(profiles) else f" Only for: {', '.join(with_schemas)}."
        properties["output_schema"] = {
            "type": "object",
            "description": "A JSON Schema. If it is given, the sub-agent comes back with data that satisfies it, as "
            f"JSON, instead of text.{only}",
        }
    properties["model"] = {
        "type": "string",
        "enum": list(TIERS),
        "description": "How able a model it needs; leave it out unless the task asks for another than usual.",
    }
    return {
        "type": "object",
        "properties": properties,
        "required": ["description", "prompt", "subagent_type"],
        "additionalProperties": False,
    }
