"""Permission rules as the user writes them: a tool, or a tool and a pattern of what it is used on.

    Bash(git status)              this command, exactly
    Bash(npm run test:*)          commands that begin with these words
    Read(src/**), Edit(docs/*.md) files; relative to the folder, or `/…`, or `~/…`
    WebFetch(domain:example.com)  a domain and its sub-domains
    my_tool                       every call of a tool

A rule for Read also covers Glob, Grep and what the shell reads; a rule for Edit also covers Write and what the shell
writes. Allow rules match narrowly: exactly what they say. Deny and ask rules match widely: a folder includes everything
in it, a command also matches with more arguments, and `rm` also matches `/bin/rm` and `sudo rm`.

An allow rule for a command applies while the shell is in the project's folder. For a shell or another interpreter it
applies only without input from a pipe or a redirection. A rule with the exact text of a command line allows that line.
"""

from __future__ import annotations

import functools
import re
from typing import Literal, TypeAlias

import msgspec

from outrider.coding.permissions.patterns import TooManyAlternativesError, alternatives, compile_pattern
from outrider.coding.toolbox import ALL_NAMES
from outrider.errors import ConfigError
from outrider.tools.tool import NAME

PATH_TOOLS = ("Read", "Write", "Edit", "Glob", "Grep")

Match: TypeAlias = Literal["yes", "maybe", "no"]

_FORM = re.compile(r"\s*([^()\s]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_DOMAIN = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|[0-9a-f:]*:[0-9a-f:.]*")


class Rule(msgspec.Struct, frozen=True):
    """A tool, and a pattern of what it is used on."""

    tool: str
    pattern: str | None = None
    """None matches every call."""

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Parse a rule. Raises ConfigError, with advice."""
        form = _FORM.fullmatch(text) if isinstance(text, str) else None
        if form is None:
            raise ConfigError(f"{text!r} is not a rule; write a tool, or a tool and a pattern: Bash(git status)")
        tool, pattern = form[1], form[2]
        _check_tool(text, tool)
        if pattern is None or (tool in ("Bash", *PATH_TOOLS) and pattern.strip() in ("*", "**")):
            return cls(tool)
        return cls(tool, _check_pattern(text, tool, pattern.strip()))

    @property
    def text(self) -> str:
        """The rule as the user writes it."""
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    def covers_path(self, path: str, folder: str, *, wide: bool) -> bool:
        """Return whether the rule covers an absolute path."""
        return self.pattern is None or bool(compile_pattern(self.pattern, folder, wide).fullmatch(path))

    def covers_host(self, host: str) -> bool:
        """Return whether the rule covers a host."""
        if self.pattern is None:
            return True
        domain = self.pattern.removeprefix("domain:")
        return host == domain or host.endswith(f".{domain}")

    @property
    def is_prefix(self) -> bool:
        """Return whether it is a rule for commands that begin with certain words."""
        return self.pattern is not None and self.pattern.endswith(":*")

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a rule for commands; none if its quotes do not close."""
        return split_words((self.pattern or "").removesuffix(":*"))


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
    if not NAME.fullmatch(tool):
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
    body = pattern.removesuffix(":*")
    if body != pattern and not split_words(body):
        raise ConfigError(f"{text!r} has no words before `:*`, or quotes that do not close")
    if body == pattern and re.search(r"\s\*$", pattern):
        raise ConfigError(f"{text!r}: for commands that begin with these words write Bash({pattern[:-1].rstrip()}:*)")
    return pattern


def _check_domain(text: str, pattern: str) -> str:
    domain = pattern.removeprefix("domain:").strip().rstrip(".").lower()
    if not pattern.startswith("domain:") or not _DOMAIN.fullmatch(domain):
        raise ConfigError(f"{text!r}: write WebFetch(domain:example.com); its sub-domains are included")
    return f"domain:{domain}"
