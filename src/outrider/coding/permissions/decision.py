"""`decide`: whether a call runs, needs approval, or is denied. `PermissionApprover` asks it, for every front end.

The decision is made from names: of tools, files and commands. A program that is allowed can do whatever the user can;
only a sandbox restricts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from outrider.coding.access import ACCESS_LEVELS, ACCESS_WORDS, Access
from outrider.coding.permissions.file_access import PLAN_MODE, check_path, resolve_tool_path
from outrider.coding.permissions.policy import ALLOWED, Policy, allowed_by, deny_part
from outrider.coding.permissions.policy import Decision as Decision
from outrider.coding.permissions.rules import is_shared
from outrider.coding.protected_paths import targets_secrets
from outrider.coding.toolbox import WEB_SEARCH
from outrider.coding.wildcards import TooManyAlternativesError, alternatives
from outrider.errors import ConfigError

_ATTACHMENT = re.compile(r"attachment:[0-9a-f]+")
_URL = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]!$&'()*+,;=%@]+")

MAX_REASONS = 8
HARMLESS_TOOLS = ("Todo", "Task")
"""Built-in tools that change nothing themselves. Each call of a sub-agent is decided on its own."""
SEARCHES = (
    "the model's API searches the web when the model wants to, and charges for it; a yes holds for this session; "
    'the setting web.search = "off" ends the question'
)


_HARMLESS_KEYS = ("", "C-c", "\x03", "Kill")
"""What only looks at a terminal, or ends the command in it."""


class TypedInto(msgspec.Struct, frozen=True):
    """A command with a terminal, and the level that it was started at."""

    command: str
    access: Access
    has_ended: bool = False


class Call(msgspec.Struct, frozen=True):
    """A call to decide about."""

    tool: str
    effect: str
    input: Mapping[str, Any]
    cwd: Path
    """The folder of the caller's shell."""
    built_in: bool = False
    """Whether the tool is part of Outrider. A user's tool with the name of one is only known by its effect."""
    typed_into: TypedInto | None = None
    """The command whose terminal it types into."""


def decide(policy: Policy, call: Call) -> Decision:
    """Decide about a call. The result depends on the arguments and on links on the disk. Never raises."""
    try:
        decision = _decide(policy, call)
        if decision.verdict != "ask":
            return decision
        always, prefix = (_verified(policy, rules, call) for rules in (decision.always, decision.prefix))
        return msgspec.structs.replace(decision, always=always, prefix=prefix)
    except Exception as error:  # noqa: BLE001 - fail closed
        return Decision("deny", f"the call could not be checked ({type(error).__name__})")


def _decide(policy: Policy, call: Call) -> Decision:
    parts = _check_parts(policy, call)
    worst = max((part.verdict for part in parts), key=("allow", "ask", "deny").index)
    if worst == "allow":
        rules = tuple(dict.fromkeys(rule for part in parts for rule in part.rules))
        return Decision("allow", "", unasked=any(part.unasked for part in parts), rules=rules)
    decisive = [part for part in parts if part.verdict == worst]
    reasons = list(dict.fromkeys(part.reason for part in decisive if part.reason))
    more = [f"and {len(reasons) - MAX_REASONS} more"] if len(reasons) > MAX_REASONS else []
    if worst == "deny":
        return Decision(worst, "; ".join([*reasons[:MAX_REASONS], *more]))
    if call.built_in and call.tool == "Bash":
        given = call.typed_into.access if call.typed_into else call.input.get("access", "read")
        level = policy.effective_access(given)
        more.append(f"access {level}: {ACCESS_WORDS[level]}")
    reason = "; ".join([*reasons[:MAX_REASONS], *more])
    paths = dict.fromkeys(path for part in decisive for path in part.resolved_paths)
    doubts = tuple(doubt for part in decisive for doubt in part.doubts)
    always = _suggested_rules(decisive, [part.always for part in decisive])
    prefix = _suggested_rules(decisive, [part.prefix for part in decisive])
    return Decision(worst, reason, always, prefix, tuple(paths), doubts=doubts)


def _check_parts(policy: Policy, call: Call) -> Sequence[Decision]:
    given, folder = call.input, str(policy.folder)
    match call.tool if call.built_in else "":
        case "Read":
            if isinstance(name := given.get("file_path"), str) and _ATTACHMENT.fullmatch(name):
                return [ALLOWED]  # an attachment of this session, named by its hash
            return [check_path(policy, "Read", "read", resolve_tool_path(name, folder))]
        case "Write" | "Edit":
            return [check_path(policy, call.tool, "write", resolve_tool_path(given.get("file_path"), folder))]
        case "Glob" | "Grep":
            return check_search(policy, call.tool, given)
        case "Bash" if given.get("session"):
            return _check_typing(policy, call)
        case "Bash":
            return _check_shell(policy, given.get("command"), given.get("access", "read"), call.cwd)
        case "WebFetch":
            return [_check_fetch(policy, given.get("url"))]
        case "web_search":
            return [_check_by_name(policy, WEB_SEARCH, SEARCHES)]
    harmless = call.effect == "read" or (call.built_in and call.tool in HARMLESS_TOOLS)
    return [_check_other(policy, call.tool, harmless=harmless)]


def _check_shell(policy: Policy, command: Any, access: Any, cwd: Path) -> Sequence[Decision]:
    if not isinstance(command, str):
        return [deny_part("the command must be text")]
    if access not in ACCESS_LEVELS:
        return [deny_part(f"access must be one of {', '.join(ACCESS_LEVELS)}")]
    from outrider.coding.permissions.shell.command_line import check_command_line

    return check_command_line(policy, command, access, str(cwd))


