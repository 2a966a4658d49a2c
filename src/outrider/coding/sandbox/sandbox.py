"""What every sandbox does, and what it must know about the folder that a command works in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from outrider.coding.access import Access


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """The places of one command."""

    folder: Path
    """The project's folder, which access `write` may change."""
    cwd: Path
    """Where the command starts."""
    temporary: Path
    """A private folder that becomes the command's /tmp. All commands of a session share it."""
    writable: tuple[Path, ...] = ()
    """More working folders, as `permissions.folders` names them."""
    secrets: tuple[str, ...] = ()
    """Patterns of the files that no command may read."""


class Sandbox(Protocol):
    """A way to run commands with less than the user's rights."""

    @property
    def name(self) -> str:
        """The mechanism, such as `bubblewrap`."""
        ...

    def wrap(self, argv: Sequence[str], access: Access, places: Confinement) -> list[str]:
        """Return the arguments that run `argv` with an access level. With `full`, return `argv` itself.

        The result must work from any parent process, also an editor's terminal: it inherits no descriptor.
        """
        ...
