"""Check whether a file may be read or written. Its path is resolved first: `~` and links are followed.

Hard links are not detected: they are the file under a second name. Links that are created between the check and the
call do not matter to the file tools: they confirm the path that they open, and open it without following links.
"""

from __future__ import annotations

import os
import os.path
import re
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from outrider.coding.permissions.policy import ALLOWED, Decision, Policy, allowed_by, deny_part
from outrider.coding.permissions.rules import Rule
from outrider.coding.protected_paths import is_configuration, is_in_git, is_own_setting, is_secret
from outrider.coding.wildcards import escaped
from outrider.filesystem import is_within

MAX_LINKS = 40
"""Links to follow before they count as a loop, as in a kernel."""

HARMLESS_DEVICES = {"read": frozenset({"/dev/null"}), "write": frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})}
"""Devices that a command may always open."""


class ResolvedPath(msgspec.Struct, frozen=True):
    """A path as it was given, and the path it resolves to."""

    given: str
    resolved: str = ""
    """The absolute path without links; empty if it is unknown."""
    all_paths: tuple[str, ...] = ()
    """Every absolute path on the way: as given, after each link, and as resolved. All of them must be permitted."""
    problem: str = ""
    """Why it cannot be resolved, for the model."""
    per_process: bool = False
    """Whether it differs for each process, as /proc/self/cwd does. Such a path never counts as inside a folder."""


def resolve_tool_path(name: object, base: str) -> ResolvedPath:
    """Resolve a path as a tool does: relative to the base, with `~` for the home folder. Never raises."""
    if not isinstance(name, str):
        return ResolvedPath(repr(name)[:80], problem="the path must be text")
    if name.startswith("file:"):
        return ResolvedPath(name, problem="a path is wanted, not a file: address")
    try:
        return _resolve(name, str(base / Path(name).expanduser()))
    except RuntimeError:
        return ResolvedPath(name, problem=f"there is no such user: {name.partition('/')[0]}")
    except (OSError, ValueError):
        return ResolvedPath(name, problem="the path cannot be used")


def resolve_shell_path(name: str, base: str) -> ResolvedPath:
    """Resolve a path as a program does with its arguments: `~` is not expanded. Never raises."""
    try:
        return _resolve(name, os.path.join(base, name))
    except (OSError, ValueError):
        return ResolvedPath(name, problem="the path cannot be used")


def as_resolved(path: str) -> ResolvedPath:
    """Return an absolute path that a tool has resolved. Links that appeared since are not followed."""
    return ResolvedPath(path, path, (path,), per_process=_is_per_process(path))


def is_inside(resolved: str, folders: tuple[str, ...]) -> bool:
    """Return whether a resolved path is one of the folders or is inside one."""
    return any(is_within(resolved, folder) for folder in folders)


def _resolve(name: str, path: str) -> ResolvedPath:
    if "\0" in path:
        return ResolvedPath(name.replace("\0", "\\0"), problem="the path has a NUL character")
    path.encode()  # raises ValueError for a lone surrogate
    resolved, hops = follow_links(path)
    written = os.path.normpath(path)
    if any(_is_per_process(each) for each in (written, *hops, resolved)):
        return ResolvedPath(name, resolved, (written, *hops, resolved), per_process=True)
    return ResolvedPath(name, resolved, tuple(dict.fromkeys((written, *hops, resolved))))


def _is_per_process(path: str) -> bool:
    """Return whether the path differs for each process, as /proc/self/cwd does."""
    if path.startswith("//"):
        path = path[1:]
    return path.startswith(("/proc/", "/dev/"))


