"""The Task tool and `spawn`: start a sub-agent, wait for it, and return only its result."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET

from outrider.errors import ConversationError, OutriderError, SchemaError
from outrider.log.entries import BackgroundTask
from outrider.log.questions import Question
from outrider.prompts import prompt
from outrider.prompts import prompt as prompt_text
from outrider.providers.base import Provider
from outrider.providers.catalogue.tiers import TIERS
from outrider.runtime.agent import Agent
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.background import Background, Ending, Job, Work
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.runtime.toolset import Offer
from outrider.subagents.arguments import default_profile, parameters
from outrider.subagents.profile import Profile, describe_model
from outrider.subagents.results import manage, named, tool_result, unknown, without_denial
from outrider.text import clean
from outrider.tools.approval import Approver
from outrider.tools.context import SubagentTask, ToolContext
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
TITLE_WORDS = 6
"""Words of the prompt that name a task without a description."""
_UNSENT = "The prompt was not sent to it: with an action it is not used."
SHORT_SCHEMA = 10_000
"""Bytes up to which a schema is checked on the event loop."""
_ALIASES = {"generalpurpose": "General"}
"""Names of these profiles in other programs, normalized."""


class Order(msgspec.Struct, frozen=True):
    """What a sub-agent is set up for."""

    profile: Profile
    title: str
    session: str = ""
    """The id of its session: the same when it goes on later."""
    tier: str = ""
    """The tier that the call asks for; "" for none."""
    isolation: str = ""
    """`worktree` if it works in a git worktree of its own."""
    in_background: bool = False
    sender: AgentSpec | None = None
    """The agent that has sent it."""


class SubagentSetup(msgspec.Struct, frozen=True):
    """A sub-agent that is ready to start."""

    agent: Agent[Any]
    approve: Approver | None = None
    """The approver of its calls; None for the parent's approver."""
    cwd: Path | None = None
    offer: Callable[[AgentSpec], Offer] | None = None
    """Returns what a request of its session offers beside the tools of its agent."""
    settle: Callable[[str], Awaitable[str]] | None = None
    """Called with the status once it has ended. Returns what the parent should know of its worktree."""


PrepareSubagent: TypeAlias = Callable[[Order], AbstractAsyncContextManager[SubagentSetup]]
"""Set up a sub-agent; clean up on exit. Raises OutriderError if it cannot be."""


