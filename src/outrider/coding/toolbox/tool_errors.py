"""Errors of the file tools, worded for the model."""

from __future__ import annotations

import errno

_REASONS = {
    errno.EACCES: "permission is denied",
    errno.EPERM: "permission is denied",
    errno.ELOOP: "it is a symbolic link that leads back to itself, or that has just appeared",
    errno.ENAMETOOLONG: "its name is too long for the file system",
    errno.ENOTDIR: "a part of its path is a file, not a folder",
    errno.EEXIST: "a part of its path is a file, not a folder",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "it would be larger than a file may be here",
}


class ToolCallError(Exception):
    """A call that cannot be carried out. The message becomes the result."""


def os_error(error: OSError, name: str, action: str = "read") -> ToolCallError:
    """Return the error that explains an OSError to the model."""
    reason = _REASONS.get(error.errno or 0) or (error.strerror or "the system gives no reason").lower()
    return ToolCallError(f"{printable(name)} cannot be {action}: {reason}.")


def printable(name: str) -> str:
    """Return a name that can be used in a sentence: quoted if it has control characters, and cut if it is very long."""
    name = name if len(name) <= 300 else f"{name[:100]}…{name[-100:]}"
    return name if name.isprintable() else repr(name)
