"""The session that the chat is in: made when something is first said, changed for another on request."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.coding.config.settings import Settings

if TYPE_CHECKING:
    from outrider.coding.permissions.question import Ask, Mode
    from outrider.coding.workbench import Workbench
    from outrider.conversation.messages import Usage
    from outrider.log.log import Log
    from outrider.runtime.events import Event
    from outrider.runtime.session import Session
    from outrider.tools.tool import Tool


class Current:
    """Holds the workbench of the folder, the log, and the session that is open, if one is."""

    def __init__(
        self, settings: Settings, folder: Path, model: str | None, observer: Callable[[Event], None], ask: Ask
    ) -> None:
        self.folder = folder
        self.mode: Mode = settings.permissions.mode
        self.model = model
        """Who is to answer, if the person has said so; None leaves it to the session and to the settings."""
        self.session: Session | None = None
        self._settings = settings
        self._observer = observer
        self._ask = ask
        self._name = ""
        """The name of who answers, once it is known."""
        self._tools: tuple[Tool, ...] | None = None
        self._bench: Workbench | None = None
        self._log: Log | None = None

    def prepare(self) -> None:
        """Import and make what the first answer needs; takes a moment, so it is done while the person types."""
        from outrider.providers import resolve

        self._name = resolve(self.model_name).name
        _ = self.log, self.bench.tools

    @property
    def log(self) -> Log:
        """The log of sessions."""
        if self._log is None:
            from outrider.sync import default_log

            self._log = default_log()
        return self._log

    @property
    def bench(self) -> Workbench:
        """What the session is made of, or will be."""
        if self._bench is None:
            self._bench = self._new_bench()
        return self._bench

    def _new_bench(self) -> Workbench:
        from outrider.coding.tool_files import load_tools
        from outrider.coding.workbench import Workbench

        if self._tools is None:  # once: what the files say by then, nobody may have agreed to
            self._tools = load_tools(self._settings.tool_files)
        return Workbench(self._settings, self.folder, tools=self._tools, ask=self._ask)

    def open(self) -> Session:
        """The session that is open, else a new one."""
        if self.session is None:
            self.session = self.bench.open(self.log, model=self.model, observer=self._observer)
        self.bench.permissions.mode = self.mode  # it may have been changed while the bench was being made
        return self.session

    def go_to(self, name: str) -> Session:
        """Leave this session for another, by the beginning of its id."""
        from outrider.cli.last_session import find_session

        found = find_session(self.log, name, latest=False, folder=self.folder)
        assert found
        if self.session and self.session.id == found:
            return self.session
        bench = self._new_bench() if self.session else self.bench
        opened = bench.open(self.log, found, model=self.model, observer=self._observer)
        if bench is not self._bench:
            self.leave()
        self.session, self._bench = opened, bench
        return opened

    def leave(self) -> None:
        """Begin anew with the next thing that is said; what the session ran in the background ends."""
        if self.session:
            self.session.close()
            self.session = None
        if self._bench:
            self._bench.close()
            self._bench = None

    def fork(self) -> str:
        """Go on in a copy of the session; the id of the one that is left as it is."""
        if self.session is None:
            return ""
        left = self.session.id
        self.go_to(self.log.fork(left))
        return left

    def use_model(self, model: str) -> None:
        """Have another model answer from now on. Raises UnknownModelError."""
        from outrider.providers import resolve

        self._name = resolve(model).name
        self.model = model
        if self.session:
            name = self.session.id
            self.session.close()
            self.session = self.bench.open(self.log, name, model=model, observer=self._observer)

    def use_mode(self, mode: Mode) -> None:
        """Change what is allowed without asking."""
        self.mode = mode
        if self._bench:
            self._bench.permissions.mode = mode

    @property
    def model_name(self) -> str:
        """Who answers, as well as it is known."""
        if self.session:
            return self.session.provider.name
        from outrider.environment import default_model

        return self._name or self.model or self._settings.model or default_model()

    @property
    def usage(self) -> Usage | None:
        """What the session has used."""
        return self.session.total_usage if self.session else None

    def close(self) -> None:
        """Let go of everything."""
        self.leave()
        if self._log:
            self._log.close()


def history_file() -> Path:
    """Where typed lines are kept."""
    from outrider.environment import data_folder

    return data_folder() / "chat-history"


def home_relative(folder: Path) -> str:
    """A folder as people write it."""
    home = os.path.expanduser("~")
    text = str(folder)
    return f"~{text[len(home) :]}" if home != "/" and (text == home or text.startswith(f"{home}/")) else text
