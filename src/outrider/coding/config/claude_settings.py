"""The rules of `.claude/settings.json` that narrow: `permissions.deny` and `permissions.ask`, in Outrider's syntax.

What such a file allows is not read, because it was written for another program. A rule that Outrider cannot express
asks about everything that it may mean: about each call of its tool, or, if it names none, about each command, edit and
fetch. https://code.claude.com/docs/en/permissions has the syntax.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config.layers import Layer
from outrider.coding.config.value_types import rule_problem
from outrider.coding.masking import quoted
from outrider.coding.settings_files import MAX_BYTES, read_regular_file
from outrider.errors import ConfigError

FILES = ("settings.json", "settings.local.json")
UNREAD = ("env", "sandbox", "enableAllProjectMcpServers", "enabledMcpjsonServers", "disabledMcpjsonServers")
"""Keys beside `permissions` that concern what may be done, and are not read."""
MOST_RULES = 1_000
NAMED = 5
"""Rules that a note names."""
_TOOLS = {
    **dict.fromkeys(("Write", "MultiEdit", "NotebookEdit"), "Edit"),
    **dict.fromkeys(("LS", "NotebookRead"), "Read"),
    "WebSearch": "web_search",
    "Agent": "Task",
}
"""Names of tools that Outrider has under another name."""
_UNCLEAR = ("Bash", "Edit", "WebFetch")
_FORM = re.compile(r"\s*([A-Za-z_][\w*-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)


class ClaudeRules(msgspec.Struct, frozen=True):
    """The rules of all such files of a folder."""

    layers: tuple[Layer, ...] = ()
    notes: tuple[str, ...] = ()
    files: dict[str, bool] = {}


def read_claude_settings(folder: Path, label_of: Callable[[Path], str]) -> ClaudeRules:
    """Read the user's file, and those of the project from its root to the folder. Notes say what is wrong with one."""
    layers: list[Layer] = []
    notes: list[str] = []
    files: dict[str, bool] = {}
    unread: dict[str, list[str]] = {}
    for path, root in _places(folder):
        label = label_of(path)
        try:
            content = json.loads(read_regular_file(path, MAX_BYTES).decode("utf-8-sig"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, RecursionError):
            notes.append(f"{label} cannot be read as JSON, so its rules do not count; correct it")
            continue
        files[label] = True
        found = _Rules(content, (root, folder))
        layers.append(Layer(found.values, dict.fromkeys(found.values, label)))
        if found.unclear:
            notes.append(f"{label}: rules that Outrider cannot express ask instead: {_list(found.unclear)}")
        if keys := _unread_keys(content):
            unread[label] = keys
    if unread:
        named = dict.fromkeys(key for each in unread.values() for key in each)
        notes.append(f"of {_list(unread)} only the rules that deny or ask count, not {_list(named)}")
    return ClaudeRules(tuple(layers), tuple(notes), files)


def _places(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each file that may be there, with the folder that `/…` in its rules starts from."""
    from outrider.coding.project_texts import folders_to_search

    try:
        home = Path.home().resolve()
    except RuntimeError:  # the home folder is unknown
        home = None
    if home:
        yield home / ".claude" / FILES[0], folder
    for each in folders_to_search(folder, home):
        for name in FILES:
            if each != home or name != FILES[0]:
                yield each / ".claude" / name, each


class _Rules:
    """The rules of one file."""

    def __init__(self, content: Any, roots: tuple[Path, ...]) -> None:
        self.unclear: list[str] = []
        """Rules, or what stands in their place, that are not expressed exactly."""
        self._roots = tuple(dict.fromkeys(roots))
        permissions = content.get("permissions") if isinstance(content, dict) else None
        given = permissions if isinstance(permissions, dict) else {}
        deny = [*self._translated(given.get("deny", []), "deny")]
        ask = [*self._translated(given.get("ask", []), "ask")]
        found = {"permissions.deny": [rule for kind, rule in deny if kind == "deny"]}
        found["permissions.ask"] = [rule for kind, rule in (*deny, *ask) if kind == "ask"]
        self.values: dict[str, Any] = {key: tuple(dict.fromkeys(rules)) for key, rules in found.items() if rules}

    def _translated(self, rules: Any, kind: str) -> Iterator[tuple[str, str]]:
        if not isinstance(rules, list) or len(rules) > MOST_RULES:
            self.unclear.append(f"permissions.{kind}")
            yield from (("ask", tool) for tool in _UNCLEAR)
            return
        for rule in rules:
            form = _FORM.fullmatch(rule) if isinstance(rule, str) else None
            if form is None:
                self.unclear.append(quoted(str(rule)))
                yield from (("ask", tool) for tool in _UNCLEAR)
                continue
            tool, pattern = _TOOLS.get(form[1], form[1]), (form[2] or "").strip()
            exact = [*_rules_of(tool, pattern, self._roots)]
            if exact and not any(map(rule_problem, exact)):
                yield from ((kind, each) for each in exact)
            else:
                self.unclear.append(quoted(rule))
                yield from (("ask", each) for each in _widened(tool, pattern))


def _rules_of(tool: str, pattern: str, roots: Iterable[Path]) -> Iterator[str]:
    """Yield the rules that say the same, or more; none if there are none."""
    if pattern in ("", "*", "**"):
        yield f"{tool}__*" if re.fullmatch(r"mcp__[^*]*", tool) and "__" not in tool.removeprefix("mcp__") else tool
    elif tool in ("Read", "Edit", "Glob", "Grep"):
        yield from (f"{tool}({path})" for path in _paths(pattern, roots))
    elif tool == "Bash":
        words = re.sub(r"(?::|\s|(?<=\w))\*$", "", pattern).rstrip()
        if "*" not in words:
            yield f"Bash({words}:*)" if words != pattern else f"Bash({words})"
    elif tool == "WebFetch":
        yield f"WebFetch({pattern.replace('domain:*.', 'domain:')})"


def _paths(pattern: str, roots: Iterable[Path]) -> Iterator[str]:
    """Yield the paths that a pattern may mean: `//x` is absolute, `/x` starts at the project, `x` in the folder.

    `/x` is also read as absolute: whoever wrote it may have meant that.
    """
    from outrider.coding.config.layers import absolute_rule

    if pattern.startswith(("~", "//")):
        yield pattern.removeprefix("/")
        return
    if pattern.startswith("/"):
        yield pattern
    for root in roots:
        relative = f".{pattern}" if pattern.startswith("/") else pattern
        try:
            rule = absolute_rule(f"Read({relative})", root)
        except ConfigError:
            rule = "Read()"
        yield rule.removeprefix("Read(").removesuffix(")")


def _widened(tool: str, pattern: str) -> tuple[str, ...]:
    """Return rules that cover all that a rule may mean."""
    words = re.split(r"\s*\S*\*", pattern)[0].strip()
    if tool == "Bash" and words and not rule_problem(narrow := f"Bash({words}:*)"):
        return (narrow,)
    if tool.startswith("mcp__"):
        return ("mcp__*",)
    return _UNCLEAR if rule_problem(tool) else (tool,)


def _unread_keys(content: Any) -> list[str]:
    if not isinstance(content, dict):
        return []
    permissions = content.get("permissions")
    inner = permissions if isinstance(permissions, dict) else {}
    keys = [f"permissions.{key}" for key in inner if key not in ("deny", "ask") and inner[key]]
    return [*keys, *(key for key in UNREAD if content.get(key))]


def _list(names: Iterable[str]) -> str:
    found = [name if name.isprintable() and len(name) < 200 else quoted(name) for name in names]
    return ", ".join(found[:NAMED]) + (" …" if len(found) > NAMED else "")
