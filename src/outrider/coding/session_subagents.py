"""The sub-agents of a session: set up in its folder, or in a git worktree, with its permissions; the models of all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from outrider.coding.config.settings import Settings
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.permissions.file_access import is_hidden
from outrider.coding.project import Project
from outrider.coding.session_tools import SessionTools
from outrider.coding.system_prompt import situation, subagent_prompt
from outrider.coding.toolbox.workspace import Workspace
from outrider.coding.web_search import WebSearch
from outrider.coding.worktrees import Worktrees
from outrider.environment import default_model
from outrider.errors import ConfigError, OutriderError, UnknownModelError
from outrider.providers.base import Effort, Provider
from outrider.providers.catalogue.efforts import offered
from outrider.providers.resolution import resolve, resolve_all, several
from outrider.runtime.agent import Agent
from outrider.runtime.hooks import Hooks
from outrider.subagents.profile import Profile, model_for
from outrider.subagents.task import Order, SubagentSetup, Task
from outrider.tools.tool import Tool

if TYPE_CHECKING:
    from outrider.mcp.running import RunningServers
    from outrider.mcp.session_servers import Mcp


class SessionModels:
    """The providers of a session, one for each model."""

    def __init__(self, settings: Settings, meter: Callable[[Provider], Provider] | None) -> None:
        """`meter` wraps each provider."""
        self._settings = settings
        self._meter = meter
        self._providers: dict[str, Provider] = {}
        self.agent_provider: Provider | None = None
        """The provider of the agent, once there is one."""

    @property
    def default(self) -> str:
        """The model of a session for which none was chosen."""
        return self._settings.model or default_model()

    def stored(self, model: str | None) -> str | None:
        """Return the model of a stored session. One of a Python program is not known here: then the chosen one.

        One of several chosen models comes with the others: they are its fallbacks.
        """
        if model and "," in self.default and model in {name for each in _names(self.default) for name in each}:
            return self.default
        return model if not model or not self._settings.model or _is_known(model) else self._settings.model

    def for_subagent(self, profile: Profile, tier: str) -> Provider:
        """Return the provider of a sub-agent. A project's profile cannot choose another vendor."""
        agents = self.agent_provider or resolve(self.default)
        model = model_for(tier or profile.model, agents, from_project=profile.from_project)
        return self._provider(model) if isinstance(model, str) else model

    def for_title(self, provider: Provider) -> Provider | None:
        """Return the fast model of the session's vendor; None if that is not known."""
        try:
            model = model_for("fast", provider)
            return self._provider(model) if isinstance(model, str) else None
        except OutriderError:
            return None

    def _provider(self, model: str) -> Provider:
        if model not in self._providers:
            self._providers[model] = self.metered(resolve(model))
        return self._providers[model]

    def check(self, model: str) -> None:
        """Raise ConfigError if a model is not allowed on this machine, and UnknownModelError."""
        for provider in resolve_all(model):
            self._settings.managed.check_model(provider)

    def metered(self, provider: Provider) -> Provider:
        """Return the provider with the meter around it, if there is one. Raises ConfigError if it is not allowed."""
        self._settings.managed.check_model(provider)
        return self._meter(provider) if self._meter else provider


def _names(models: str) -> Iterator[tuple[str, str]]:
    """Yield the names of models, as they are given and in full."""
    for name, provider in zip(several(models), resolve_all(models), strict=True):
        yield str(name), provider.name


def _is_known(model: str) -> bool:
    try:
        resolve(model)
    except UnknownModelError:
        return False
    return True


NO_SUBAGENT_TOOLS = (
    "Task is enabled, but no sub-agent would have any tools: sub-agents have only tools that are listed. List theirs "
    "as well, as in --tools Task,Read,Glob,Grep, or leave the list out to enable all"
)


class Sender(NamedTuple):
    """What sub-agents take over from the agent that starts them."""

    skills: str
    """The skills in its system prompt."""
    servers: RunningServers | None
    hooks: Hooks
    effort: Effort | None
    search: WebSearch


