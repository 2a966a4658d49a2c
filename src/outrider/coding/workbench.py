"""The parts of a coding session, built from settings and a folder: tools, prompt and permissions."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.coding.access import NO_SANDBOX
from outrider.coding.command_environment import command_environment, unset_variables
from outrider.coding.commands.prompting import PromptCommands
from outrider.coding.config.remembered import RememberedRules
from outrider.coding.config.settings import Settings
from outrider.coding.extensions import Extensions
from outrider.coding.instructions import as_prompt, project_instructions
from outrider.coding.lean import is_lean, lean_tools
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.permissions.files import is_hidden
from outrider.coding.permissions.patterns import escaped
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Answer, Ask, Question
from outrider.coding.permissions.rules import Rule
from outrider.coding.profiles import FoundProfiles, find_profiles
from outrider.coding.protected_paths import OWN_SECRETS
from outrider.coding.remote.control import RemoteControl
from outrider.coding.remote.front import Front
from outrider.coding.sandbox.finding import find_sandbox
from outrider.coding.sandbox.host_filter import filter_hosts
from outrider.coding.sandbox.sandbox import Sandbox
from outrider.coding.skills.finding import FoundSkills
from outrider.coding.skills.prompting import index_folder, readable_rules, skills_section
from outrider.coding.snapshots.folder import FolderSnapshots
from outrider.coding.toolbox import ALL_NAMES, TOOL_NAMES, WEB_SEARCH, standard_tools
from outrider.coding.toolbox.search import ripgrep
from outrider.coding.toolbox.shell.shell import Shell
from outrider.coding.toolbox.workspace import Workspace
from outrider.coding.web_search import WebSearch
from outrider.environment import config_file, data_folder, default_model
from outrider.errors import ConfigError, OutriderError
from outrider.log.log import Log
from outrider.prompts import prompt
from outrider.providers import resolve
from outrider.providers.base import Effort, EffortChoice, Provider
from outrider.providers.efforts import check_effort, offered
from outrider.runtime.agent import Agent
from outrider.runtime.agent_settings import effort_of
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.events import Event
from outrider.runtime.hooks import NO_HOOKS, HookResult, Hooks, Notification, run_hooks
from outrider.runtime.session import Session
from outrider.runtime.structured_output import Report
from outrider.runtime.titling import Titler
from outrider.subagents.models import model_for
from outrider.subagents.profile import Profile, built_in
from outrider.subagents.task import SubagentSetup, Task
from outrider.tools.server_tool import ServerTool
from outrider.tools.tool import Tool, make_tools

if TYPE_CHECKING:
    from outrider.coding.background_telemetry import BackgroundTelemetry
    from outrider.mcp.elicitation import Elicitation, ElicitationAnswer, OnElicit
    from outrider.mcp.running import RunningServers
    from outrider.mcp.servers import McpServer
    from outrider.runtime.session_servers import Mcp

NO_SUBAGENT_TOOLS = (
    "Task is enabled, but no sub-agent would have any tools: sub-agents have only tools that are listed. List theirs "
    "as well, as in --tools Task,Read,Glob,Grep, or leave the list out to enable all"
)


class Workbench:
    """The parts of one session in a folder. Close it to end the commands that still run in the background."""

    def __init__(
        self,
        settings: Settings,
        folder: str | Path,
        *,
        tools: Sequence[Tool] = (),
        servers: Sequence[McpServer] = (),
        ask: Ask | None = None,
        elicit: OnElicit | None = None,
        on_server_notice: Callable[[str], None] | None = None,
        front: Front | None = None,
        start_seconds: float = 1.0,
        system_prompt: str | None = None,
        append_system_prompt: str = "",
        meter: Callable[[Provider], Provider] | None = None,
    ) -> None:
        """`elicit` asks the person for an MCP server. The first request waits `start_seconds` for servers to start.

        `on_server_notice` is told at once, in another thread, what happens to servers. Without it, runs tell it.
        With a `front`, other processes of the user can answer questions, talk to the session, stop it and watch it.

        `system_prompt` replaces ours; the project's instructions and `append_system_prompt` follow it. `meter` wraps
        each provider, also those of sub-agents.
        """
        self.settings = settings
        self.workspace = Workspace(folder)
        self._own_tools = tools
        self._servers = servers
        self._ask, self._elicit = ask, elicit
        self._on_server_notice = on_server_notice
        self._start_seconds = start_seconds
        self._system_prompt = system_prompt
        self._append_system_prompt = append_system_prompt
        self._meter = meter
        self._provider: Provider | None = None
        """The provider of the agent, once there is one."""
        self._providers: dict[str, Provider] = {}
        self._titlers: list[Titler] = []
        self.effort: Effort | None = None
        """The effort that the agent was asked for. Its sub-agents have the same, where their models offer it."""
        self._session = ""
        """The id of the session that was opened last."""
        self._notifying: set[asyncio.Future[HookResult]] = set()
        remembered = RememberedRules(data_folder(), self.folder)
        self.permissions = PermissionApprover(
            _policy(settings, self.workspace, remembered.rules()),
            ask=self._ask_anywhere if ask else None,
            remember=remembered.add,
            cwd=lambda: self.workspace.shell_cwd,
        )
        self.workspace.confirm = self.permissions.confirm
        self.extensions = Extensions(self.folder, settings.hooks.files)
        """What the user and the project add: skills, commands and hooks."""
        self._remote = RemoteControl(front, self.folder) if front else None
        self._web_search = WebSearch(settings.web.search, self.permissions)

    @property
    def folder(self) -> Path:
        """The project folder."""
        return self.workspace.folder

    def close(self) -> None:
        """End the commands and the MCP servers that still run."""
        if self._remote:
            self._remote.detach()
        for titler in self._titlers:
            titler.close()
        self._titlers.clear()
        if "servers" in vars(self) and self.servers:
            self.servers.close()
        if "_telemetry" in vars(self) and self._telemetry:
            self._telemetry.close()
        if "_hook_workspace" in vars(self):
            self._hook_workspace.close()
        self.workspace.close()

    def use_servers(self, servers: Sequence[McpServer]) -> None:
        """Use other MCP servers. Those of before end. An open session gets them with its next agent."""
        if before := vars(self).pop("servers", None):
            before.stop()
        self._servers = servers

    @cached_property
    def servers(self) -> RunningServers | None:
        """The MCP servers, for the session and its sub-agents, starting in the background; None if there are none."""
        servers = self._with_plugins(self._servers)
        if not servers:
            return None
        from outrider.coding.mcp.authorization import authorize
        from outrider.mcp.running import RunningServers

        running = RunningServers(
            servers,
            on_elicit=self._elicit_anywhere if self._elicit else None,
            on_notice=self._on_server_notice,
            authorize=authorize,
            environment=command_environment(os.environ, self.settings.sandbox.pass_env),
            grace=self._start_seconds,
            tools_share=self.settings.mcp.tools_share,
        )
        running.start()
        return running

    def _with_plugins(self, servers: Sequence[McpServer]) -> list[McpServer]:
        """Return the servers, and those of plugins whose names are free."""
        found = {server.name: server for server in (*self.extensions.plugins.servers, *servers)}
        return list(found.values())

    @cached_property
    def sandbox(self) -> Sandbox | None:
        """The sandbox for commands; None if they run without one. Raises ConfigError if the settings require one."""
        wanted = self.settings.sandbox
        found = None if wanted.use == "off" else find_sandbox()
        found = found and filter_hosts(found, wanted.allow_hosts)[0]
        if found is None and wanted.use == "require":
            raise ConfigError(
                'sandbox.use is "require", but no sandbox works here: run `outrider doctor` to see why, or set '
                'sandbox.use to "auto"'
            )
        self.permissions.sandboxed = found is not None
        return found

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The enabled tools of the toolbox, the user's own tools, and Task.

        Raises ConfigError if no sub-agent would have tools.
        """
        tools = self._tools_in(self.workspace, self._tool_names)
        if "Task" in self._enabled_tools:
            profiles = [profile for profile in self._found_profiles.profiles if profile.tools_of(tools)]
            if not profiles:
                raise ConfigError(NO_SUBAGENT_TOOLS)
            characters = self.settings.subagents.result_characters
            tools.append(Task(profiles, self._start_subagent, result_characters=characters).tool)
        return make_tools(tools)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user about the sub-agent profiles, skills, commands, hooks and plugins that were found."""
        profiles = self._found_profiles.notes if "Task" in self._enabled_tools else ()
        return (*profiles, *self.extensions.notes)

    @property
    def sandbox_note(self) -> str:
        """A note for the user if there should be a sandbox and there is none, or ""."""
        wanted = self.settings.sandbox.use == "auto" and "Bash" in self._enabled_tools
        return NO_SANDBOX if wanted and self.sandbox is None else ""

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The sub-agent profiles."""
        return self._found_profiles.profiles

    def agent(
        self,
        *,
        model: str | Provider | None = None,
        effort: Effort | None = None,
        report: Report | None = None,
    ) -> Agent:
        """Return the agent for this folder. An effort that its model does not have is left out."""
        model = model or self.settings.model or default_model()
        provider = resolve(model)
        lean = is_lean(self.settings.lean, provider)
        tools = lean_tools(self.tools, chosen=self.settings.tools is not None) if lean else self.tools
        agent = Agent(
            model=self._meter(provider) if self._meter else model,
            server_tools=() if lean else self._server_tools(provider),
            system=self._agent_system(prompt("agent_lean" if lean else "agent"), with_skills=not lean),
            situation=self._environment_section(),
            tools=tools,
            mcp=self.servers or (),
            hooks=self.hooks,
            limits=self.settings.limits,
            compaction=self.settings.context.compaction,
            retry=self.settings.retry,
            effort=offered(provider, effort) if effort else None,
        )
        self._provider, self.effort = agent.provider, effort
        return report.attached_to(agent) if report else agent

    def open(
        self,
        log: Log,
        id: str | None = None,
        *,
        model: str | None = None,
        effort: EffortChoice | None = None,
        report: Report | None = None,
        observer: Callable[[Event], None] | None = None,
        titled: bool = False,
        create: bool = False,
    ) -> Session:
        """Open a session in the log. A resumed session keeps its model and effort unless others are given.

        `titled`: a new session gets a title by a model, if the settings say so. `create`: a session with this id is
        created if the log has none.

        Raises RequestRefusedError if the model does not have the given effort.
        """
        kept: Effort | None = self.settings.effort
        if id is not None and not (create and not log.has(id)):
            recorded = log.settings(id)
            model = model or recorded.model
            kept = kept if recorded.effort is None else effort_of(recorded)
        if effort not in (None, "default"):
            check_effort(resolve(model or self.settings.model or default_model()), effort)
        agent = self.agent(model=model, effort=kept if effort is None else _level(effort), report=report)
        session = Session.open(
            log, id, agent, cwd=self.folder, observer=observer, approve=self.permissions, create=create
        ).now()
        session.before_run = partial(self._before_run, session)
        if self.settings.sessions.snapshots:
            session.use_folder(FolderSnapshots(self.folder, log, session.id))
        if titled and self.settings.sessions.titles:
            self._titlers.append(Titler(session, self._title_model))
            session.observe(self._titlers[-1])
        if self._telemetry:
            session.observe(self._telemetry)
        self._session = session.id
        if self._remote:
            self._remote.attach(log, session)
        return session

    @cached_property
    def _telemetry(self) -> BackgroundTelemetry | None:
        """What exports spans and metrics, if the settings say so. Raises ConfigError if it cannot."""
        if not self.settings.telemetry.export:
            return None
        from outrider.coding.background_telemetry import BackgroundTelemetry  # imports OpenTelemetry

        return BackgroundTelemetry(capture=self.settings.telemetry.capture)

    def _title_model(self, provider: Provider) -> Provider | None:
        """Return the fast model of the session's vendor; None if that is not known."""
        try:
            model = model_for("fast", provider)
            return self._provider_of(model) if isinstance(model, str) else None
        except OutriderError:
            return None

    # Skills and commands

    @property
    def skills(self) -> FoundSkills:
        """The skills of the user and the project."""
        return self.extensions.skills

    @cached_property
    def prompt_commands(self) -> PromptCommands:
        """The commands and skills that a person can call by name."""
        return PromptCommands(self.extensions.commands, self.skills, self.permissions, lambda: self.tools, self.folder)

    @cached_property
    def _skills_section(self) -> str:
        """The skills in the system prompt. Their files may be read without a question, wherever they are."""
        if "Read" not in self._enabled_tools or not self.skills.found:
            return ""
        section = skills_section(self.skills.skills, data_folder())
        self.permissions.allow(readable_rules(self.skills, self.folder, index_folder(data_folder())))
        return section

    # Hooks

    @cached_property
    def hooks(self) -> Hooks:
        """The hooks of the user, and those of the project that the user has agreed to."""
        if not self.extensions.hooks.hooks:
            return NO_HOOKS
        from outrider.coding.hooks.running import HookRunner  # most folders have no hooks

        environment = command_environment(os.environ, self.settings.sandbox.pass_env)
        shell = Shell(self._hook_workspace, self.sandbox, environment, **self._confinement)
        runner = HookRunner(shell, environment, self.settings.hooks.access, lambda: self.permissions.mode)
        return runner.hooks(self.extensions.hooks.hooks)

    @cached_property
    def _hook_workspace(self) -> Workspace:
        """A workspace of their own: hooks run in the folder, wherever the shell of the agent is."""
        return self.workspace.for_subagent()

    def _tell_hooks(self, question: Question) -> None:
        """Tell the hooks that a question waits for the person."""
        if self.hooks.notification:
            event = Notification(session=self._session, cwd=self.folder, message=f"{question.tool}: {question.reason}")
            telling = asyncio.ensure_future(run_hooks(self.hooks.notification, event, lambda _: None))
            self._notifying.add(telling)
            telling.add_done_callback(self._notifying.discard)

    async def _before_run(self, session: Session) -> AgentSpec | None:
        if self._remote:
            self._remote.begin_run()
        return await self._ask_about_search(session)

    # Questions

    async def _ask_anywhere(self, question: Question) -> Answer:
        """Ask in the front end, and other processes as well."""
        assert self._ask
        self._tell_hooks(question)
        if self._remote is None:
            return await self._ask(question)
        return await self._remote.questions.ask(question, self._ask, self.permissions.mode)

    async def _elicit_anywhere(self, question: Elicitation) -> ElicitationAnswer:
        assert self._elicit
        if self._remote is None:
            return await self._elicit(question)
        return await self._remote.questions.elicit(question, self._elicit)

    # Web search

    async def _ask_about_search(self, session: Session) -> AgentSpec | None:
        """Ask about web search if the session's model has it. Return the agent with it, if the answer is yes."""
        agent = session.agent
        if agent.server_tools or not self._may_offer_search or is_lean(self.settings.lean, session.provider):
            return None
        await self._web_search.ask(session.provider)
        found = self._web_search.tools(session.provider)
        return agent.replace(server_tools=found) if found else None

    def _server_tools(self, provider: Provider) -> tuple[ServerTool, ...]:
        """Return the tools that the model's API runs, as far as they are allowed by now."""
        return self._web_search.tools(provider) if self._may_offer_search else ()

    @property
    def _may_offer_search(self) -> bool:
        """Whether web search is enabled, and no tool of the user has its name."""
        return WEB_SEARCH in self._enabled_tools and all(tool.name != WEB_SEARCH for tool in self._own_tools)

    # Sub-agents

    @cached_property
    def _found_profiles(self) -> FoundProfiles:
        users = [Path("~/.claude/agents").expanduser(), config_file().parent / "agents"]
        plugins = [each.path / "agents" for each in self.extensions.plugins.places]
        return find_profiles(self.folder, users, built_in(), tools=self._tool_names, home=Path.home(), plugins=plugins)

    @contextmanager
    def _start_subagent(self, profile: Profile, title: str, tier: str) -> Iterator[SubagentSetup]:
        """Yield a sub-agent in the same folder, with the same permissions and with tools that have their own state."""
        workspace = self.workspace.for_subagent()
        agent = Agent(
            model=self._model_of(profile, tier),
            system=self._system(prompt("subagent"), profile.prompt, self._skills_of(profile)),
            situation=self._environment_section(),
            tools=self._tools_in(workspace, self._tool_names if profile.tools is None else profile.tools),
            mcp=self._servers_of(profile),
            hooks=self.hooks,
            limits=profile.limits_within(self.settings.limits),
            compaction=self.settings.context.compaction,
            retry=self.settings.retry,
            name=profile.name,
        )
        may_search = profile.tools is None or "WebFetch" in profile.tools
        agent = agent.replace(
            effort=offered(agent.provider, self.effort),
            server_tools=self._server_tools(agent.provider) if may_search else (),
        )
        approve = self.permissions.on_behalf_of(f"{profile.name}: {title}", lambda: workspace.shell_cwd)
        workspace.confirm = approve.confirm
        try:
            yield SubagentSetup(agent, approve, self.folder)
        finally:
            workspace.close()

    def _skills_of(self, profile: Profile) -> str:
        return self._skills_section if profile.tools is None or "Read" in profile.tools else ""

    def _servers_of(self, profile: Profile) -> Mcp:
        """Return the session's servers with the tools that a profile names."""
        if self.servers is None or profile.server_tools == ():
            return ()
        return self.servers if profile.server_tools is None else self.servers.only(profile.server_tools)

    def _model_of(self, profile: Profile, tier: str) -> Provider:
        """Return the provider of a sub-agent, one for each model. A project's profile cannot choose another vendor."""
        own_provider = self._provider or resolve(self.settings.model or default_model())
        model = model_for(tier or profile.model, own_provider, from_project=profile.from_project)
        return self._provider_of(model) if isinstance(model, str) else model

    def _provider_of(self, model: str) -> Provider:
        if model not in self._providers:
            provider = resolve(model)
            self._providers[model] = self._meter(provider) if self._meter else provider
        return self._providers[model]

    # Shared by the agent and its sub-agents

    @cached_property
    def _enabled_tools(self) -> Sequence[str]:
        return ALL_NAMES if self.settings.tools is None else self.settings.tools

    def _tools_in(self, workspace: Workspace, names: Sequence[str]) -> list[Tool]:
        """Return the enabled tools with these names, for a workspace."""
        toolbox = standard_tools(
            workspace,
            [name for name in self._enabled_tools if name in names],
            sandbox=self.sandbox if "Bash" in self._enabled_tools else None,
            environment=command_environment(os.environ, self.settings.sandbox.pass_env),
            private_addresses=self.settings.web.private_addresses,
            hidden=lambda path: is_hidden(self.permissions.policy, path),
            unset=unset_variables(os.environ, self.settings.sandbox.pass_env),
            **self._confinement,
        )
        return [*toolbox, *(tool for tool in self._own_tools if tool.name in names)]

    @property
    def _confinement(self) -> dict[str, Any]:
        """What commands in the sandbox may write, may not read, and may not change."""
        return {
            "writable": self.permissions.policy.folders,
            "masked": lambda: self.permissions.policy.masked,
            "kept": tuple(_protected_files(self.settings, self.folder)),
        }

    @property
    def _tool_names(self) -> list[str]:
        return [*TOOL_NAMES, *(tool.name for tool in self._own_tools)]

    def _agent_system(self, usual: str, *, with_skills: bool) -> str:
        skills = self._skills_section if with_skills else ""
        system = self._system(usual if self._system_prompt is None else self._system_prompt, skills)
        return "\n\n".join(filter(None, (system, self._append_system_prompt)))

    def _system(self, *prompts: str) -> str:
        instructions = as_prompt(project_instructions(self.folder, home=Path.home()))
        return "\n\n".join(part for part in (*prompts, instructions) if part)

    def _environment_section(self) -> str:
        repository = (
            "is in" if any((each / ".git").exists() for each in (self.folder, *self.folder.parents)) else "is not in"
        )
        return (
            f"# Where you are\n\n- The folder: {self.folder}, which {repository} a git repository\n"
            f"- The system: {platform.system()} {platform.machine()}\n- The date: {date.today().isoformat()}"
        )


