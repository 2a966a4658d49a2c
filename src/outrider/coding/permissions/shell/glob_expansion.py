"""Expand a glob as the shell does, with the files that exist now."""

from __future__ import annotations

import os
import re

from outrider.coding.permissions.patterns import to_regex

MAX_NAMES = 5_000
"""The most names that are compared with a glob."""

MAX_WILDCARDS = 3
"""The most `*` in one name: each more makes matching much slower."""

_GLOB = re.compile(r"[*?\[]")


class ExpansionError(ValueError):
    """A glob that is invalid, or would need too many folders to be listed."""


def expand_glob(pattern: str, folder: str) -> list[str]:
    """Return the paths that a glob without braces may match. Raises ExpansionError.

    Names after the last wildcard need not exist: they may be created before the command runs.
    """
    folders = ["/"] if pattern.startswith("/") else [folder]
    compared = 0
    for name in pattern.split("/"):
        if not _GLOB.search(name):
            folders = [os.path.join(parent, name) for parent in folders]
            continue
        matches = _compile(name).fullmatch
        found: list[str] = []
        for parent in folders:
            names = _names_in(parent)
            compared += len(names)
            found.extend(os.path.join(parent, each) for each in names if matches(each))
        folders = found
        if compared > MAX_NAMES:
            raise ExpansionError("there are too many names")
    return folders


def _names_in(parent: str) -> list[str]:
    try:
        return os.listdir(parent)
    except OSError:
        return []


def _compile(name: str) -> re.Pattern[str]:
    name = re.sub(r"\*+", "*", name)
    if name.count("*") > MAX_WILDCARDS:
        raise ExpansionError("the pattern has too many wildcards")
    is_hidden = "" if name.startswith(".") else r"(?!\.)"
    try:
        return re.compile(is_hidden + to_regex(name), re.DOTALL)
    except re.error as error:
        raise ExpansionError("the pattern cannot be used") from error
