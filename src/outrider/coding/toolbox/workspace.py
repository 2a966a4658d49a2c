"""The folder in which the tools of a session work, and what they remember from one call to the next."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from outrider.coding.toolbox.shell.processes import Processes

if TYPE_CHECKING:
    from outrider.coding.toolbox.editor import Buffers, Terminals

TodoStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


class Todo(msgspec.Struct, frozen=True):
    """One step of the plan."""

    content: str
    status: TodoStatus = "pending"
    active_form: str = msgspec.field(default="", name="activeForm")
    """The step in other words, which some models add. Nobody is shown it."""


class Stamp(msgspec.Struct, frozen=True):
    """A file as it was when the model last saw it: enough to notice that somebody changed it since."""

    sha256: str
    """Empty for a file that is too large to be read whole each time."""
    size: int
    modified_ns: int = 0
    """When it was last changed, where there is no hash."""


class Workspace:
    """Where a session's tools work. Each session has its own."""

    def __init__(self, folder: str | Path, *, within: Workspace | None = None) -> None:
        self.folder = Path(folder).resolve()
        """The project: what is inside may be worked on."""
        self.shell_cwd = self.folder
        """Where the shell stands; a command may change it."""
        self.seen: dict[Path, Stamp] = {}
        """What the model has seen of each file that it read or wrote, by resolved path."""
        self.todos: Sequence[Todo] = ()
        """The plan."""
        self.processes = Processes()
        """The commands that run, also in the background."""
        self.buffers: Buffers | None = within.buffers if within else None
        """The files as an editor has them, if one lends them."""
        self.terminals: Terminals | None = within.terminals if within else None
        """Where an editor runs commands, if one does."""

        self._within = within
        above = within.temporary_name if within else Path(gettempdir()).resolve()
        self.temporary_name: Path = above / f"outrider-{os.urandom(8).hex()}"
        """Where the temporary folder will be, once it is needed."""

    @cached_property
    def temporary(self) -> Path:
        """A folder for the owner alone, which ends with the workspace: what commands printed."""
        import shutil

        if self._within:
            _ = self._within.temporary
        self.temporary_name.mkdir(mode=0o700)
        self._remove_temporary = weakref.finalize(self, shutil.rmtree, self.temporary_name, ignore_errors=True)
        return self.temporary_name

    def for_subagent(self) -> Workspace:
        """A workspace in the same folder which remembers nothing of this one; what it keeps lies below its folder."""
        return Workspace(self.folder, within=self)

    def close(self) -> None:
        """End the commands that still run, and remove what they printed. The workspace can be used again."""
        self.processes.close()
        if self.__dict__.pop("temporary", None):
            self._remove_temporary()

    def path(self, name: str) -> Path:
        """The path that the model means: absolute, or relative to the folder; `~` is the user's home. Not resolved."""
        return self.folder / Path(name).expanduser()