class Task:
    """The Task tool of one session, which starts its sub-agents."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        prepare: PrepareSubagent,
        *,
        at_once: int = AT_ONCE,
        result_characters: int = RESULT_CHARACTERS,
        isolates: bool = False,
    ) -> None:
        """`isolates`: sub-agents can have a git worktree of their own."""
        if not isinstance(at_once, int) or at_once < 1:
            raise ValueError(f"at_once is {at_once!r}; at least 1 sub-agent must be able to run")
        self._profiles = _by_name(profiles)
        self._prepare = prepare
        self._at_once = at_once
        self._most = result_characters
        self._semaphores: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        self.tool: Tool = make_tool(
            self._run_task,
            name=TOOL,
            built_in=True,
            description=prompt_text("task_tool"),
            effect="idempotent",  # run again after a crash, it resumes the same session
            timeout=math.inf,  # sub-agents have limits of their own
            schema=parameters(list(self._profiles.values()), isolates=isolates),
            guidance=partial(guidance, tuple(self._profiles.values())),
            result_characters=result_characters,
            prepare=self._normalize_arguments,
        )

    async def _run_task(
        self,
        context: ToolContext,
        description: str = "",
        prompt: str = "",
        subagent_type: str = "",
        model: str = "",
        output_schema: dict[str, Any] | None = None,
        run_in_background: bool = False,
        isolation: str = "",
        agent_id: str = "",
        action: str = "",
    ) -> ToolResult:
        if agent_id or action:
            return await self._manage(context, agent_id, action, prompt)
        if not prompt.strip():
            return _not_started("a prompt must be given, with the whole task")
        if (profile := self._profiles.get(subagent_type)) is None:
            return _not_started(f"subagent_type must be one of {', '.join(self._profiles)}")
        if output_schema is not None and not profile.takes_schemas:  # {} is a schema too
            instead = "leave it out" if profile.output is not None else "ask for text, or use another profile"
            return _not_started(f"{profile.name} takes no output_schema: {instead}")
        try:
            report = await _report(profile, output_schema)
        except SchemaError as error:
            return _not_started(f"output_schema cannot be used: {error}")
        task = context.subagent_task(clean(description).strip() or " ".join(clean(prompt).split()[:TITLE_WORDS]))
        order = Order(profile, task.title, task.session, model, isolation or profile.isolation, run_in_background)
        if run_in_background:
            return await self._start(context, task, order, _Assignment(prompt, report, output_schema))
        result, questions = await self._work(context, task, order, _Assignment(prompt, report))
        context.wait_for(questions)
        return result

    async def _work(
        self, context: ToolContext, task: SubagentTask, order: Order, assigned: _Assignment, job: Job | None = None
    ) -> tuple[ToolResult, Sequence[Question]]:
        """Let a sub-agent work on what it is assigned. Return its result, and what it waits for."""
        order = msgspec.structs.replace(order, sender=context.agent)
        async with self._semaphore(), self._prepare(order) as setup:
            child: Session = await context.open_child(setup.agent, task, setup.approve, setup.cwd)
            if setup.offer:
                child.use_offer(setup.offer)
            with child:
                if job:
                    job.child = child
                result = await assigned.run(child)
            result = without_denial(result)
            note = await setup.settle(result.status) if setup.settle else ""
        return tool_result(order.profile, child, result, note), result.questions

    # In the background

    async def _start(self, context: ToolContext, task: SubagentTask, order: Order, assigned: _Assignment) -> ToolResult:
        known = BackgroundTask(
            task.session,
            task.call_id,
            order.profile.name,
            task.title,
            isolation=order.isolation,
            tier=order.tier,
            output_schema=assigned.schema if order.profile.output is None else {},
        )
        await context.background.start(known, self._job(context, known, order, assigned), self._most)
        text = f"Started in the background as {named(known)}. You are told when it ends: go on, and do not wait for it."
        return ToolResult(text, details={"session": task.session, "profile": order.profile.name, "background": True})

    def _job(self, context: ToolContext, known: BackgroundTask, order: Order, assigned: _Assignment) -> Work:
        task = SubagentTask(known.call_id, known.session, known.title, lambda: False, background=True)

        async def work(job: Job) -> Ending:
            result, questions = await self._work(context, task, order, assigned, job)
            asked = "".join(f"\nIt waits for an answer of a person: {each.text}" for each in questions)
            asked += "\nOnce it has the answer, send it a message, and it goes on." if questions else ""
            status, note = result.details["status"], result.details.get("worktree", "")
            files = ", ".join(each.name or each.mime_type for each in result.attachments)
            kept = f"\n[Files of its answer, which stay in its session: {files}]" if files else ""
            return Ending(status, result.text + kept + asked, note, result.details.get("structured_output", UNSET))

        return work

    async def _manage(self, context: ToolContext, agent_id: str, action: str, prompt: str) -> ToolResult:
        background: Background = context.background
        task = background.find(agent_id) if agent_id else None
        if agent_id and task is None:
            return unknown(background, agent_id)
        if task and prompt.strip() and not action:
            return await self._tell(context, background, task, prompt)
        done = await manage(background, task, action)
        unsent = task and prompt.strip() and action != "stop"
        return msgspec.structs.replace(done, note=_UNSENT) if unsent else done

    async def _tell(
        self, context: ToolContext, background: Background, task: BackgroundTask, prompt: str
    ) -> ToolResult:
        """Send a message to a sub-agent. One that has ended goes on with it."""
        if not task.status:
            child: Session | None = background.child(task)
            if child is None:
                return ToolResult(f"{named(task)} has not begun yet: send it later.", is_error=True)
            try:
                await child.steer(prompt)
                return ToolResult(f"{named(task)} gets the message at its next step.")
            except ConversationError:  # it is just ending
                await background.wait([task.session])
                task = background.find(task.session) or task
        if (profile := self._profiles.get(task.name)) is None:
            return ToolResult(f"{named(task)} cannot go on: its profile is not available now.", is_error=True)
        tier = task.tier if task.tier in TIERS else ""  # an imported session must not name a server
        order = Order(profile, task.title, task.session, tier, task.isolation, True)
        schema = task.output_schema if profile.takes_schemas else None
        try:
            report = await _report(profile, schema)
        except SchemaError as error:  # an imported session may say anything
            return ToolResult(f"{named(task)} cannot go on: its output_schema cannot be used: {error}", is_error=True)
        assigned = _Assignment(prompt, report, schema, goes_on=True)
        await background.restart(task, self._job(context, task, order, assigned), self._most)
        return ToolResult(f"{named(task)} goes on with the message. You are told when it ends.")

    def _normalize_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Drop arguments that are null, add those that may be left out, and correct the name of the profile."""
        given = {name: value for name, value in arguments.items() if value is not None}
        given.setdefault("description", "")
        if "agent_id" in given or "action" in given:
            given.setdefault("prompt", "")
        if (default := default_profile(self._profiles)) and "subagent_type" not in given:
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


class _Assignment(msgspec.Struct, frozen=True):
    """What a sub-agent is to do."""

    prompt: str
    report: Report | None = None
    """What it has to return; None for text."""
    schema: dict[str, Any] | None = None
    """What the call said of that."""
    goes_on: bool = False
    """Whether it has worked before, and the prompt is one more message."""

    async def run(self, child: Session) -> RunResult[Any]:
        """Let it work. If it waits for a person, it does first what was allowed, and then hears the message."""
        prompt = self.prompt_for(child)
        if self.goes_on and child.questions:
            result = await child.run(output=self.report)
            if result.status != "done":
                return result
        return await child.run(prompt, output=self.report)

    def prompt_for(self, child: Session) -> str:
        """Return what to tell it: nothing if its session is resumed after a crash. Raises OutriderError."""
        if not self.goes_on:
            return self.prompt if child.history.last is None else ""
        if child.history.last is None:
            raise OutriderError("it had not begun, and does not know its task: start another one")
        return self.prompt


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
    crash, `spawn` returns the same session with all its messages: `run("" if child.messages else prompt)` continues it.
    A sub-agent cannot start others. It uses the approver of the call's session unless `approve` is given. Its usage
    counts towards the call's run.
    """
    session: Session = await context.open_child(agent, context.subagent_task(title), approve, cwd)
    return session
