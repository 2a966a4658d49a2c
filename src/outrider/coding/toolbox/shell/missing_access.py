"""Recognise a command that failed because its access level was too low, from its exit code and the end of its output.

An ordinary failure must not look like this: the model would ask for more access than it needs. So a message about a
file counts only if this process could change that file, and messages that are not at the end do not count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from outrider.coding.access import ACCESS_LEVELS, ACCESS_WORDS, Access

LAST_LINES = 8
"""Lines at the end of the output in which the cause of a failure is expected."""

# These are compiled when a command fails in the sandbox.
_NETWORK = (
    r"could not resolve (?:host|proxy)|temporary failure in name resolution|temporary failure resolving"
    r"|name or service not known|network is unreachable|ENETUNREACH|EAI_AGAIN|getaddrinfo ENOTFOUND"
    r"|failed to lookup address|nodename nor servname|dial tcp: lookup|unable to resolve host"
)
_BUSY = r"device or resource busy|EBUSY"
"""What a folder with a secret in it, or a protected entry, says when it is renamed or removed."""
_READ_ONLY = r"read-only file system|EROFS"
_REFUSED = r"permission denied|operation not permitted|EACCES|EPERM"
_CHANGE = (
    r"cannot (?:create|touch|remove|move|stat .* for writing)|(?:unable|failed|could not|cannot) .{0,40}"
    r"(?:creat|writ|remov|renam|lock|unlink|mkdir|open .* for writing)|mkdir|unlink|rename|rmdir"
)
_PATHS = r"['\"‘“`]([^'\"’”`\s]+)['\"’”`]|(?:^|\s)([\w.~/@+-]+)(?=: (?:read-only|permission|operation))"


def missing_access(access: Access, exit_code: int | None, output: str, cwd: Path, folders: Sequence[Path]) -> str:
    """Return a sentence for the model that names the level which a failed command needs, or ""."""
    needed = _needed(access, output, cwd, folders) if exit_code and access != "full" else None
    if needed is None or ACCESS_LEVELS.index(needed) <= ACCESS_LEVELS.index(access):
        return ""
    return f"It seems to need access {needed} ({ACCESS_WORDS[needed]}): it ran with access {access}."


def _needed(access: Access, output: str, cwd: Path, folders: Sequence[Path]) -> Access | None:
    for line in [line for line in output.splitlines() if line.strip()][: -LAST_LINES - 1 : -1]:
        if re.search(_NETWORK, line, re.I):
            return "network"
        if access != "read" and re.search(_BUSY, line, re.I):
            return "full"
        if re.search(_READ_ONLY, line, re.I) or re.search(_REFUSED, line, re.I):
            found = [quoted or bare for quoted, bare in re.findall(_PATHS, line, re.I)]
            paths = [cwd / Path(name) for name in found if "/" in name or not name.isspace()]
            if level := _for_file(access, line, paths, folders):
                return level
    return None


def _for_file(access: Access, line: str, paths: Sequence[Path], folders: Sequence[Path]) -> Access | None:
    read_only = bool(re.search(_READ_ONLY, line, re.I))
    for path in paths:
        changes = read_only or re.search(_CHANGE, line, re.I) or not os.path.lexists(path)
        if changes and _could_change(path):
            inside = any(path.is_relative_to(folder) for folder in folders) and ".git" not in path.parts
            is_protected = access != "read"  # `write` can change the rest of the folder
            return "write" if inside and not is_protected else "full"
    return "write" if read_only and not paths else None


def _could_change(path: Path) -> bool:
    """Return whether this process may change the file, or create it: then it was the sandbox that refused."""
    existing = next((each for each in (path, *path.parents) if os.path.exists(each)), Path("/"))
    return os.access(existing, os.W_OK)
