"""The sessions of a batch's tasks, each with the coding agent in the folder that the task names."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from outrider.batches.metering import Meter
from outrider.batches.task import Task
from outrider.coding.config.layers import DEFAULT
from outrider.coding.config.loading import load
from outrider.coding.config.remembered import RememberedRules
from outrider.coding.config.settings import Settings
from outrider.coding.front_end import FrontEnd
from outrider.coding.hands.containers import Containers, Engine
from outrider.coding.hands.place import Place
from outrider.coding.mcp.server_files import find_servers
from outrider.coding.mcp.shared_servers import SharedServers
from outrider.coding.permissions.file_access import is_hidden
from outrider.coding.system_prompt import SystemPrompt
from outrider.coding.toolbox.workspace import Workspace
from outrider.coding.user_policy import user_policy
from outrider.coding.workbench import Workbench
from outrider.coding.worktrees import MERGED, Worktrees
from outrider.environment import data_folder
from outrider.errors import ConfigError
from outrider.log.log import Log
from outrider.processes.programs import Programs
from outrider.providers.api import ApiProvider
from outrider.providers.debugging import logger
from outrider.providers.resolution import resolve
from outrider.runtime.limits import Limits
from outrider.runtime.session import ONE_RUN_SECONDS, Session
from outrider.tools.tool import Tool


class CodingSessions:
    """Opens sessions with the coding agent. What a task does not say comes from the worker's own settings."""

    def __init__(self, log: Log, tools: Sequence[Tool] = ()) -> None:
        self._log, self._tools = log, tools
        self._servers = SharedServers()
        self._containers: Containers | None = None

    @asynccontextmanager
    async def __call__(self, task: Task, id: str, meter: Meter) -> AsyncIterator[Session]:
        """Open the session of a task: in its folder, its container, or a worktree that is merged at the end."""
        folder = task_folder(task)
        if not task.isolation:
            async with self._place(task, id) as place, self._opened(task, folder, id, meter, place) as session:
                yield session
            return
        worktrees = _worktrees(task, folder, os.environ)
        async with worktrees.open(folder, id, task.id or "a task") as worktree:
            async with self._opened(task, worktree.folder, id, meter) as session:
                yield session
            note = await worktrees.settle(worktree, "" if session.is_unfinished else "done")
            logger.log(logging.INFO if MERGED in note else logging.WARNING, "task %s: %s", task.id, note)

    @asynccontextmanager
    async def _opened(
        self, task: Task, folder: Path, id: str, meter: Meter, place: Place | None = None
    ) -> AsyncIterator[Session]:
        bench, session = await asyncio.to_thread(self._open, task, folder, id, meter, place)
        try:
            yield session
        finally:
            with suppress(RuntimeError):
                await session.aclose()
            await asyncio.to_thread(bench.close)

    @asynccontextmanager
    async def _place(self, task: Task, id: str) -> AsyncIterator[Place | None]:
        """Yield the container of a task with an image. It is removed at the end."""
        if not task.image or "workspace" in task.settings:
            yield None
            return
        if self._containers is None:
            named = task_settings(task, Path.cwd(), os.environ).container_program
            self._containers = Containers(Engine(named or "", os.environ))
        async with self._containers.fresh(task.image, id) as name:
            yield Place("container", name, task.cwd, engine=self._containers.engine.program)

    def _open(self, task: Task, folder: Path, id: str, meter: Meter, place: Place | None) -> tuple[Workbench, Session]:
        settings = task_settings(task, folder, os.environ)
        bench = Workbench(
            settings,
            folder,
            tools=self._tools,
            servers=find_servers(folder, os.environ).servers,
            shared=self._servers if settings.mcp.share else None,
            front_end=FrontEnd(later=task.ask_later, origin="batch"),
            system_prompt=SystemPrompt(task.system_prompt),
            meter=meter,
            workspace=place,
        )
        try:
            session = bench.open(self._log, id, model=task.model or None, create=True)
        except BaseException:
            bench.close()
            raise
        session.wait_for_servers(ONE_RUN_SECONDS)
        return bench, session

    def close(self) -> None:
        """End the MCP servers that tasks have shared."""
        self._servers.close()


def _worktrees(task: Task, folder: Path, environment: Mapping[str, str]) -> Worktrees:
    settings, workspace = task_settings(task, folder, environment), Workspace(folder)
    policy = user_policy(settings, workspace, RememberedRules(data_folder(), folder))
    return Worktrees(Programs([folder]), lambda path: is_hidden(policy, path))


def check_task(task: Task, environment: Mapping[str, str], *, here: bool) -> None:
    """Raise an OutriderError if no worker can run the task; with `here`, also if its folder or key is not here."""
    provider = resolve(task.model) if task.model else None
    if here and isinstance(provider, ApiProvider):
        provider.required_key()
    folder = task_folder(task) if here else Path.cwd()
    task_settings(task, folder, environment)


def task_folder(task: Task) -> Path:
    """Return the working folder of a task. Raises ConfigError if it is not there."""
    folder = Path(task.cwd).expanduser().absolute() if task.cwd and not task.image else Path.cwd()
    if not folder.is_dir():
        raise ConfigError(f"cwd: there is no folder {task.cwd} on this machine")
    return folder


def task_settings(task: Task, folder: Path, environment: Mapping[str, str]) -> Settings:
    """Return the settings of a folder with what the task asks for. Raises ConfigError."""
    given: dict[str, Any] = {**task.settings}
    if task.model:
        given["model"] = task.model
    if task.effort:
        given["effort"] = task.effort
    if task.permissions:
        given["permissions.mode"] = task.permissions
    if task.allow:
        given["permissions.allow"] = list(task.allow)
    if task.tools is not None:
        given["tools"] = list(task.tools)
    loaded = load(folder, environment=environment, flags=given)
    usual = loaded.settings.limits
    if loaded.origins["limits.max_turns"] == DEFAULT:  # nobody watches a task
        usual = msgspec.structs.replace(usual, max_turns=Limits().max_turns)
    return msgspec.structs.replace(loaded.settings, limits=task.run_limits(usual))
