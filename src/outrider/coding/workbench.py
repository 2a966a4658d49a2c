"""The parts of a coding session, built from settings and a folder: tools, prompt and permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.coding import sentences
from outrider.coding.commands import PromptCommands
from outrider.coding.config.settings import Settings
from outrider.coding.extensions import Extensions
from outrider.coding.front_end import NO_FRONT_END, FrontEnd
from outrider.coding.lean_tools import has_prompted_tools, in_form, is_lean, lean_tools
from outrider.coding.mcp.shared_servers import SharedServers
from outrider.coding.missing_files import MissingFiles
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.permissions.question import Mode, narrower, parse_mode
from outrider.coding.plan_mode import PlanMode, reads
from outrider.coding.profiles import FoundProfiles
from outrider.coding.project import PLACE, Project, ProjectHere, check_place
from outrider.coding.remote.control import Dialogue, RemoteControl
from outrider.coding.session_hooks import SessionHooks
from outrider.coding.session_subagents import Sender, SessionModels, SessionSubagents
from outrider.coding.session_tools import SessionTools
from outrider.coding.system_prompt import USUAL_PROMPT, SystemPrompt, agent_prompt, lean_situation
from outrider.coding.toolbox.ask_user import ask_user
from outrider.coding.toolbox.workspace import Workspace
from outrider.coding.user_policy import NOWHERE, SessionRules
from outrider.coding.web_search import WebSearch
from outrider.errors import LogError
from outrider.log.log import Log
from outrider.processes.programs import Programs
from outrider.providers.base import Effort, EffortChoice, Provider
from outrider.providers.catalogue.efforts import check_effort, offered
from outrider.providers.resolution import resolve, resolve_all
from outrider.runtime.agent import Agent
from outrider.runtime.agent_settings import effort_of
from outrider.runtime.budget import Spent, spent_today
from outrider.runtime.events import Event
from outrider.runtime.goal import CheckResult
from outrider.runtime.session import Session
from outrider.tools.tool import Tool, make_tools

if TYPE_CHECKING:
    from outrider.coding.background_telemetry import BackgroundTelemetry
    from outrider.coding.hands.hands import Hands
    from outrider.coding.hands.starter import Starter
    from outrider.mcp.running import RunningServers
    from outrider.mcp.servers import McpServer
    from outrider.runtime.titling import Titler


class Workbench:
    """The parts of one session in a folder. Close it to end the commands that still run in the background."""

    def __init__(
        self,
        settings: Settings,
        folder: str | Path,
        *,
        tools: Sequence[Tool] = (),
        servers: Sequence[McpServer] = (),
        shared: SharedServers | None = None,
        front_end: FrontEnd = NO_FRONT_END,
        system_prompt: SystemPrompt = USUAL_PROMPT,
        meter: Callable[[Provider], Provider] | None = None,
        workspace: Starter | None = None,
    ) -> None:
        """`tools` are the user's own. With `shared`, other sessions in the folder may use the same MCP servers.

        `meter` wraps each provider, also those of sub-agents. `workspace` starts hands elsewhere: files, commands and
        searches are there, and the folder is where the user's hooks and MCP servers run.
        """
        self.settings = settings
        self._here = Workspace(folder)
        self._here.programs = Programs(settings.permissions.working_folders(self._here.folder))
        self._servers, self._shared = servers, shared or SharedServers(most_idle=0)
        self._front_end = front_end
        self._system_prompt = system_prompt
        self.hands = self._new_hands(workspace)
        """Where the tools work, if that is not here."""
        self.workspace: Workspace = self.hands.workspace if self.hands else self._here
        """The state of the tools."""
        self._titlers: list[Titler] = []
        self.effort: Effort | None = None
        """The effort that the agent was asked for. Its sub-agents have the same, where their models offer it."""
        self._remote = RemoteControl(front_end.remote, self.folder) if front_end.remote else None
        self._dialogue = self._new_dialogue()
        place = NOWHERE if self.hands else self.folder
        self.extensions = Extensions(place, settings.hooks.files, own_hooks=settings.managed.own_hooks)
        """What the user and the project add: skills, commands and hooks."""
        self.permissions = self._new_approver()
        self.models = SessionModels(settings, meter)
        self._tools = SessionTools(settings, self.folder, self.permissions, tools)
        self._tools.remove_leftovers()
        self._hooks = SessionHooks(self.extensions, self._here, self._tools, self.permissions, settings.hooks.access)
        self.project: Project = self.hands or ProjectHere(self._here, self.extensions, self._tools, self.permissions)
        """What is known of the project."""
        parts = (settings, self.workspace, self._tools, self.permissions, self.models, self.project)
        self.subagents = SessionSubagents(*parts, self.folder, self._sender)
        """The sub-agents, each with tools of its own."""
        self._plan_mode = PlanMode(self.permissions, lambda: self._reading_task)
        self._missing_files = MissingFiles(self.project.names)
        self._web_search = WebSearch(settings, self.permissions, is_offered=self._tools.offers_search)

    def _new_hands(self, starter: Starter | None) -> Hands | None:
        if starter is None and not self.settings.workspace:
            return None
        from outrider.coding.hands.hands import Hands  # most sessions work here

        hands = Hands(starter, self.settings, lambda: self.permissions.policy, self._front_end.on_server_notice)
        hands.workspace.programs = self._here.programs
        return hands

    def _new_dialogue(self) -> Dialogue:
        return Dialogue(
            self._front_end,
            self._remote,
            self.folder,
            mode=lambda: self.permissions.mode,
            notify=lambda asked: self._hooks.notify(asked),
        )

    def _new_approver(self) -> PermissionApprover:
        front = self._front_end
        place = self.hands.place if self.hands else ""
        tell = front.remote.answered if front.remote else lambda _: None
        rules = SessionRules(self.settings, self.workspace, place, tell)
        approver = PermissionApprover(
            rules.policy(lambda: self.extensions.obeyed(self._allowed_servers, self.folder)),
            ask=self._dialogue.ask if front.ask else self._dialogue.ask_later if front.later else None,
            remember=rules.remember,
            cwd=lambda: self.workspace.shell_cwd,
        )
        approver.given = self._dialogue.given
        approver.command = self.workspace.background.find
        approver.elsewhere = self.hands.judge if self.hands else None
        approver.permit(self.workspace)
        return approver

    @property
    def folder(self) -> Path:
        """The folder of the session here: the project folder, unless the hands are elsewhere."""
        return self._here.folder

    def close(self) -> None:
        """End the commands and the MCP servers that still run."""
        if self._remote:
            self._remote.detach()
        for titler in self._titlers:
            titler.close()
        self._titlers.clear()
        if "servers" in vars(self) and self.servers:
            self._shared.give_back(self.servers)
        if "_telemetry" in vars(self) and self._telemetry:
            self._telemetry.close()
        self._hooks.close()
        self.workspace.close()
        self._here.close()

    @cached_property
    def servers(self) -> RunningServers | None:
        """The MCP servers, for the session and its sub-agents, starting in the background; None if there are none."""
        servers = self._allowed_servers
        return self._shared.take(self.folder, servers, self._start) if servers else None

    def _start(self) -> RunningServers:
        from outrider.coding.mcp.shared_servers import authorize
        from outrider.mcp.running import RunningServers
        from outrider.mcp.server_limits import ServerHost

        programs = self.workspace.programs
        running = RunningServers(
            self._allowed_servers,
            on_elicit=self._dialogue.elicit if self._front_end.elicit else None,
            on_notice=self._front_end.on_server_notice,
            authorize=authorize,
            host=ServerHost({**self._tools.environment, "PATH": programs.path}, programs),
            tools_share=self.settings.mcp.tools_share,
        )
        running.start()
        return running

    @property
    def _allowed_servers(self) -> list[McpServer]:
        """The servers, and those of plugins whose names are free."""
        found = {server.name: server for server in (*self.extensions.plugins.servers, *self._servers)}
        return [server for server in found.values() if self.settings.managed.allows_server(server)]

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The enabled tools of the toolbox, the user's own tools, Task, and AskUser, which sub-agents do not have.

        Raises ConfigError if no sub-agent would have tools.
        """
        tools = self._tools.in_workspace(self.workspace, self._tools.names)
        if "Task" in self._tools.enabled:
            tools.append(self.subagents.task([each for each in self.found_profiles.profiles if each.tools_of(tools)]))
        if "AskUser" in self._tools.enabled:
            tools.append(ask_user(has_user=bool(self._front_end.choose or self._front_end.later)))
        return make_tools(tools)

    @cached_property
    def _reading_task(self) -> Tool | None:
        """Task for plan mode: its sub-agents have only tools that plan mode offers."""
        named = [each for each in self.found_profiles.profiles if each.tools is not None and not each.server_tools]
        profiles = [each for each in named if (own := each.tools_of(self.tools)) and all(map(reads, own))]
        return self.subagents.task(profiles) if profiles else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user about the sub-agent profiles, skills, commands, hooks and plugins that were found."""
        profiles = self.found_profiles.notes if "Task" in self._tools.enabled else ()
        named = [*self.extensions.plugins.servers, *self._servers]
        refused = [each.name for each in named if not self.settings.managed.allows_server(each)]
        left_out = [f"the MCP server {name} is left out: it is not allowed on this machine" for name in refused]
        return (*profiles, *self.extensions.notes, *self.project.notes, *left_out, *self.subagents.recovered)

    # The agent and its session

    def agent(self, *, model: str | Provider | None = None, effort: Effort | None = None) -> Agent:
        """Return the agent for this folder. An effort that one of its models does not have is left out."""
        model = model or self.models.default
        provider, *_ = providers = resolve_all(model)
        lean = is_lean(self.settings.lean, provider)
        formed = [in_form(each, self.settings.tool_calls, lean=lean) for each in providers]
        asked = [self.models.metered(each) for each in formed]
        skills = "" if lean else self._skills_section
        tools: Sequence[Tool] = self.tools
        if lean:
            tools = lean_tools(tools, chosen=self.settings.tools is not None, mode=lambda: self.permissions.mode)
        # Small models describe what they would do. A run that nobody watches is asked for work.
        is_pushed = has_prompted_tools(formed[0]) and not self._front_end.ask
        hooks = self._hooks.hooks
        agent = Agent(
            model=model if asked[0] is provider else asked,
            server_tools=() if lean else self._web_search.tools(*providers),
            system=agent_prompt(self._system_prompt, skills, self.project.instructions, lean=lean),
            situation=lean_situation(self.project.names()) if lean else self.project.situation,
            tools=tools,
            tool_choice="required" if is_pushed else None,
            keeps_on_task=lean,
            temperature=self.settings.temperature,
            mcp=self.servers or (),
            hooks=self._missing_files.added_to(hooks) if is_pushed else hooks,
            limits=self.settings.limits,
            budget=self.settings.budget,
            compaction=self.settings.context.compaction,
            retry=self.settings.retry,
            cache=self.settings.cache,
            effort=effort if effort and all(offered(each, effort) for each in providers) else None,
        )
        self.models.agent_provider, self.effort = agent.provider, effort
        return agent

    def open(
        self,
        log: Log,
        id: str | None = None,
        *,
        model: str | None = None,
        effort: EffortChoice | None = None,
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
        place = self.hands.place if self.hands else ""
        is_known = id is not None and not (create and not log.has(id))
        if id is not None and is_known:
            recorded = log.settings(id)
            check_place(recorded.metadata or {}, place)
            model = model or self.models.stored(recorded.model)
            kept = kept if recorded.effort is None else effort_of(recorded)
        if effort not in (None, "default"):
            check_effort(resolve(model or self.models.default), effort)
        agent = self.agent(model=model, effort=kept if effort is None else None if effort == "default" else effort)
        session = Session.open(
            *(log, id, agent),
            cwd=self.folder,
            observer=observer,
            approve=self.permissions,
            create=create,
            origin=self._front_end.origin,
            metadata={PLACE: place} if place and not is_known else None,
        ).now()
        self.permissions.hide(log.folder)
        self._equip(session, log, titled=titled and self.settings.sessions.titles)
        return session

    def _equip(self, session: Session, log: Log, *, titled: bool) -> None:
        """Give a session what works beside its loop: snapshots, a title, telemetry, hooks and remote control."""
        session.before_run = self._before_run
        session.background.wake = self._front_end.wake
        if self._front_end.ask or self._front_end.choose:
            session.attend(self._dialogue.person)
        session.use_offer(lambda agent: self._web_search.offer(agent, self._plan_mode.offer()))
        self._plan_mode.use_mode = partial(self._follow, session)
        session.use_checks(self._goal_checks)
        if self.settings.sessions.snapshots:
            session.use_folder(self.project.working_folder(log, session.id))
        if titled:
            from outrider.runtime.titling import Titler  # `-p` gives no titles

            self._titlers.append(Titler(session, self.models.for_title))
            session.observe(self._titlers[-1])
        if self._telemetry:
            session.observe(self._telemetry)
        self._hooks.session = session.id
        self._missing_files.messages = lambda: session.messages
        if self._remote:
            self._remote.attach(log, session)

    def spent_today(self, log: Log) -> Iterator[Spent]:
        """Yield what today has cost against each budget of the settings. Blocks."""
        return spent_today(self.settings.budget, log.spent, str(self.folder))

    async def _goal_checks(self, command: str) -> CheckResult | None:
        if self.permissions.mode == "plan":  # the model can change nothing
            return None
        from outrider.coding.goal_checks import check_goal  # few sessions have a goal

        return await check_goal(command, self.workspace, self._tools, self.settings.limits.tool_seconds)

    async def _before_run(self) -> None:
        if self._remote:
            self._remote.begin_run()

    @cached_property
    def _telemetry(self) -> BackgroundTelemetry | None:
        """What exports spans and metrics, if the settings say so. Raises ConfigError if it cannot."""
        if not self.settings.telemetry.export:
            return None
        from outrider.coding.background_telemetry import BackgroundTelemetry  # imports OpenTelemetry

        return BackgroundTelemetry(capture=self.settings.telemetry.capture)

    def keep_question(self, session: Session | None) -> None:
        """Leave a question open that waits, because the program has to end: the log then is what a kill leaves."""
        if session and (session.is_asking or (self._remote and self._remote.questions.is_waiting)):
            session.freeze()

    # The permission mode

    def _follow(self, session: Session, mode: Mode) -> None:
        """Change the mode because an answer of the user says so, and show it."""
        if self._front_end.remote:
            self._front_end.remote.use_mode(mode)
        self.use_mode(mode, session)

    def use_mode(self, mode: Mode, session: Session | None) -> None:
        """Change the permission mode, and store it for when the session is resumed."""
        self.permissions.mode = mode
        if session:
            with suppress(LogError):  # it holds, but is forgotten when the session is resumed
                session.store_mode(self.permissions.mode)

    def restore_mode(self, log: Log, id: str) -> str:
        """Use the mode that a session had, unless it allows more than the mode now. Return a note if it does, or "".

        The log must not widen what a process may do: the user may have tightened the settings since.
        """
        stored = parse_mode(log.settings(id).mode)
        if stored is None:
            return ""
        self.permissions.mode = mode = narrower(stored, self.permissions.mode)
        return "" if mode == stored else sentences.mode_not_restored(stored, mode)

    # Skills and commands

    @cached_property
    def prompt_commands(self) -> PromptCommands:
        """The commands and skills that a person can call by name."""
        commands = self.project.commands_with(self.extensions.commands)
        return PromptCommands(
            commands, self.project.skills, self.permissions, lambda: self.tools, self.folder, self.project.files
        )

    @cached_property
    def _skills_section(self) -> str:
        """The skills in the system prompt. Their files may be read without a question, wherever they are."""
        has_some = "Read" in self._tools.enabled and self.project.skills.found
        return self.project.skills_section if has_some else ""

    # Sub-agents

    def _sender(self) -> Sender:
        return Sender(self._skills_section, self.servers, self._hooks.hooks, self.effort, self._web_search)

    @cached_property
    def found_profiles(self) -> FoundProfiles:
        """The sub-agent profiles, their files, and what was refused."""
        return self.extensions.profiles(self._tools.names)
