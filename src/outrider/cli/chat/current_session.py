"""The current session of the chat: created with the first message, and replaced on request."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.cli.styles import home_relative
from outrider.coding import sentences
from outrider.coding.config.settings import Settings
from outrider.errors import MissingKeyError, OutriderError
from outrider.preloading import HTTP
from outrider.runtime.events import Event, Notice

if TYPE_CHECKING:
    from outrider.coding.config.remembered import ChosenModel
    from outrider.coding.front_end import FrontEnd
    from outrider.coding.mcp.server_files import FoundServers
    from outrider.coding.permissions.question import Mode
    from outrider.coding.toolbox.background_commands import BackgroundCommands
    from outrider.coding.workbench import Workbench
    from outrider.conversation.usage import Usage
    from outrider.log.log import Log
    from outrider.mcp.running import RunningServers
    from outrider.providers.base import Effort, EffortChoice
    from outrider.runtime.context import ContextUsage
    from outrider.runtime.session import Session
    from outrider.tools.tool import Tool


NEEDED = (
    *HTTP,
    "outrider.coding.permissions.decision",
    "outrider.log.journal",
    "outrider.log.resume",
    "outrider.log.sqlite.inbox",
    "outrider.runtime.folder_watch",
    "outrider.runtime.journal",
    "outrider.runtime.opening",
    "outrider.runtime.titling",
)
"""Modules that the first request imports."""


class CurrentSession:
    """The workbench of the folder, the log, and the open session, if any."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        model: str | None,
        observer: Callable[[Event], None],
        effort: EffortChoice | None = None,
    ) -> None:
        self.folder = folder
        self.front_end: FrontEnd | None = None
        """How the session reaches its user, and other processes the session. Set it before the workbench is made."""
        self._found: FoundServers | None = None
        self.mode: Mode = settings.permissions.mode
        self.has_given_mode = False
        """Whether the user gave the mode when the chat was started. Then a resumed session does not change it."""
        self.model = model
        """The model chosen by the user; None uses that of the session or of the settings."""
        self._effort: EffortChoice | None = effort
        """The effort chosen by the user; None uses that of the session or of the settings."""
        self.session: Session | None = None
        self._settings = settings
        self._observer = observer
        self._name = ""
        """The resolved name of the model, once known."""
        self._tools: tuple[Tool, ...] | None = None
        self._bench: Workbench | None = None
        self._log: Log | None = None

    def prepare(self) -> None:
        """Import and create what the first answer needs. This is slow, so it runs while the user types."""
        from outrider.providers.resolution import resolve

        with suppress(MissingKeyError):  # said with the first message, if the user has not entered a key by then
            self._name = resolve(self.model_name).name
        _ = self.bench.servers, self.log, self.bench.tools  # servers first: they start in the background
        for name in NEEDED:
            if name not in HTTP or self._name != "demo":
                import_module(name)
        with suppress(OutriderError):  # said with the first message, too
            _ = self.context  # the system prompt, and the schemas of the tools

    @property
    def where(self) -> str:
        """Where the tools work, for people: the folder, or the place that `--in` names."""
        return self.place or home_relative(self.folder)

    @property
    def place(self) -> str | None:
        """The other machine or the container in which the tools work, as the user wrote it."""
        return self._settings.workspace

    def files_elsewhere(self) -> list[str]:
        """Return the files that Tab completes, if the tools work elsewhere. May block."""
        return self._bench.hands.names() if self._bench and self._bench.hands else []

    @property
    def log(self) -> Log:
        if self._log is None:
            from outrider.sync import default_log

            self._log = default_log()
        return self._log

    @property
    def bench(self) -> Workbench:
        if self._bench is None:
            self._bench = self._new_bench()
        return self._bench

    def _new_bench(self) -> Workbench:
        from outrider.coding.front_end import NO_FRONT_END
        from outrider.coding.tool_files import load_tools
        from outrider.coding.workbench import Workbench

        if self._tools is None:  # once: the user may not have approved later changes of the files
            self._tools = load_tools(self._settings.tool_files)
        return Workbench(
            self._settings,
            self.folder,
            tools=self._tools,
            servers=self.found_servers.servers,
            front_end=self.front_end or NO_FRONT_END,
        )

    @property
    def found_servers(self) -> FoundServers:
        """The MCP servers of the folder, as they were when the chat began."""
        if self._found is None:
            from outrider.coding.mcp.server_files import find_servers

            self._found = find_servers(self.folder)
        return self._found

    @property
    def servers(self) -> RunningServers | None:
        """The MCP servers that run, once the workbench is ready."""
        return self._bench.servers if self._bench else None

    @property
    def prompt_commands(self) -> dict[str, str]:
        """The commands and skills of the user and the project with their descriptions, once the workbench is ready."""
        return self._bench.prompt_commands.descriptions if self._bench else {}

    @property
    def background(self) -> BackgroundCommands:
        from outrider.coding.toolbox.background_commands import BackgroundCommands

        return self._bench.workspace.background if self._bench else BackgroundCommands()

    @property
    def has_news(self) -> bool:
        """Whether a sub-agent in the background has ended, and the model was not told."""
        return self.session is not None and self.session.background.has_news

    def open(self) -> Session:
        if self.session is None:
            self.session = self.bench.open(
                self.log, model=self.model, effort=self._effort, observer=self._observer, titled=True
            )
            if self.mode != self._settings.permissions.mode:
                self.bench.use_mode(self.mode, self.session)
        self.bench.permissions.mode = self.mode  # it may have changed while the bench was being created
        return self.session

    def go_to(self, name: str) -> Session:
        """Close this session and open another, by an id prefix."""
        from outrider.cli.session_lookup import find_session

        found = find_session(self.log, name, latest=False, folder=self.folder)
        assert found
        if self.session and self.session.id == found:
            return self.session
        bench = self._new_bench() if self.session else self.bench
        opened = bench.open(self.log, found, model=self.model, effort=self._effort, observer=self._observer)
        if bench is not self._bench:
            self.leave()
        self.session, self._bench = opened, bench
        self._restore_mode(found)
        return opened

    def _restore_mode(self, id: str) -> None:
        """Use the mode that the resumed session had, if that allows no more. Say what changes."""
        self.bench.permissions.mode = before = self.mode
        if self.has_given_mode:
            return
        note = self.bench.restore_mode(self.log, id)
        self.mode = self.bench.permissions.mode
        if note or self.mode != before:
            self._observer(Notice(note or sentences.mode_is(self.mode)))

    def leave(self) -> None:
        """Close the session and its background commands; the next message starts a new one."""
        if self.session:
            self.session.close()
            self.session = None
        if self._bench:
            self._bench.close()
            self._bench = None

    def fork(self) -> str:
        """Continue in a copy of the session. Return the id of the original, or "" if there is no session."""
        if self.session is None:
            return ""
        original = self.session.id
        self.go_to(self.log.fork(original))
        return original

    def use_model(self, model: str) -> None:
        """Switch to another model, also for later chats here; `default` is that of the settings.

        Raises UnknownModelError, and ConfigError if the choice cannot be stored.
        """
        from outrider.coding.config.loading import load
        from outrider.environment import default_model
        from outrider.providers.resolution import resolve_all

        chosen = None if model == "default" else model
        model = chosen or load(self.folder, environment=os.environ).settings.model or default_model()
        providers = resolve_all(model)
        for each in providers:
            self._settings.managed.check_model(each)
        self._name = providers[0].name
        self.model = model
        if self.session:  # it stays open: sub-agents in the background go on
            self.session.agent = self.bench.agent(model=model, effort=self.bench.effort)
        self._choice.remember(model=chosen)

    @property
    def _choice(self) -> ChosenModel:
        from outrider.coding.config.remembered import ChosenModel
        from outrider.environment import data_folder

        return ChosenModel(data_folder(), self.folder)

    def use_effort(self, effort: EffortChoice) -> None:
        """Change how much the model thinks, also in later chats here. Raises RequestRefusedError.

        Raises UnknownModelError, and ConfigError if the choice cannot be stored.
        """
        from outrider.providers.catalogue.efforts import check_effort
        from outrider.providers.resolution import resolve

        if effort != "default":
            check_effort(self.session.provider if self.session else resolve(self.model_name), effort)
        self._effort = effort
        if self.session:
            self.bench.effort = None if effort == "default" else effort
            self.session.agent = self.session.agent.replace(effort=self.bench.effort)
        self._choice.remember(effort=None if effort == "default" else effort)

    @property
    def effort(self) -> Effort | None:
        """How much the model thinks; None for the provider's default."""
        if self.session:
            return self.session.agent.effort
        chosen = self._effort or self._settings.effort
        return None if chosen == "default" else chosen

    def use_mode(self, mode: Mode) -> None:
        """Change the permission mode, as far as it is allowed on this machine."""
        from outrider.coding.permissions.question import narrower

        self.mode = mode = narrower(mode, self.max_mode)
        if self._bench:
            self._bench.use_mode(mode, self.session)

    @property
    def max_mode(self) -> Mode:
        """The loosest mode that is allowed on this machine."""
        return self._settings.managed.max_mode

    @property
    def model_name(self) -> str:
        """Return the name of the model, as exactly as it is known yet."""
        if self.session:
            return self.session.provider.name
        from outrider.environment import default_model

        return self._name or self.model or self._settings.model or default_model()

    @property
    def context(self) -> ContextUsage:
        """Return what fills the context window: that of the session, or of a new one."""
        if self.session:
            return self.session.context
        from outrider.runtime.session import Session

        return Session(self.bench.agent(model=self.model, effort=self.effort)).context

    @property
    def usage(self) -> Usage | None:
        return self.session.total_usage if self.session else None

    def keep_question(self) -> None:
        """Leave a question open that waits, because the program has to end."""
        if self._bench:
            self._bench.keep_question(self.session)

    def close(self) -> None:
        self.leave()
        if self._log:
            self._log.close()


def history_file() -> Path:
    from outrider.environment import data_folder

    return data_folder() / "chat-history"
