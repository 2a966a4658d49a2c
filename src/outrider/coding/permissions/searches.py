"""Check a search: the folder where it starts, and its pattern, which may lead out of that folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from outrider.coding.permissions.files import check_path
from outrider.coding.permissions.part_decision import PartDecision, deny_part
from outrider.coding.permissions.paths import resolve_tool_path
from outrider.coding.permissions.policy import Policy
from outrider.coding.protected_paths import targets_secrets
from outrider.coding.wildcards import TooManyAlternativesError, alternatives

_WILD = re.compile(r"[*?\[\]{}()|!+@\\]")


def check_search(policy: Policy, tool: str, input: Mapping[str, Any]) -> list[PartDecision]:
    """Check a call of Glob or Grep."""
    base = input.get("path")
    base = "." if base is None else base
    globs = [input.get(name) for name in (("pattern",) if tool == "Glob" else ("glob",)) if input.get(name) is not None]
    if not isinstance(base, str) or not all(isinstance(glob, str) for glob in globs):
        return [deny_part(f"the path and the pattern of {tool} must be text")]
    decisions = [check_path(policy, tool, "read", resolve_tool_path(base, str(policy.folder)))]
    for glob in globs:
        decisions.extend(_check_glob(policy, tool, base, str(glob)))
    return decisions


def _check_glob(policy: Policy, tool: str, base: str, glob: str) -> Iterator[PartDecision]:
    try:
        patterns = [part for each in alternatives(glob) for part in {each, *each.split("|")}]
    except TooManyAlternativesError:
        yield PartDecision("ask", "the pattern has too many alternatives to check")
        return
    for pattern in patterns:
        plain = pattern.replace("\\", "").lstrip("!")
        if targets_secrets(plain, policy.secrets):
            yield deny_part(f"{glob} looks for secrets, which are never opened")
        elif tool == "Glob":
            yield from _check_reach(policy, tool, base, plain)


def _check_reach(policy: Policy, tool: str, base: str, pattern: str) -> Iterator[PartDecision]:
    """Check the fixed beginning of a pattern, which is the folder that is read."""
    fixed: list[str] = []
    names = pattern.split("/")
    while names and not _WILD.search(names[0]):
        fixed.append(names.pop(0))
    if any(".." in name for name in names):
        yield PartDecision("ask", f"the pattern {pattern} may lead out of the folder")
    if fixed:
        start = "/".join(fixed) or "/"
        yield check_path(
            policy,
            tool,
            "read",
            resolve_tool_path(start if start[0] in "/~" else f"{base}/{start}", str(policy.folder)),
        )
