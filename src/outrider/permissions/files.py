"""May this file be read, or written?"""

from __future__ import annotations

import os.path

from outrider.permissions.finding import ALLOWED, Finding, denied
from outrider.permissions.paths import HARMLESS_DEVICES, Place, is_inside, shell_place
from outrider.permissions.patterns import escaped
from outrider.permissions.policy import Policy
from outrider.permissions.rules import Rule
from outrider.permissions.script import Access
from outrider.permissions.secrets import GUARDED, is_secret

PLAN = "this is plan mode, in which nothing is changed: say what you would do instead"


def judge_path(policy: Policy, tool: str, access: Access, place: Place) -> Finding:
    """Whether a tool may read or write what a path leads to."""
    if place.problem:
        return denied(place.problem)
    if tool == "Bash" and place.seen[0] in HARMLESS_DEVICES[access]:
        return ALLOWED
    refusal = denial(policy, _speaking_of(tool, access, wide=True), access, place)
    if refusal:
        return denied(refusal)
    if access == "write" and policy.mode == "plan":
        return denied(PLAN)
    if any(_covers(rule, policy, place) for rule in policy.ask if rule.tool in _speaking_of(tool, access, wide=True)):
        return Finding("ask", f"a rule asks about {place.given}", firm=True)
    if _is_allowed(policy, tool, access, place):
        return ALLOWED
    where = "" if _inside(policy, place) else " outside the folder"
    return Finding("ask", f"it {access}s {place.given}{where}", _lasting(policy, access, place))


def denial(policy: Policy, tools: tuple[str, ...], access: Access, place: Place) -> str:
    """Why nothing opens this path; empty if something may."""
    for rule in policy.deny:
        if rule.tool in tools and _covers(rule, policy, place):
            return f"the rule {rule.text} denies {place.given}"
    if any(is_secret(path, policy.secrets, str(policy.folder)) for path in place.seen):
        return f"{place.given} is among the secrets, which stay closed"
    if access == "write" and _is_guarded(policy, place):
        return f"{place.given} has the settings that say what you may do; the user changes them, not you"
    return ""


def hidden(policy: Policy, path: str) -> bool:
    """Whether nothing may read this file: for searches, which must leave it out of what they show."""
    return bool(denial(policy, ("Read", "Grep", "Glob"), "read", shell_place(path, str(policy.folder))))


def _speaking_of(tool: str, access: Access, *, wide: bool) -> tuple[str, ...]:
    """The tools whose rules speak of such a call."""
    if access == "read":
        return ("Read", tool)
    return ("Edit", "Write", tool) if wide and tool == "Bash" else ("Edit", tool)


def _covers(rule: Rule, policy: Policy, place: Place) -> bool:
    return rule.tool != "Bash" and any(rule.covers_path(path, str(policy.folder), wide=True) for path in place.seen)


def _is_allowed(policy: Policy, tool: str, access: Access, place: Place) -> bool:
    inside = _inside(policy, place)
    if policy.mode == "all" or (inside and (access == "read" or policy.mode == "edits")):
        return True
    paths = place.seen if place.shifting else (place.resolved,)
    tools = _speaking_of(tool, access, wide=False)
    return any(
        rule.tool in tools
        and rule.tool != "Bash"
        and all(rule.covers_path(path, str(policy.folder), wide=False) for path in paths)
        for rule in policy.allow
    )


def _inside(policy: Policy, place: Place) -> bool:
    return not place.shifting and is_inside(place.resolved, policy.inside)


def _is_guarded(policy: Policy, place: Place) -> bool:
    if any(is_secret(path, GUARDED, str(policy.folder)) for path in place.seen):
        return True
    settings = os.path.realpath(policy.folder / ".outrider")
    return place.resolved.startswith(f"{settings}/") and place.resolved.endswith(".toml")


def _lasting(policy: Policy, access: Access, place: Place) -> tuple[str, ...]:
    """The narrowest useful rule: this file to write; to read, the folder that it is in."""
    path = place.resolved
    if access == "write":
        top = str(policy.folder).rstrip("/") + "/"
        return (f"Edit(./{escaped(path[len(top) :])})",) if path.startswith(top) else (f"Edit({escaped(path)})",)
    around = path if os.path.isdir(path) else path.rpartition("/")[0]
    if around.count("/") < 2 or around == os.path.expanduser("~"):  # much of the disk
        return (f"Read({escaped(path)})",)
    return (f"Read({escaped(around)}/**)",)
