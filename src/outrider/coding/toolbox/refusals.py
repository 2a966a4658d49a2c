"""Why a file tool did not do what it was asked, as a sentence that the model reads."""

from __future__ import annotations

import errno

_REASONS = {
    errno.EACCES: "permission is denied",
    errno.EPERM: "permission is denied",
    errno.ELOOP: "it is a symbolic link that leads back to itself",
    errno.ENAMETOOLONG: "its name is too long for the file system",
    errno.ENOTDIR: "a part of its path is a file, not a folder",
    errno.EEXIST: "a part of its path is a file, not a folder",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "it would be larger than a file may be here",
}


class RefusalError(Exception):
    """What was asked cannot be done. The message is all of the answer."""


def refusal(error: OSError, name: str, deed: str = "read") -> RefusalError:
    """The sentence for what the system says."""
    reason = _REASONS.get(error.errno or 0) or (error.strerror or "the system gives no reason").lower()
    return RefusalError(f"{shown(name)} cannot be {deed}: {reason}.")


def shown(name: str) -> str:
    """A name as it can stand in a sentence: one with control characters is quoted, a very long one is cut."""
    name = name if len(name) <= 300 else f"{name[:100]}…{name[-100:]}"
    return name if name.isprintable() else repr(name)
