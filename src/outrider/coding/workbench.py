"""What the terminal program and editors make a session of: settings and a folder in; tools, prompt, permissions out."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import cached_property
from pathlib import Path

import msgspec

from outrider.coding.config.remembered import RememberedRules
from outrider.coding.config.settings import Settings
from outrider.coding.instructions import as_prompt, project_instructions
from outrider.coding.permissions.asking import Permissions
from outrider.coding.permissions.files import hidden
from outrider.coding.permissions.patterns import escaped
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Ask
from outrider.coding.permissions.rules import Rule
from outrider.coding.profiles import Found, find_profiles
from outrider.coding.sandbox import Sandbox, find_sandbox
from outrider.coding.toolbox import ALL_NAMES, TOOL_NAMES, standard
from outrider.coding.toolbox.search import ripgrep
from outrider.coding.toolbox.workspace import Workspace
from outrider.environment import config_file, data_folder, default_model
from outrider.errors import ConfigError
from outrider.log.log import Log
from outrider.prompts import prompt
from outrider.providers import resolve
from outrider.providers.base import Provider
from outrider.providers.secrets import MODEL_KEYS, without_model_keys
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event
from outrider.runtime.session import Session
from outrider.runtime.structured_output import Report
from outrider.subagents.models import model_for
from outrider.subagents.profile import Profile, built_in
from outrider.subagents.task import SubagentSetup, Task
from outrider.tools.tool import Tool, make_tools

UNWANTED = ("BASH_ENV", "ENV", "CDPATH", "GLOBIGNORE", "SHELLOPTS", "BASHOPTS")
"""Variables by which bash runs a file first, goes to another folder, or reads a command in another way."""

WITHOUT_TOOLS = (
    "Task is among the tools, but no sub-agent would have any: they have only tools that are listed. List theirs as "
    "well, as in --tools Task,Read,Glob,Grep, or leave the list out for all"
)


class Workbench:
    """What one session in a folder is made of. Close it to end the commands that still run in the background."""

    def __init__(
        self,
        settings: Settings,
        folder: str | Path,
        *,
        tools: Sequence[Tool] = (),
        ask: Ask | None = None,
    ) -> None:
        self.settings = settings
        self.workspace = Workspace(folder)
        self._own_tools = tools
        self._sender: Provider | None = None
        """Who answers here, once that is known."""
        self._providers: dict[str, Provider] = {}
        remembered = RememberedRules(data_folder(), self.folder)
        self.permissions = Permissions(
            _policy(settings, self.workspace, remembered.rules()),
            ask=ask,
            remember=remembered.add,
            cwd=lambda: self.workspace.shell_cwd,
        )

    @property
    def folder(self) -> Path:
        """The project."""
        return self.workspace.folder

    def close(self) -> None:
        """End what still runs."""
        self.workspace.close()

    @cached_property
    def sandbox(self) -> Sandbox | None:
        """What commands run in; None if they run as the user does. Raises ConfigError if there must be one."""
        wanted = self.settings.sandbox
        folders = self.settings.permissions.folders
        found = None if wanted.use == "off" else find_sandbox(network=wanted.network, writable=folders)
        if found is None and wanted.use == "require":
            raise ConfigError(
                'sandbox.use is "require", but there is no bubblewrap here that works: install it (the package is '
                'called bubblewrap), or set sandbox.use to "auto"'
            )
        return found

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The toolbox, as far as the settings want it, the user's own tools, and whoever can be sent out.

        Raises ConfigError if those who could be sent out would have no tools.
        """
        tools = self._tools_in(self.workspace, self._tool_names)
        if "Task" in self._wanted:
            profiles = [profile for profile in self._found.profiles if profile.tools_of(tools)]
            if not profiles:
                raise ConfigError(WITHOUT_TOOLS)
            characters = self.settings.subagents.result_characters
            tools.append(Task(profiles, self._engage, result_characters=characters).tool)
        return make_tools(tools)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of the profiles of sub-agents that were found."""
        return self._found.notes if "Task" in self._wanted else ()

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """Who can be sent out."""
        return self._found.profiles

    def agent(self, *, model: str | Provider | None = None, report: Report | None = None) -> Agent:
        """Who works here."""
        agent = Agent(
            model=model or self.settings.model or default_model(),
            system=self._system(prompt("agent")),
            tools=[*self.tools, report.tool] if report else self.tools,
            limits=self.settings.limits,
        )
        self._sender = agent.provider
        return agent

    def open(
        self,
        log: Log,
        id: str | None = None,
        *,
        model: str | None = None,
        report: Report | None = None,
        observer: Callable[[Event], None] | None = None,
    ) -> Session:
        """A session in the log. One that goes on keeps its model unless another is named here."""
        if id is not None:
            model = model or log.settings(id).model
        agent = self.agent(model=model, report=report)
        return Session.open(log, id, agent, cwd=self.folder, observer=observer, approve=self.permissions).now()

    # Sub-agents

    @cached_property
    def _found(self) -> Found:
        users = [Path("~/.claude/agents").expanduser(), config_file().parent / "agents"]
        return find_profiles(self.folder, users, built_in(), tools=self._tool_names, home=Path.home())

    @contextmanager
    def _engage(self, profile: Profile, title: str, tier: str) -> Iterator[SubagentSetup]:
        """A sub-agent in the same folder, with the same permissions and tools that know nothing of its sender."""
        workspace = self.workspace.for_subagent()
        agent = Agent(
            model=self._model_of(profile, tier),
            system=self._system(prompt("subagent"), profile.prompt),
            tools=self._tools_in(workspace, self._tool_names if profile.tools is None else profile.tools),
            limits=profile.limits_within(self.settings.limits),
            name=profile.name,
        )
        approve = self.permissions.on_behalf_of(f"{profile.name}: {title}", lambda: workspace.shell_cwd)
        try:
            yield SubagentSetup(agent, approve, self.folder)
        finally:
            workspace.close()

    def _model_of(self, profile: Profile, tier: str) -> Provider:
        """Who answers for a sub-agent: one connection for all of them. A project does not choose another vendor."""
        sender = self._sender or resolve(self.settings.model or default_model())
        model = model_for(tier or profile.model, sender, from_project=profile.from_project)
        if not isinstance(model, str):
            return model
        if model not in self._providers:
            self._providers[model] = resolve(model)
        return self._providers[model]

    # What both are made of

    @cached_property
    def _wanted(self) -> Sequence[str]:
        return ALL_NAMES if self.settings.tools is None else self.settings.tools

    def _tools_in(self, workspace: Workspace, names: Sequence[str]) -> list[Tool]:
        """Those of the tools that are wanted here which are named."""
        standing = standard(
            workspace,
            [name for name in self._wanted if name in names],
            sandbox=self.sandbox if "Bash" in self._wanted else None,
            environment=_for_commands(os.environ),
            private_addresses=self.settings.web.private_addresses,
            hidden=lambda path: hidden(self.permissions.policy, path),
            unwanted=(*MODEL_KEYS, *UNWANTED),
        )
        return [*standing, *(tool for tool in self._own_tools if tool.name in names)]

    @property
    def _tool_names(self) -> list[str]:
        return [*TOOL_NAMES, *(tool.name for tool in self._own_tools)]

    def _system(self, *words: str) -> str:
        instructions = as_prompt(project_instructions(self.folder, home=Path.home()))
        parts = [*words, instructions, self._surroundings()]
        return "\n\n".join(part for part in parts if part)

    def _surroundings(self) -> str:
        repository = (
            "is in" if any((each / ".git").exists() for each in (self.folder, *self.folder.parents)) else "is not in"
        )
        return (
            f"# Where you are\n\n- The folder: {self.folder}, which {repository} a git repository\n"
            f"- The system: {platform.system()} {platform.machine()}\n- The date: {date.today().isoformat()}"
        )


def _own_files(settings: Settings) -> Iterator[Path]:
    """What decides about permissions, or runs without being asked about: for the user alone to change."""
    yield config_file().resolve()
    yield data_folder().resolve()
    yield from (Path(file).resolve() for file in settings.tool_files)
    package = Path(__file__).resolve().parent
    if "site-packages" in package.parts:  # where it is being worked on, it may be changed
        yield package
    if search := ripgrep.find():
        yield search.resolve()


def _for_commands(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the keys to models, and without what makes a command another than it says."""
    left = without_model_keys(environment)
    wanted = {name: left[name] for name in left if name not in UNWANTED and not name.startswith("BASH_FUNC_")}
    if path := wanted.get("PATH"):  # an entry that is not absolute leads into the project
        wanted["PATH"] = os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry))
    return wanted


def _policy(settings: Settings, workspace: Workspace, remembered: Sequence[str]) -> Policy:
    """What the user has set; what commands printed may be read, and what Outrider itself goes by is not changed."""
    wanted, folder = settings.permissions, workspace.folder
    printed = f"Read({escaped(str(workspace.temporary_name))}/**)"
    kept = [f"Edit({escaped(str(path))})" for path in _own_files(settings)]
    policy = Policy(
        mode=wanted.mode,
        folder=folder,
        folders=tuple((folder / Path(each).expanduser()).resolve() for each in wanted.folders),
        allow=tuple(map(Rule.parse, (*wanted.allow, *remembered, printed))),
        ask=tuple(map(Rule.parse, wanted.ask)),
        deny=tuple(map(Rule.parse, (*wanted.deny, "Edit(./.outrider/**)", *kept))),
    )
    return policy if wanted.secrets is None else msgspec.structs.replace(policy, secrets=wanted.secrets)