def follow_links(path: str) -> tuple[str, list[str]]:
    """Return the path without links, `.` and `..`, and the path after each link. Raises OSError for a loop."""
    waiting = path.split("/")[::-1]
    reached = ""
    hops: list[str] = []
    while waiting:
        name = waiting.pop()
        if name in ("", "."):
            continue
        if name == "..":
            reached = reached.rpartition("/")[0]
            continue
        try:
            target = os.readlink(f"{reached}/{name}")
        except OSError:  # not a link, or missing
            reached = f"{reached}/{name}"
            continue
        if len(hops) >= MAX_LINKS:
            raise OSError("the links form a loop")
        hops.append(os.path.normpath("/".join((reached, name, *waiting[::-1]))))
        reached = "" if target.startswith("/") else reached
        waiting.extend(target.split("/")[::-1])
    return reached or "/", hops


Opening: TypeAlias = Literal["read", "write"]
"""What is done with a file."""

SEARCH_TOOLS = ("Read", "Grep", "Glob")
"""The tools whose rules apply to the results of a search."""

_CONFIGURES = "configures an editor, a shell, hooks or a CI service, which run what it says"
PLAN_MODE = "nothing is changed in plan mode: say what you would do instead"


def check_path(policy: Policy, tool: str, access: Opening, target: ResolvedPath) -> Decision:
    if target.problem:
        return deny_part(target.problem)
    if tool == "Bash" and target.given in HARMLESS_DEVICES[access]:  # by its text: `x/../dev/null` may be another file
        return ALLOWED
    reason = denial_reason(policy, _rule_tools(tool, access, wide=True), access, target)
    if reason:
        return deny_part(reason)
    if access == "write" and policy.mode == "plan":
        return deny_part(PLAN_MODE)
    if rule_asks(policy, _rule_tools(tool, access, wide=True), target):
        return Decision("ask", f"a rule asks about {target.given}", final=True, resolved_paths=(target.resolved,))
    if access == "write" and _needs_consent(policy, tool, target):
        rules = _suggest_rules(policy, access, target)
        obeyed = any(map(policy.is_obeyed, target.all_paths))
        what = "is run by a hook or an MCP server" if obeyed else _CONFIGURES
        reason = f"{target.given} {what}"
        return Decision("ask", reason, rules, resolved_paths=(target.resolved,))
    if allowed := _allowance(policy, tool, access, target):
        return allowed
    where = "" if _is_inside(policy, target) else " outside the folder"
    rules = _suggest_rules(policy, access, target)
    return Decision("ask", f"it {access}s {target.given}{where}", rules, resolved_paths=(target.resolved,))


def denial_reason(policy: Policy, tools: tuple[str, ...], access: Opening, target: ResolvedPath) -> str:
    """Return why no mode or allow rule can open this path, or ""."""
    if target.problem:
        return target.problem
    if rule := denying_rule(policy, tools, target):
        return f"the rule {rule.text} denies {target.given}"
    if any(is_secret(path, policy.secrets, str(policy.folder)) for path in target.all_paths):
        return f"{target.given} is among the secrets, which are never opened"
    if any(policy.own.hides(path) for path in target.all_paths):
        return f"{target.given} holds data or settings of Outrider, which are never opened"
    if any(is_in_git(path, str(policy.folder)) for path in target.all_paths):
        return f"{target.given} is inside .git, which the file tools do not open; use git itself"
    if access == "write" and _is_protected(policy, target):
        return f"{target.given} holds the settings of your permissions; only the user may change them"
    return ""


def denying_rule(policy: Policy, tools: tuple[str, ...], target: ResolvedPath) -> Rule | None:
    """Return the first deny rule of one of these tools that covers the path."""
    return next((rule for rule in policy.deny if rule.tool in tools and _covers(rule, policy, target)), None)


def rule_asks(policy: Policy, tools: tuple[str, ...], target: ResolvedPath) -> bool:
    """Return whether a rule of one of these tools asks about the path."""
    return any(rule.tool in tools and _covers(rule, policy, target) for rule in policy.ask)


def is_hidden(policy: Policy, path: str) -> bool:
    """Return whether a search must omit this file, because it may not be read or a rule asks before it is.

    The user approves only the folder where a search starts, so files that rules ask about are always omitted.
    """
    found = resolve_shell_path(path, str(policy.folder))
    return bool(denial_reason(policy, SEARCH_TOOLS, "read", found)) or rule_asks(policy, SEARCH_TOOLS, found)