def _level(effort: EffortChoice) -> Effort | None:
    return None if effort == "default" else effort


def _protected_files(settings: Settings, folder: Path) -> Iterator[Path]:
    """Yield files that decide about permissions or run without approval: only the user may change them."""
    # A project may hold the environment that runs Outrider, with the sandbox itself.
    prefixes = {Path(os.path.realpath(each)) for each in (sys.prefix, sys.base_prefix)}
    yield from sorted(each for each in prefixes if not folder.is_relative_to(each))
    yield config_file().resolve()
    yield from (config_file().parent.resolve() / name for name in ("mcp.json", "hooks.json", "plugins"))
    yield data_folder().resolve()
    yield from (Path(file).resolve() for file in (*settings.tool_files, *settings.hooks.files))
    package = Path(__file__).resolve().parents[1]
    if "site-packages" in package.parts:  # in a checkout of Outrider itself, it may be changed
        yield package
    if search := ripgrep.find():
        yield search.resolve()


def _policy(settings: Settings, workspace: Workspace, remembered: Sequence[str]) -> Policy:
    """Return the user's policy, with read access to the output of commands and Outrider's own files protected."""
    wanted, folder = settings.permissions, workspace.folder
    printed = f"Read({escaped(str(workspace.temporary_path))}/**)"
    kept = [f"Edit({escaped(str(path))})" for path in _protected_files(settings, folder)]
    policy = Policy(
        mode=wanted.mode,
        folder=folder,
        folders=tuple((folder / Path(each).expanduser()).resolve() for each in wanted.folders),
        allow=tuple(map(Rule.parse, (*wanted.allow, *remembered, printed))),
        ask=tuple(map(Rule.parse, wanted.ask)),
        deny=tuple(map(Rule.parse, (*wanted.deny, "Edit(./.outrider/**)", *kept))),
    )
    secrets = policy.secrets if wanted.secrets is None else wanted.secrets
    own = (f"{escaped(str(data_folder().resolve()))}/{name}" for name in OWN_SECRETS)
    return msgspec.structs.replace(policy, secrets=(*secrets, *own))
