"""May this search look there? Patterns can reach out of their folder, too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from outrider.coding.permissions.files import judge_path
from outrider.coding.permissions.finding import Finding, denied
from outrider.coding.permissions.paths import place
from outrider.coding.permissions.patterns import TooManyError, alternatives
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.secrets import names_a_secret

_WILD = re.compile(r"[*?\[\]{}()|!+@\\]")


def judge_search(policy: Policy, tool: str, input: Mapping[str, Any]) -> list[Finding]:
    """What is found about a call of Glob or Grep."""
    base = input.get("path")
    base = "." if base is None else base
    globs = [input.get(name) for name in (("pattern",) if tool == "Glob" else ("glob",)) if input.get(name) is not None]
    if not isinstance(base, str) or not all(isinstance(glob, str) for glob in globs):
        return [denied(f"the path and the pattern of {tool} must be text")]
    findings = [judge_path(policy, tool, "read", place(base, str(policy.folder)))]
    for glob in globs:
        findings.extend(_judge_glob(policy, tool, base, str(glob)))
    return findings


def _judge_glob(policy: Policy, tool: str, base: str, glob: str) -> Iterator[Finding]:
    try:
        patterns = [part for each in alternatives(glob) for part in {each, *each.split("|")}]
    except TooManyError:
        yield Finding("ask", "the pattern has too many alternatives to be judged")
        return
    for pattern in patterns:
        plain = pattern.replace("\\", "").lstrip("!")
        if names_a_secret(plain, policy.secrets):
            yield denied(f"{glob} looks for secrets, which stay closed")
        elif tool == "Glob":
            yield from _judge_reach(policy, tool, base, plain)


def _judge_reach(policy: Policy, tool: str, base: str, pattern: str) -> Iterator[Finding]:
    """The folder where the pattern begins to be one is what is read."""
    fixed: list[str] = []
    names = pattern.split("/")
    while names and not _WILD.search(names[0]):
        fixed.append(names.pop(0))
    if any(".." in name for name in names):
        yield Finding("ask", f"the pattern {pattern} may lead out of the folder")
    if fixed:
        start = "/".join(fixed) or "/"
        yield judge_path(
            policy, tool, "read", place(start if start[0] in "/~" else f"{base}/{start}", str(policy.folder))
        )
