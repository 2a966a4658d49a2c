"""Empty folders that take the place of protected paths while a command runs, so that it cannot create them.

A mount needs something to be mounted on. A placeholder is a folder that holds one empty folder, a token, for each
running command. A command's wrapper makes its token and, at the end, removes the token and then the placeholder: the
kernel refuses to remove a folder that another command's token keeps in use, and never removes content. Tokens of
commands that were killed are removed before the next command and at the end of the process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterable, Sequence

_NAME = "held-by-outrider-while-a-command-runs"
"""A person who cannot create a file because of a placeholder finds the reason in it."""
_TOKEN = re.compile(rf"{_NAME}-(\d+)-(\d+)\Z")
_TRIES = 5
"""Another command may remove the placeholder while this one makes its token."""


def is_absent(path: str) -> bool:
    """Return whether there is nothing at a path, or only a placeholder."""
    return not os.path.lexists(path) or bool(_tokens(path))


def sweep(paths: Iterable[str]) -> None:
    """Remove the placeholders among these paths whose commands have ended."""
    for path in paths:
        tokens = _tokens(path)
        for token in filter(_is_over, tokens):
            with contextlib.suppress(OSError):
                os.rmdir(f"{path}/{token}")
        if tokens:
            with contextlib.suppress(OSError):
                os.rmdir(path)


def holding(paths: Sequence[str], mkdir: str, rmdir: str) -> tuple[str, str]:
    """Return shell code that makes the tokens, and code that removes them."""
    token = f"{_NAME}-{_namespace()}-$$"
    tokens = [f"{shlex.quote(path)}/{token}" for path in paths]
    tries = " ".join(map(str, range(_TRIES)))
    make = f"for try in {tries}; do {shlex.quote(mkdir)} -p {' '.join(tokens)} 2>/dev/null && break; done"
    both = " ".join(f"{own} {shlex.quote(path)}" for own, path in zip(tokens, paths, strict=True))
    return make, f"{shlex.quote(rmdir)} {both} 2>/dev/null"


def _tokens(path: str) -> list[str]:
    """Return the tokens in a placeholder; nothing if the path is anything else."""
    if os.path.islink(path):
        return []
    try:
        names = os.listdir(path)
    except OSError:
        return []
    return names if all(_TOKEN.match(name) for name in names) else []


def _is_over(token: str) -> bool:
    matched = _TOKEN.match(token)
    if not matched or matched[1] != _namespace():
        return False
    try:
        os.kill(int(matched[2]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _namespace() -> str:
    """Return the number of our process namespace: process ids mean nothing in another one."""
    return str(os.stat("/proc/self/ns/pid").st_ino)
