"""May this file be read, or written?"""

from __future__ import annotations

import os.path

from outrider.coding.permissions.finding import ALLOWED, Finding, denied
from outrider.coding.permissions.paths import HARMLESS_DEVICES, Place, is_inside, shell_place
from outrider.coding.permissions.patterns import escaped
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.rules import Rule
from outrider.coding.permissions.script import Access
from outrider.coding.permissions.secrets import GUARDED, is_secret

SEARCHES = ("Read", "Grep", "Glob")
"""The tools whose rules speak of what a search shows."""

PLAN = "this is plan mode, in which nothing is changed: say what you would do instead"


def judge_path(policy: Policy, tool: str, access: Access, place: Place) -> Finding:
    """Whether a tool may read or write what a path leads to."""
    if place.problem:
        return denied(place.problem)
    if tool == "Bash" and place.given in HARMLESS_DEVICES[access]:  # by its text: `x/../dev/null` may lead anywhere
        return ALLOWED
    refusal = denial(policy, _speaking_of(tool, access, wide=True), access, place)
    if refusal:
        return denied(refusal)
    if access == "write" and policy.mode == "plan":
        return denied(PLAN)
    if is_asked_about(policy, _speaking_of(tool, access, wide=True), place):
        return Finding("ask", f"a rule asks about {place.given}", firm=True, places=(place.resolved,))
    if _is_allowed(policy, tool, access, place):
        return ALLOWED
    where = "" if _inside(policy, place) else " outside the folder"
    lasting = _lasting(policy, access, place)
    return Finding("ask", f"it {access}s {place.given}{where}", lasting, places=(place.resolved,))


def denial(policy: Policy, tools: tuple[str, ...], access: Access, place: Place) -> str:
    """Why nothing opens this path; empty if something may."""
    if place.problem:
        return place.problem
    for rule in policy.deny:
        if rule.tool in tools and _covers(rule, policy, place):
            return f"the rule {rule.text} denies {place.given}"
    if any(is_secret(path, policy.secrets, str(policy.folder)) for path in place.seen):
        return f"{place.given} is among the secrets, which stay closed"
    if access == "write" and _is_guarded(policy, place):
        return f"{place.given} has the settings that say what you may do; the user changes them, not you"
    return ""


def is_asked_about(policy: Policy, tools: tuple[str, ...], place: Place) -> bool:
    """Whether a rule asks about what these tools do with a path."""
    return any(rule.tool in tools and _covers(rule, policy, place) for rule in policy.ask)


def hidden(policy: Policy, path: str) -> bool:
    """Whether a search must leave this file out of what it shows: nothing may read it, or a rule asks before.

    The question about a search is one about the place where it begins, so what rules ask about is left out always.
    """
    found = shell_place(path, str(policy.folder))
    return bool(denial(policy, SEARCHES, "read", found)) or is_asked_about(policy, SEARCHES, found)


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
    holds_the_folder = f"{policy.folder}/".startswith(f"{around}/")
    if around.count("/") < 2 or around == os.path.expanduser("~") or holds_the_folder:  # much of the disk
        return (f"Read({escaped(path)})",)
    return (f"Read({escaped(around)}/**)",)