class SessionSubagents:
    """Makes Task, and sets up the sub-agents that it starts."""

    def __init__(
        self,
        settings: Settings,
        workspace: Workspace,
        tools: SessionTools,
        permissions: PermissionApprover,
        models: SessionModels,
        project: Project,
        folder: Path,
        sender: Callable[[], Sender],
    ) -> None:
        self._settings, self._workspace, self._tools = settings, workspace, tools
        self._permissions, self._models, self._project = permissions, models, project
        self._folder, self._sender = folder, sender
        self._worktrees = Worktrees(workspace.programs, lambda path: is_hidden(permissions.policy, path))

    def task(self, profiles: Sequence[Profile]) -> Tool:
        """Return Task. Raises ConfigError without profiles: no sub-agent would have tools."""
        if not profiles:
            raise ConfigError(NO_SUBAGENT_TOOLS)
        wanted, isolates = self._settings.subagents, self._permissions.policy.repository is not None
        return Task(
            profiles,
            self._prepare,
            at_once=wanted.at_once,
            result_characters=wanted.result_characters,
            isolates=isolates,
        ).tool

    @cached_property
    def recovered(self) -> list[str]:
        """What became of the worktrees of processes that have ended."""
        return [] if self._workspace.forwarded else self._worktrees.recover()

    @asynccontextmanager
    async def _prepare(self, order: Order) -> AsyncIterator[SubagentSetup]:
        """Set up a sub-agent in the folder, or in a worktree of its own."""
        if not order.isolation:
            with self.start(order) as setup:
                yield setup
            return
        if self._workspace.forwarded:
            raise ConfigError("isolation by a worktree needs files on this machine; leave it out")
        named = f"{order.profile.name}: {order.title}"
        async with self._worktrees.open(self._folder, order.session, named) as worktree:
            with self.start(order, worktree.folder) as setup:
                yield msgspec.structs.replace(setup, settle=partial(self._worktrees.settle, worktree))

    @contextmanager
    def start(self, order: Order, worktree: Path | None = None) -> Iterator[SubagentSetup]:
        """Yield a sub-agent with the session's permissions, and with tools that have their own state."""
        workspace, sender, profile = self._workspace.for_subagent(worktree), self._sender(), order.profile
        names = self._tools.names if profile.tools is None else profile.tools
        may_search = profile.tools is None or "WebFetch" in profile.tools
        approve = self._permissions.on_behalf_of(
            f"{profile.name}: {order.title}",
            lambda: workspace.shell_cwd,
            workspace=workspace.name,
            folder=worktree,
            in_background=order.in_background,
        )
        approve.permit(workspace)
        agent = self._agent(profile, order.tier, sender).replace(
            situation=situation(worktree) if worktree else self._project.situation,
            tools=self._tools.in_workspace(workspace, names),
        )
        if may_search:
            agent = agent.replace(server_tools=sender.search.tools(agent.provider))
        try:
            yield SubagentSetup(agent, approve, worktree or self._folder, sender.search.offer if may_search else None)
        finally:
            workspace.close()

    def _agent(self, profile: Profile, tier: str, sender: Sender) -> Agent:
        settings = self._settings
        skills = sender.skills if profile.tools is None or "Read" in profile.tools else ""
        agent = Agent(
            model=self._models.for_subagent(profile, tier),
            system=subagent_prompt(profile.prompt, skills, self._project.instructions),
            mcp=_servers_of(profile, sender.servers),
            hooks=sender.hooks,
            limits=profile.limits_within(settings.limits),
            budget=settings.budget,
            compaction=settings.context.compaction,
            retry=settings.retry,
            temperature=settings.temperature,
            cache=settings.cache,
            name=profile.name,
        )
        return agent.replace(effort=offered(agent.provider, sender.effort))


def _servers_of(profile: Profile, servers: RunningServers | None) -> Mcp:
    """Return the session's servers with the tools that a profile names."""
    if servers is None or profile.server_tools == ():
        return ()
    return servers if profile.server_tools is None else servers.only(profile.server_tools)
