"""May this call run? One answer for every front end.

What is decided here is decided from names: of tools, of files, of commands. A program that was allowed can do whatever
the user can; only a sandbox holds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from outrider.coding.permissions.files import PLAN, judge_path
from outrider.coding.permissions.finding import ALLOWED, Finding, Verdict, denied
from outrider.coding.permissions.paths import place
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.searches import judge_search
from outrider.coding.permissions.suggestions import exact_rule
from outrider.errors import ConfigError

_ATTACHMENT = re.compile(r"attachment:[0-9a-f]+")
_URL = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]!$&'()*+,;=%@]+")

MOST_REASONS = 8
HARMLESS = ("Todo", "Task")
"""Tools that change nothing by themselves: of what a sub-agent does, each call is judged by itself."""


class Decision(msgspec.Struct, frozen=True):
    """What is decided about a call."""

    verdict: Verdict
    reason: str
    """Why, in words for a person and for the model; empty if it is allowed."""
    always: tuple[str, ...] = ()
    """The narrowest useful rules that would allow it, as texts; none if no rule can."""
    places: tuple[str, ...] = ()
    """Where the paths lead that it is asked about: another answer later is a question of its own."""


def decide(policy: Policy, tool: str, effect: str, input: Mapping[str, Any], cwd: Path) -> Decision:
    """Whether a call may run. A function of its arguments and of where links on the disk lead; never raises."""
    try:
        decision = _decided(policy, tool, effect, input, cwd)
        if decision.verdict != "ask":
            return decision
        return msgspec.structs.replace(decision, always=_proven(policy, decision.always, tool, effect, input, cwd))
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here, it must not open a door
        return Decision("deny", f"the call could not be judged ({type(error).__name__})")


def _decided(policy: Policy, tool: str, effect: str, input: Mapping[str, Any], cwd: Path) -> Decision:
    findings = _findings(policy, tool, effect, input, cwd)
    worst = max((finding.verdict for finding in findings), key=("allow", "ask", "deny").index)
    if worst == "allow":
        return Decision("allow", "")
    decisive = [finding for finding in findings if finding.verdict == worst]
    reasons = list(dict.fromkeys(finding.reason for finding in decisive))
    more = [f"and {len(reasons) - MOST_REASONS} more"] if len(reasons) > MOST_REASONS else []
    reason = "; ".join([*reasons[:MOST_REASONS], *more])
    if worst == "deny":
        return Decision(worst, reason)
    places = dict.fromkeys(place for finding in decisive for place in finding.places)
    return Decision(worst, reason, _rules(tool, input, decisive), tuple(places))


def _findings(policy: Policy, tool: str, effect: str, input: Mapping[str, Any], cwd: Path) -> Sequence[Finding]:
    match tool:
        case "Read":
            return [_judge_read(policy, input.get("file_path"))]
        case "Write" | "Edit":
            return [judge_path(policy, tool, "write", place(input.get("file_path"), str(policy.folder)))]
        case "Glob" | "Grep":
            return judge_search(policy, tool, input)
        case "Bash":
            return _judge_shell(policy, input.get("command"), cwd)
        case "WebFetch":
            return [_judge_fetch(policy, input.get("url"))]
    return [_judge_other(policy, tool, effect)]


def _judge_read(policy: Policy, name: Any) -> Finding:
    if isinstance(name, str) and _ATTACHMENT.fullmatch(name):
        return ALLOWED  # a file of the session, by its hash
    return judge_path(policy, "Read", "read", place(name, str(policy.folder)))


def _judge_shell(policy: Policy, command: Any, cwd: Path) -> list[Finding]:
    if not isinstance(command, str):
        return [denied("the command must be text")]
    from outrider.coding.permissions.shelljudge import ShellJudge

    findings = ShellJudge(policy, [str(cwd)]).judge(command)
    if policy.mode == "plan" or not _is_written(policy, command, cwd):
        return findings
    return [each if each.firm else ALLOWED for each in findings]


def _is_written(policy: Policy, command: str, cwd: Path) -> bool:
    """Whether a rule has the very text of the command line, which a person has seen as a whole.

    It was agreed to in the folder; elsewhere the same names would mean other files.
    """
    return cwd == policy.folder and any(
        rule.tool == "Bash"
        and rule.pattern is not None
        and not rule.is_prefix
        and rule.pattern.strip() == command.strip()
        for rule in policy.allow
    )


def _judge_fetch(policy: Policy, url: Any) -> Finding:
    if not isinstance(url, str):
        return denied("the url must be text")
    host = _host(url)
    for rule in policy.deny:
        if rule.tool == "WebFetch" and (rule.pattern is None or (host and rule.covers_host(host))):
            return denied(f"the rule {rule.text} denies it")
    rules = [rule for rule in (*policy.ask, *policy.deny) if rule.tool == "WebFetch"]
    if any(not host or rule.covers_host(host) for rule in rules):
        return Finding("ask", f"a rule speaks of {host or 'this address'}", firm=True)
    if policy.mode == "all" or any(
        rule.tool == "WebFetch" and (rule.pattern is None or (host and rule.covers_host(host))) for rule in policy.allow
    ):
        return ALLOWED
    return Finding("ask", f"it fetches from {host or 'the network'}", (f"WebFetch(domain:{host})",) if host else ())


def _host(url: str) -> str:
    """The host of an address that can be read in one way only; empty if it cannot."""
    if not _URL.fullmatch(url):
        return ""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises if it is none
        host = (parts.hostname or "").rstrip(".").lower()
    except ValueError:
        return ""
    plain = parts.scheme in ("http", "https") and "@" not in parts.netloc and "%" not in parts.netloc
    return host if plain else ""


def _judge_other(policy: Policy, tool: str, effect: str) -> Finding:
    """A tool of which only the name and the effect are known."""
    if any(rule.tool == tool for rule in policy.deny):
        return denied(f"the rule {tool} denies it")
    if policy.mode == "plan" and effect != "read" and tool not in HARMLESS:
        return denied(PLAN)
    if any(rule.tool == tool for rule in policy.ask):
        return Finding("ask", f"a rule asks about {tool}", firm=True)
    if tool in HARMLESS or effect == "read" or policy.mode == "all" or any(rule.tool == tool for rule in policy.allow):
        return ALLOWED
    return Finding("ask", f"{tool} may change something", (tool,))


def _rules(tool: str, input: Mapping[str, Any], decisive: Sequence[Finding]) -> tuple[str, ...]:
    """The rules that would allow what is asked about: one for each part, or else one for the whole command line."""
    if any(finding.firm for finding in decisive):
        return ()
    if all(finding.always for finding in decisive):
        return tuple(dict.fromkeys(rule for finding in decisive for rule in finding.always))
    whole = exact_rule(str(input.get("command", ""))) if tool == "Bash" else ""
    return (whole,) if whole else ()


def _proven(
    policy: Policy, rules: tuple[str, ...], tool: str, effect: str, input: Mapping[str, Any], cwd: Path
) -> tuple[str, ...]:
    """The rules, if with them the call is allowed indeed."""
    if not rules:
        return ()
    try:
        widened = policy.allowing(rules)
    except ConfigError:
        return ()
    return rules if _decided(widened, tool, effect, input, cwd).verdict == "allow" else ()
