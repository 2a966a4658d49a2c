"""The access levels of shell commands: what a command may touch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

Access: TypeAlias = Literal["read", "write", "network", "full"]
"""`read` changes nothing; `write` changes the working folders; `network` also the network; `full` is unconfined."""

ACCESS_LEVELS: tuple[Access, ...] = ("read", "write", "network", "full")
"""From the narrowest to the widest."""

ACCESS_WORDS: Mapping[Access, str] = {
    "read": "reads files, changes nothing, no network",
    "write": "changes files in the folder, no network",
    "network": "changes files in the folder and reaches the network",
    "full": "runs without a sandbox, as you",
}

NO_SANDBOX = (
    "There is no sandbox here: commands run as you, with no limits. You are asked about every command except a few "
    "that only read. To get a sandbox, install bubblewrap on Linux; `outrider doctor` says why one does not work."
)
"""What people are told once if commands cannot be sandboxed."""
