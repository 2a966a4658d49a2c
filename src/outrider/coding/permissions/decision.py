"""Decide whether a call runs, needs approval, or is denied. Every front end uses this decision.

The decision is made from names: of tools, files and commands. A program that is allowed can do whatever the user can;
only a sandbox restricts it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from outrider.coding.permissions.files import PLAN_MODE, check_path
from outrider.coding.permissions.part_decision import ALLOWED, PartDecision, Verdict, deny_part
from outrider.coding.permissions.paths import resolve_tool_path
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.searches import check_search
from outrider.coding.permissions.shell.rule_suggestions import exact_rule
from outrider.errors import ConfigError

_ATTACHMENT = re.compile(r"attachment:[0-9a-f]+")
_URL = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]!$&'()*+,;=%@]+")

MAX_REASONS = 8
HARMLESS_TOOLS = ("Todo", "Task")
"""Tools that change nothing themselves. Each call of a sub-agent is decided on its own."""


class Decision(msgspec.Struct, frozen=True):
    """The decision about a call."""

    verdict: Verdict
    reason: str
    """Why, for the user and the model; empty if the call is allowed."""
    always: tuple[str, ...] = ()
    """The narrowest useful rules that would allow the call; none if no rule can."""
    resolved_paths: tuple[str, ...] = ()
    """The resolved paths that need approval. If they change, the user must be asked again."""


def decide(policy: Policy, tool: str, effect: str, input: Mapping[str, Any], cwd: Path) -> Decision:
    """Decide about a call. The result depends on the arguments and on links on the disk. Never raises."""
    try:
        decision = _decide(policy, tool, effect, input, cwd)
        if decision.verdict != "ask":
            return decision
        return msgspec.structs.replace(decision, always=_verified(policy, decision.always, tool, effect, input, cwd))
    except Exception as error:  # noqa: BLE001 - fail closed
        return Decision("deny", f"the call could not be checked ({type(error).__name__})")


def _decide(policy: Policy, tool: str, effect: str, input: Mapping[str, Any], cwd: Path) -> Decision:
    parts = _check_parts(policy, tool, effect, input, cwd)
    worst = max((part.verdict for part in parts), key=("allow", "ask", "deny").index)
    if worst == "allow":
        return Decision("allow", "")
    decisive = [part for part in parts if part.verdict == worst]
    reasons = list(dict.fromkeys(part.reason for part in decisive))
    more = [f"and {len(reasons) - MAX_REASONS} more"] if len(reasons) > MAX_REASONS else []
    reason = "; ".join([*reasons[:MAX_REASONS], *more])
    if worst == "deny":
        return Decision(worst, reason)
    paths = dict.fromkeys(path for part in decisive for path in part.resolved_paths)
    return Decision(worst, reason, _suggested_rules(tool, input, decisive), tuple(paths))


def _check_parts(policy: Policy, tool: str, effect: str, input: Mapping[str, Any], cwd: Path) -> Sequence[PartDecision]:
    match tool:
        case "Read":
            return [_check_read(policy, input.get("file_path"))]
        case "Write" | "Edit":
            return [check_path(policy, tool, "write", resolve_tool_path(input.get("file_path"), str(policy.folder)))]
        case "Glob" | "Grep":
            return check_search(policy, tool, input)
        case "Bash":
            return _check_shell(policy, input.get("command"), cwd)
        case "WebFetch":
            return [_check_fetch(policy, input.get("url"))]
    return [_check_other(policy, tool, effect)]


def _check_read(policy: Policy, name: Any) -> PartDecision:
    if isinstance(name, str) and _ATTACHMENT.fullmatch(name):
        return ALLOWED  # an attachment of this session, named by its hash
    return check_path(policy, "Read", "read", resolve_tool_path(name, str(policy.folder)))


def _check_shell(policy: Policy, command: Any, cwd: Path) -> list[PartDecision]:
    if not isinstance(command, str):
        return [deny_part("the command must be text")]
    from outrider.coding.permissions.shell.checker import CommandLineChecker

    parts = CommandLineChecker(policy, [str(cwd)]).check(command)
    if policy.mode == "plan" or not _has_exact_rule(policy, command, cwd):
        return parts
    return [each if each.final else ALLOWED for each in parts]


def _has_exact_rule(policy: Policy, command: str, cwd: Path) -> bool:
    """Return whether an allow rule is exactly this command line, which the user has seen as a whole.

    The rule applies in the project's folder only: elsewhere the same names mean other files.
    """
    return cwd == policy.folder and any(
        rule.tool == "Bash"
        and rule.pattern is not None
        and not rule.is_prefix
        and rule.pattern.strip() == command.strip()
        for rule in policy.allow
    )


def _check_fetch(policy: Policy, url: Any) -> PartDecision:
    if not isinstance(url, str):
        return deny_part("the url must be text")
    host = _host(url)
    for rule in policy.deny:
        if rule.tool == "WebFetch" and (rule.pattern is None or (host and rule.covers_host(host))):
            return deny_part(f"the rule {rule.text} denies it")
    rules = [rule for rule in (*policy.ask, *policy.deny) if rule.tool == "WebFetch"]
    if any(not host or rule.covers_host(host) for rule in rules):
        return PartDecision("ask", f"a rule covers {host or 'this address'}", final=True)
    if policy.mode == "all" or any(
        rule.tool == "WebFetch" and (rule.pattern is None or (host and rule.covers_host(host))) for rule in policy.allow
    ):
        return ALLOWED
    return PartDecision(
        "ask", f"it fetches from {host or 'the network'}", (f"WebFetch(domain:{host})",) if host else ()
    )


def _host(url: str) -> str:
    """Return the host of an unambiguous URL, or ""."""
    if not _URL.fullmatch(url):
        return ""
    try:
        split = urlsplit(url)
        _ = split.port  # raises ValueError if it is invalid
        host = (split.hostname or "").rstrip(".").lower()
    except ValueError:
        return ""
    plain = split.scheme in ("http", "https") and "@" not in split.netloc and "%" not in split.netloc
    return host if plain else ""


def _check_other(policy: Policy, tool: str, effect: str) -> PartDecision:
    """Check a tool by its name and its effect: nothing else is known about it."""
    if any(rule.tool == tool for rule in policy.deny):
        return deny_part(f"the rule {tool} denies it")
    if policy.mode == "plan" and effect != "read" and tool not in HARMLESS_TOOLS:
        return deny_part(PLAN_MODE)
    if any(rule.tool == tool for rule in policy.ask):
        return PartDecision("ask", f"a rule asks about {tool}", final=True)
    if (
        tool in HARMLESS_TOOLS
        or effect == "read"
        or policy.mode == "all"
        or any(rule.tool == tool for rule in policy.allow)
    ):
        return ALLOWED
    return PartDecision("ask", f"{tool} may change something", (tool,))


def _suggested_rules(tool: str, input: Mapping[str, Any], decisive: Sequence[PartDecision]) -> tuple[str, ...]:
    """Return the rules that would allow the call: one for each part, or one for the whole command line."""
    if any(part.final for part in decisive):
        return ()
    if all(part.always for part in decisive):
        return tuple(dict.fromkeys(rule for part in decisive for rule in part.always))
    whole = exact_rule(str(input.get("command", ""))) if tool == "Bash" else ""
    return (whole,) if whole else ()


def _verified(
    policy: Policy, rules: tuple[str, ...], tool: str, effect: str, input: Mapping[str, Any], cwd: Path
) -> tuple[str, ...]:
    """Return the rules if they really allow the call, or none."""
    if not rules:
        return ()
    try:
        widened = policy.allowing(rules)
    except ConfigError:
        return ()
    return rules if _decide(widened, tool, effect, input, cwd).verdict == "allow" else ()