def _check_typing(policy: Policy, call: Call) -> Sequence[Decision]:
    if call.typed_into is None:
        number = call.input.get("session")
        return [deny_part(f"there is no session {number} any more: start the command again with terminal=true")]
    keys = call.input.get("command")
    if not isinstance(keys, str):
        return [deny_part("the command must be text")]
    if call.typed_into.has_ended or keys in _HARMLESS_KEYS:
        return [ALLOWED]
    from outrider.coding.permissions.shell.command_line import check_typing

    return check_typing(policy, keys, call.typed_into.access, str(call.cwd), call.typed_into.command)


def _check_fetch(policy: Policy, url: Any) -> Decision:
    if not isinstance(url, str):
        return deny_part("the url must be text")
    host = _host(url)
    deny, ask, allow = (
        [rule for rule in each if rule.tool == "WebFetch"] for each in (policy.deny, policy.ask, policy.allow)
    )
    if denying := next((rule for rule in deny if rule.covers_host(host)), None):
        return deny_part(f"the rule {denying.text} denies it")
    if any(not host or rule.covers_host(host) for rule in (*ask, *deny)):
        return Decision("ask", f"a rule covers {host or 'this address'}", final=True)
    if policy.mode == "all":
        return ALLOWED
    if allowing := next((rule for rule in allow if rule.covers_host(host)), None):
        return allowed_by(allowing)
    return Decision("ask", f"it fetches from {host or 'the network'}", (f"WebFetch(domain:{host})",) if host else ())


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


def _check_other(policy: Policy, tool: str, *, harmless: bool) -> Decision:
    """Check a tool of which only its name is known, and whether it changes anything."""
    by_name = _check_by_name(policy, tool, f"{_described(tool)} may change something")
    if by_name.verdict != "deny" and policy.mode == "plan" and not harmless:
        return deny_part(PLAN_MODE)
    return ALLOWED if harmless and by_name.verdict == "ask" and not by_name.final else by_name


def _check_by_name(policy: Policy, tool: str, reason: str) -> Decision:
    """Check a tool by the rules that name it, and by the mode. `reason` says why the user should be asked."""
    if denying := next((rule for rule in policy.deny if rule.covers_tool(tool)), None):
        return deny_part(f"the rule {denying.tool} denies it")
    if asking := next((rule for rule in policy.ask if rule.covers_tool(tool)), None):
        return Decision("ask", f"a rule asks about {asking.tool}", final=True)
    if policy.mode == "all":
        return ALLOWED
    if allowing := next((rule for rule in policy.allow if rule.covers_tool(tool) and rule.pattern is None), None):
        return allowed_by(allowing)
    return Decision("ask", reason, (tool,))


def _described(tool: str) -> str:
    server, _, name = tool.removeprefix("mcp__").partition("__")
    return f"{name} of the MCP server {server}" if tool.startswith("mcp__") and name else tool


def _suggested_rules(decisive: Sequence[Decision], suggested: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the rules that would allow the call, or none if a part has none."""
    if any(part.final for part in decisive) or not all(suggested):
        return ()
    return tuple(dict.fromkeys(rule for rules in suggested for rule in rules))


def _verified(policy: Policy, rules: tuple[str, ...], call: Call) -> tuple[str, ...]:
    """Return the rules if they really allow the call, or none."""
    if not rules:
        return ()
    try:
        widened = policy.allowing(rules, shared=is_shared(rules))
    except ConfigError:
        return ()
    return rules if _decide(widened, call).verdict == "allow" else ()


_WILD = re.compile(r"[*?\[\]{}()|!+@\\]")


def check_search(policy: Policy, tool: str, input: Mapping[str, Any]) -> list[Decision]:
    base = input.get("path")
    base = "." if base is None else base
    globs = [input.get(name) for name in (("pattern",) if tool == "Glob" else ("glob",)) if input.get(name) is not None]
    if not isinstance(base, str) or not all(isinstance(glob, str) for glob in globs):
        return [deny_part(f"the path and the pattern of {tool} must be text")]
    decisions = [check_path(policy, tool, "read", resolve_tool_path(base, str(policy.folder)))]
    for glob in globs:
        decisions.extend(_check_glob(policy, tool, base, str(glob)))
    return decisions


def _check_glob(policy: Policy, tool: str, base: str, glob: str) -> Iterator[Decision]:
    try:
        patterns = [part for each in alternatives(glob) for part in {each, *each.split("|")}]
    except TooManyAlternativesError:
        yield Decision("ask", "the pattern has too many alternatives to check")
        return
    for pattern in patterns:
        plain = pattern.replace("\\", "").lstrip("!")
        if targets_secrets(plain, policy.secrets):
            yield deny_part(f"{glob} looks for secrets, which are never opened")
        elif tool == "Glob":
            yield from _check_reach(policy, tool, base, plain)


def _check_reach(policy: Policy, tool: str, base: str, pattern: str) -> Iterator[Decision]:
    """Check the fixed beginning of a pattern, which is the folder that is read."""
    fixed: list[str] = []
    names = pattern.split("/")
    while names and not _WILD.search(names[0]):
        fixed.append(names.pop(0))
    if any(".." in name for name in names):
        yield Decision("ask", f"the pattern {pattern} may lead out of the folder")
    if fixed:
        start = "/".join(fixed) or "/"
        yield check_path(
            policy,
            tool,
            "read",
            resolve_tool_path(start if start[0] in "/~" else f"{base}/{start}", str(policy.folder)),
        )
