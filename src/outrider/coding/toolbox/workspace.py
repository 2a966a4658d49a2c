"""The folder in which a session's tools work, and the state that they keep between calls."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import msgspec

from outrider.coding.toolbox.background_commands import BackgroundCommands
from outrider.coding.toolbox.seen_files import SeenFiles
from outrider.processes.processes import Processes
from outrider.processes.programs import Programs
from outrider.temporary_folder import TemporaryFolder, new_path

if TYPE_CHECKING:
    from outrider.coding.toolbox.editor import Buffers, Terminals
    from outrider.tools.tool import Tool

Confirm: TypeAlias = Callable[[str, str, str], str]
"""Takes a call's id, the tool and a resolved path. Returns why the call may not open the file, or ""."""

Grounds: TypeAlias = Literal["agreed", "unasked", "changed"]
"""Why a command runs: a person, a rule or the mode agreed to its level; it only reads, by the names of its programs, so
that it runs at `read`; or it does not run, because it would not be allowed any more."""

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


class Todo(msgspec.Struct, frozen=True):
    """One step of the plan."""

    content: str
    status: TodoStatus = "pending"
    active_form: str = msgspec.field(default="", name="activeForm")
    """Another wording of the step, which some models add. It is not shown."""


def agree(call_id: str) -> Grounds:
    """Let every command run at the level that it asks for."""
    return "agreed"


class Workspace:
    """The folder and the state of one session's tools. Close it, or use it in a `with` or `async with` block."""

    def __init__(self, folder: str | Path, *, parent: Workspace | None = None) -> None:
        self.folder = Path(folder).resolve()
        """The project folder, inside which the tools may work."""
        self.shell_cwd = self.folder
        """The working directory of the shell; a command may change it."""
        self.seen = SeenFiles()
        """What the model has seen of files."""
        self.confirm: Confirm = lambda *_: ""
        """Called by file tools with a resolved path, just before they open it."""
        self.grounds: Callable[[str], Grounds] = agree
        """Called by Bash with a call's id, just before its command starts."""
        self.granted: Callable[[str], Any] = lambda _: None
        """Returns how a call was allowed, by its id, for tools that run elsewhere."""
        self.programs: Programs = parent.programs if parent else Programs([self.folder])
        """The programs outside the working folders."""
        self.todos: Sequence[Todo] = ()
        """The plan."""
        self.processes = Processes()
        """The running commands, also those in the background."""
        self.background: BackgroundCommands = BackgroundCommands(parent.background if parent else None)
        """The commands in the background, with those of sub-agents."""
        self.buffers: Buffers | None = parent.buffers if parent else None
        """The editor's versions of files, if there is an editor."""
        self.terminals: Terminals | None = parent.terminals if parent else None
        """The editor's terminals, if it runs commands."""
        self.forwarded: Callable[[Tool], Tool] | None = None
        """Makes a tool run elsewhere, if the folder is not here."""
        self.name = ""
        """The name of a sub-agent's workspace elsewhere."""

        self._parent = parent
        self.temporary_path: Path = parent.temporary_path / os.urandom(8).hex() if parent else new_path()
        """The path of the temporary folder, which is created on first use."""

    @cached_property
    def temporary(self) -> Path:
        """A private folder for the output of commands. It is removed with the workspace."""
        if self._parent:
            _ = self._parent.temporary
        self._temporary = TemporaryFolder(self.temporary_path)
        return self.temporary_path

    def for_subagent(self, folder: Path | None = None) -> Workspace:
        """Return a workspace in the same folder, or in a worktree, without this one's state.

        Its temporary folder is inside this one's. An editor shows no files of a worktree.
        """
        workspace = Workspace(folder or self.folder, parent=self)
        if folder:
            workspace.buffers = None
        return workspace

    def open(self) -> None:
        """Connect to the folder, if it is elsewhere. Blocks. Raises HandsError."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.open)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """End the commands that still run and remove their output. The workspace can be used again."""
        self.processes.close()
        self.background.clear()
        if self.__dict__.pop("temporary", None):
            self._temporary.remove()

    def path(self, name: str) -> Path:
        """Return the path that the model means: absolute, relative to the folder, or below `~`. Links stay."""
        return self.folder / Path(name).expanduser()
