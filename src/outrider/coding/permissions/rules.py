"""Permission rules as the user writes them: a tool, or a tool and a pattern of what it is used on.

    Bash(git status)              this command, exactly
    Bash(npm run test:*)          these words and further arguments, but no options
    Bash(pytest:**)               commands that begin with these words, whatever follows
    Bash(npm install) network     a command, up to an access level; without one, up to `write`
    Read(src/**), Edit(docs/*.md) files; relative to the folder, or `/…`, or `~/…`
    WebFetch(domain:example.com)  a domain and its sub-domains
    web_search                    searches that the model's API runs
    my_tool                       every call of a tool
    mcp__git__git_log             a tool of the MCP server git
    mcp__git__*                   every tool of the MCP server git; `mcp__*` of every server

A rule for Read also covers Glob, Grep and the files that commands name; a rule for Edit also covers Write. Allow rules
match narrowly: exactly what they say. Deny and ask rules match widely: a folder includes everything in it, a command
also matches with more arguments and with options before and between its words, and `rm` also matches `/bin/rm` and
`sudo rm`.

An allow rule for a command applies while the shell is in the project's folder, and not to a command that is fed by a
pipe. A rule with the exact text of a command line allows that line. A rule that "always" has stored for a repository
also applies in its other folders and worktrees, unless it names a path.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from outrider.coding.access import ACCESS_LEVELS, Access
from outrider.coding.toolbox import ALL_NAMES, WEB_SEARCH
from outrider.coding.wildcards import TooManyAlternativesError, alternatives, compile_pattern
from outrider.errors import ConfigError
from outrider.tools.tool import NAME

PATH_TOOLS = ("Read", "Write", "Edit", "Glob", "Grep")

MAX_CHARACTERS = 300
"""The longest command line that "always" makes a rule of."""

Form: TypeAlias = Literal["exact", "arguments", "any"]
"""A rule for commands covers exactly its words; also further arguments (`:*`); or anything further (`:**`)."""

_FORM = re.compile(rf"\s*([^()\s]+)\s*(?:\((.*)\))?\s*({'|'.join(ACCESS_LEVELS)})?\s*", re.DOTALL)
_SERVER_TOOLS = re.compile(r"mcp__(?:[a-zA-Z0-9_-]{1,64}__)?\*")
_DOMAIN = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|[0-9a-f:]*:[0-9a-f:.]*")


class Rule(msgspec.Struct, frozen=True):
    """A tool, and a pattern of what it is used on."""

    tool: str
    pattern: str | None = None
    """None matches every call."""
    access: Access | None = None
    """The level up to which an allow rule for commands applies, and from which on a deny or ask rule does."""
    shared: bool = False
    """Whether an allow rule for commands applies in the whole repository."""

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Parse a rule. Raises ConfigError, with advice."""
        form = _FORM.fullmatch(text) if isinstance(text, str) else None
        if form is None:
            raise ConfigError(f"{text!r} is not a rule; write a tool, or a tool and a pattern: Bash(git status)")
        tool, pattern = form[1], form[2]
        access = next((level for level in ACCESS_LEVELS if level == form[3]), None)
        _check_tool(text, tool)
        if access is not None and tool != "Bash":
            raise ConfigError(f"{text!r}: only rules for Bash take an access level")
        if pattern is None or (tool in ("Bash", *PATH_TOOLS) and pattern.strip() in ("*", "**")):
            return cls(tool, None, access)
        return cls(tool, _check_pattern(text, tool, pattern.strip()), access)

    @property
    def text(self) -> str:
        """The rule as the user writes it."""
        named = self.tool if self.pattern is None else f"{self.tool}({self.pattern})"
        return f"{named} {self.access}" if self.access else named

    @property
    def meaning(self) -> str:
        """What an allow rule allows, in words.

        >>> Rule.parse("Bash(npm test) write").meaning, Rule.parse("Read(/data/**)").meaning
        ('exactly `npm test`, up to access write', 'reading /data/**')
        """
        if self.tool == "Bash":
            level = f", up to access {self.access}" if self.access else ""
            return f"{self._command_meaning}{level}"
        if self.tool == WEB_SEARCH:
            return "searching the web with the model's API"
        verb = {"Read": "reading", "Edit": "changing", "Write": "writing"}.get(self.tool)
        if self.tool == "WebFetch" and self.pattern:
            return f"fetching from {self.pattern.removeprefix('domain:')} and its sub-domains"
        if self.tool.startswith("mcp__"):
            server, _, name = self.tool.removeprefix("mcp__").partition("__")
            if server == "*":
                return "every tool of every MCP server"
            what = "every tool" if name == "*" else f"every call of {name}"
            return f"{what} of the MCP server {server}"
        return f"{verb} {self.pattern}" if verb and self.pattern else f"every call of {self.tool}"

    @property
    def _command_meaning(self) -> str:
        if self.pattern is None:
            return "every command"
        words = f"`{self.pattern.rstrip('*').removesuffix(':')}`" if self.form != "exact" else f"`{self.pattern}`"
        return {
            "exact": f"exactly {words}",
            "arguments": f"{words} and further arguments without options",
            "any": f"commands that begin with {words}",
        }[self.form]

    def allows_access(self, access: Access, *, sandboxed: bool) -> bool:
        """Return whether an allow rule for commands applies to this access level.

        Without a sandbox every command runs with full access. A rule with a level then applies only if that is `full`;
        a rule without one says nothing about sandboxes and applies.
        """
        if self.access is None:
            return not sandboxed or ACCESS_LEVELS.index(access) <= ACCESS_LEVELS.index("write")
        return ACCESS_LEVELS.index(access if sandboxed else "full") <= ACCESS_LEVELS.index(self.access)

    def covers_tool(self, tool: str) -> bool:
        """Return whether the rule is for a tool, by its name or as one of an MCP server."""
        return tool.startswith(self.tool[:-1]) if self.tool.endswith("*") else tool == self.tool

    def covers_path(self, path: str, folder: str, *, wide: bool) -> bool:
        return self.pattern is None or bool(compile_pattern(self.pattern, folder, wide).fullmatch(path))

    def covers_host(self, host: str) -> bool:
        if self.pattern is None:
            return True
        domain = self.pattern.removeprefix("domain:")
        return host == domain or host.endswith(f".{domain}")

    @property
    def form(self) -> Form:
        """How far a rule for commands reaches beyond its words."""
        pattern = self.pattern or ""
        return "any" if pattern.endswith(":**") else "arguments" if pattern.endswith(":*") else "exact"

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a rule for commands; none if its quotes do not close."""
        return split_words(_body(self.pattern or ""))


def is_shared(rules: Sequence[str]) -> bool:
    """Return whether rules mean the same in all folders of a repository. Patterns of files are relative to one."""
    return all(Rule.parse(rule).tool not in PATH_TOOLS for rule in rules)


def meaning_of(rules: Sequence[str]) -> str:
    """Return what these rules allow, in words. A text that is no rule stands for itself."""
    return "; ".join(map(_meaning, rules))


def _meaning(text: str) -> str:
    try:
        return Rule.parse(text).meaning
    except ConfigError:
        return text


def at_any_level(rules: Sequence[str]) -> tuple[str, ...]:
    """Return the rules without access levels: who never wants a command does not want it at a lower level either.

    >>> at_any_level(["Bash(npm ci) network", "Edit(./a.txt)"])
    ('Bash(npm ci)', 'Edit(./a.txt)')
    """
    return tuple(msgspec.structs.replace(Rule.parse(text), access=None).text for text in rules)


def exact_rule(text: str) -> str:
    """Return the pattern of the rule for exactly this command line, or "" if there is none."""
    text = text.strip()
    if not text or "\n" in text or len(text) > MAX_CHARACTERS or re.search(r"(?:^|[\s:])\*{1,2}$", text):
        return ""
    return text


def _body(pattern: str) -> str:
    return re.sub(r":\*{1,2}$", "", pattern)


@functools.lru_cache(maxsize=1024)
def split_words(text: str) -> tuple[str, ...]:
    """Split a command into words without expanding anything; none if its quotes do not close."""
    import shlex

    try:
        return tuple(shlex.split(text))
    except ValueError:
        return ()


def _check_tool(text: str, tool: str) -> None:
    if tool == "*":
        raise ConfigError(f"{text!r}: a rule names one tool; use the mode `all` to allow every tool")
    if _SERVER_TOOLS.fullmatch(tool):
        return
    if not re.fullmatch(NAME, tool):
        raise ConfigError(f"{text!r} is not a rule: {tool!r} is not a valid tool name")
    if tool in ALL_NAMES:
        return
    import difflib

    near = [known for known in ALL_NAMES if known.lower() == tool.lower()]
    near = near or difflib.get_close_matches(tool, ALL_NAMES, 1, 0.85)
    if near:
        raise ConfigError(f"{text!r} names no known tool; did you mean {near[0]}?")


def _check_pattern(text: str, tool: str, pattern: str) -> str:
    if not pattern:
        raise ConfigError(f"{text!r} has an empty pattern; write {tool} alone for every call")
    if "\0" in pattern:
        raise ConfigError(f"{text!r} has a NUL character")
    if tool in PATH_TOOLS:
        return _check_path(text, pattern)
    if tool == "Bash":
        return _check_command(text, pattern)
    if tool == "WebFetch":
        return _check_domain(text, pattern)
    raise ConfigError(f"{text!r}: rules for {tool} take no pattern; write {tool} alone")


def _check_path(text: str, pattern: str) -> str:
    try:
        alternatives(pattern)
        compile_pattern(pattern, "/", False)
    except (TooManyAlternativesError, re.error) as error:
        raise ConfigError(f"{text!r} has a pattern that cannot be used: {error}") from None
    if ".." in pattern.lstrip("./").split("/"):
        raise ConfigError(f"{text!r}: `..` is allowed only at the beginning of a pattern")
    if pattern.startswith("~") and not pattern.startswith("~/") and pattern != "~":
        raise ConfigError(f"{text!r}: `~` works only for your own home; write the path in full")
    return pattern


def _check_command(text: str, pattern: str) -> str:
    body = _body(pattern)
    if body != pattern and not split_words(body):
        raise ConfigError(f"{text!r} has no words before `:*`, or quotes that do not close")
    if body == pattern and re.search(r"\s\*$", pattern):
        raise ConfigError(f"{text!r}: for these words and further arguments write Bash({pattern[:-1].rstrip()}:*)")
    return pattern


def _check_domain(text: str, pattern: str) -> str:
    domain = pattern.removeprefix("domain:").strip().rstrip(".").lower()
    if not pattern.startswith("domain:") or not _DOMAIN.fullmatch(domain):
        raise ConfigError(f"{text!r}: write WebFetch(domain:example.com); its sub-domains are included")
    return f"domain:{domain}"