def _rule_tools(tool: str, access: Opening, *, wide: bool) -> tuple[str, ...]:
    """Return the tools whose rules apply to such a call."""
    if access == "read":
        return ("Read", tool)
    return ("Edit", "Write", tool) if wide and tool == "Bash" else ("Edit", tool)


def _covers(rule: Rule, policy: Policy, target: ResolvedPath) -> bool:
    return rule.tool != "Bash" and any(
        rule.covers_path(path, str(policy.folder), wide=True) for path in target.all_paths
    )


def _allowance(policy: Policy, tool: str, access: Opening, target: ResolvedPath) -> Decision | None:
    """Return that the mode or a rule allows it, or None."""
    inside = _is_inside(policy, target)
    if policy.mode == "all" or (inside and (access == "read" or policy.mode == "edits")):
        return ALLOWED
    paths = target.all_paths if target.per_process else (target.resolved,)
    tools = _rule_tools(tool, access, wide=False)
    for rule in policy.allow:
        applies = rule.tool in tools and rule.tool != "Bash"
        if applies and all(rule.covers_path(path, str(policy.folder), wide=False) for path in paths):
            return allowed_by(rule)
    return None


def _is_inside(policy: Policy, target: ResolvedPath) -> bool:
    return not target.per_process and is_inside(target.resolved, policy.inside)


def _is_protected(policy: Policy, target: ResolvedPath) -> bool:
    if any(is_own_setting(path, str(policy.folder)) for path in target.all_paths):
        return True
    return target.resolved.startswith(f"{os.path.realpath(policy.folder / '.outrider')}/")


def _needs_consent(policy: Policy, tool: str, target: ResolvedPath) -> bool:
    """Return whether a path is configuration that other programs obey, or is run by one, and no allow rule names it.

    A wide rule such as Edit(src/**) does not name it. In the mode `all` commands may change it as well.
    """
    if policy.mode == "all":
        return False
    is_obeyed = any(map(policy.is_obeyed, target.all_paths))
    if not is_obeyed and not any(is_configuration(path, str(policy.folder)) for path in target.all_paths):
        return False
    return not any(
        rule.tool in _rule_tools(tool, "write", wide=False)
        and rule.pattern is not None
        and _names(rule.pattern, policy, is_obeyed=is_obeyed)
        and rule.covers_path(target.resolved, str(policy.folder), wide=False)
        for rule in policy.allow
    )


def _names(pattern: str, policy: Policy, *, is_obeyed: bool) -> bool:
    """Return whether the pattern of a rule names such a file itself."""
    start = _literal_start(pattern)
    if is_obeyed:
        return policy.is_obeyed(start) or policy.is_obeyed(f"{policy.folder}{start}")
    folder = str(policy.folder)
    return is_configuration(start, "/") or is_configuration(f"{folder}{start}", folder)


def _literal_start(pattern: str) -> str:
    """Return the part of a pattern before its first wildcard, as if its folder were the root."""
    return "/" + re.split(r"[*?\[{]", pattern)[0].removeprefix("./").removeprefix("~/").strip("/")


def _suggest_rules(policy: Policy, access: Opening, target: ResolvedPath) -> tuple[str, ...]:
    """Return the narrowest useful rule: for writing, this file; for reading, its folder."""
    path = target.resolved
    if access == "write":
        top = str(policy.folder).rstrip("/") + "/"
        return (f"Edit(./{escaped(path[len(top) :])})",) if path.startswith(top) else (f"Edit({escaped(path)})",)
    parent = path if os.path.isdir(path) else path.rpartition("/")[0]
    contains_project = f"{policy.folder}/".startswith(f"{parent}/")
    if parent.count("/") < 2 or parent == os.path.expanduser("~") or contains_project:  # too much of the disk
        return (f"Read({escaped(path)})",)
    return (f"Read({escaped(parent)}/**)",)
