"""Running tasks: the folders, models and sessions that a client may choose, and one session for each task."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from outrider.coding.config.loading import load
from outrider.coding.config.settings import SETTINGS
from outrider.coding.front_end import FrontEnd
from outrider.coding.mcp.server_files import find_servers
from outrider.coding.tool_files import load_tools
from outrider.coding.toolbox.titles import title
from outrider.coding.workbench import Workbench
from outrider.environment import default_model
from outrider.errors import OutriderError, SchemaError
from outrider.jsonrpc import RpcError
from outrider.log.log import Log
from outrider.mcp_server.host import ServedTool
from outrider.mcp_server.task_tool import SPEC, Dialogue, Elicit, TaskArguments, failed, task_arguments, task_result
from outrider.runtime.agent_settings import cwd_of, kept_limits
from outrider.runtime.events import Event, SubagentEvent, ToolStarted, TurnStarted
from outrider.runtime.structured_output import Report
from outrider.text import shorten
from outrider.text.visible import safe_line

MARK = {"made_by": "outrider mcp serve"}
"""The metadata of the sessions of tasks. A client may continue no others."""
MOST_RUNNING = 8
LONGEST_STEP = 200
"""Characters of a step in a progress notification."""
OnStep = Callable[[str], None]


class Tasks:
    """Runs tasks in a few folders, with the settings of the user."""

    def __init__(self, log: Log, folders: Sequence[Path], flags: Mapping[str, Any] = {}) -> None:
        self._log, self._flags = log, flags
        self._folders = [Path(os.path.realpath(each)) for each in folders]
        self._running = 0

    @property
    def tool(self) -> ServedTool:
        return ServedTool(SPEC, self.run)

    async def run(self, arguments: Any, elicit: Elicit | None, on_step: OnStep) -> dict[str, Any]:
        """Run a task, and return the result of the call. `elicit` asks the person; without it, calls are denied."""
        given = task_arguments(arguments)
        if self._running >= MOST_RUNNING:
            return failed(f"{MOST_RUNNING} tasks run at once already; wait for one of them.")
        self._running += 1
        try:
            with ExitStack() as stack:
                return await self._run(stack, given, elicit, on_step)
        except OutriderError as error:
            if isinstance(error, RpcError):
                raise
            return failed(str(error))
        finally:
            self._running -= 1

    async def _run(
        self, stack: ExitStack, given: TaskArguments, elicit: Elicit | None, on_step: OnStep
    ) -> dict[str, Any]:
        report = self._report(given)
        name, folder, flags = self._place(given)
        loaded = load(folder, environment=os.environ, flags={**flags, **self._flags})
        _check_model(given.model, loaded.settings.model)
        asking = Dialogue(elicit, folder) if elicit else None
        front = FrontEnd(
            ask=asking.ask if asking else None,
            elicit=asking.elicit if asking else None,
            choose=asking.choose if asking else None,
            origin="print",
        )
        tools, servers = load_tools(loaded.settings.tool_files), find_servers(folder, os.environ).servers
        bench = Workbench(loaded.settings, folder, tools=tools, servers=servers, front_end=front)
        stack.callback(bench.close)
        observer = _Steps(on_step, folder)
        session = stack.enter_context(bench.open(self._log, name, model=given.model or None, observer=observer))
        if name:
            bench.restore_mode(self._log, name)
        else:
            session.annotate(metadata=MARK)
        session.wait_for_servers(loaded.settings.mcp.start_seconds)
        if not given.prompt.strip() and not session.is_unfinished:
            return failed(f"The session {session.id} has no unfinished work; give a prompt.")
        run = session.run(given.prompt, output=report) if given.prompt.strip() else session.run(output=report)
        return task_result(session.id, await run)

    def _report(self, given: TaskArguments) -> Report | None:
        try:
            return None if given.schema is None else Report(given.schema, is_trusted=False)
        except SchemaError as error:
            raise RpcError.invalid_params(f"The schema cannot be used: {error}") from None

    def _place(self, given: TaskArguments) -> tuple[str | None, Path, dict[str, Any]]:
        """Return the session to continue, the folder, and the limits that the session had. Raises RpcError."""
        if not given.session:
            return None, self._allowed(given.folder), {}
        found = self._log.summaries([given.session]).get(given.session)
        recorded = self._log.settings(given.session) if found and found.metadata == MARK else None
        folder = cwd_of(recorded) if recorded else None
        if recorded is None or folder is None or (given.folder and self._allowed(given.folder) != Path(folder)):
            raise RpcError.invalid_params("There is no such session of this server in its folder.")
        return given.session, self._allowed(folder), kept_limits(recorded)

    def _allowed(self, name: str) -> Path:
        folder = Path(os.path.realpath(self._folders[0] / name)) if name and "\0" not in name else self._folders[0]
        if not any(folder.is_relative_to(each) for each in self._folders) or not folder.is_dir():
            places = ", ".join(map(str, self._folders))
            raise RpcError.invalid_params(f"The folder must be one that exists below {safe_line(places)}.")
        return folder


def _check_model(wanted: str, users: str | None) -> None:
    """Raise RpcError for a model of another provider: a client must not choose where the conversation goes."""
    rule = SETTINGS["model"].consent
    if wanted and rule and rule.widens(users or default_model(), wanted):
        raise RpcError.invalid_params("The model must be one of the provider that the user of this machine has chosen.")


class _Steps:
    """Tells the client what a task does."""

    def __init__(self, on_step: OnStep, folder: Path) -> None:
        self._on_step, self._folder = on_step, folder

    def __call__(self, event: Event) -> None:
        inner = event.event if isinstance(event, SubagentEvent) else event
        if isinstance(inner, ToolStarted):
            self._on_step(shorten(safe_line(title(inner.name, inner.input, self._folder)), LONGEST_STEP, "…"))
        elif isinstance(inner, TurnStarted) and inner is event:
            self._on_step("thinking")
