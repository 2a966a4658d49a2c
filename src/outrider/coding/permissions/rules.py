"""Rules as a person writes them: a tool, and perhaps a pattern of what it is used on.

    Bash(git status)              this command, exactly
    Bash(npm run test:*)          commands that begin with these words
    Read(src/**), Edit(docs/*.md) files; relative to the folder, or `/…`, or `~/…`
    WebFetch(domain:example.com)  a domain and its sub-domains
    my_tool                       every call of a tool

A rule for Read is also one for Glob and Grep and for what the shell reads; one for Edit also for Write and for what the
shell writes. Rules that allow are read narrowly: just what they say. Rules that deny or ask are read widely: a folder
is also all that lies in it, a command is also the command with more arguments, `rm` is also `/bin/rm` and `sudo rm`.

A rule that allows a command holds while the shell stands in the folder of the project, and for a shell or another
interpreter while nothing is written to it; a rule with the very text of a whole command line holds for that line.
"""

from __future__ import annotations

import functools
import re
from typing import Literal, TypeAlias

import msgspec

from outrider.coding.permissions.patterns import TooManyError, alternatives, matcher
from outrider.coding.toolbox import ALL_NAMES
from outrider.errors import ConfigError
from outrider.tools.tool import NAME

PATH_TOOLS = ("Read", "Write", "Edit", "Glob", "Grep")

Match: TypeAlias = Literal["yes", "maybe", "no"]

_FORM = re.compile(r"\s*([^()\s]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_DOMAIN = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|[0-9a-f:]*:[0-9a-f:.]*")


class Rule(msgspec.Struct, frozen=True):
    """A tool and what it is used on."""

    tool: str
    pattern: str | None = None
    """None is anything."""

    @classmethod
    def parse(cls, text: str) -> Rule:
        """The rule that a text stands for. Raises ConfigError, with advice."""
        form = _FORM.fullmatch(text) if isinstance(text, str) else None
        if form is None:
            raise ConfigError(f"{text!r} is not a rule; write a tool, or a tool and a pattern: Bash(git status)")
        tool, pattern = form[1], form[2]
        _check_tool(text, tool)
        if pattern is None or (tool in ("Bash", *PATH_TOOLS) and pattern.strip() in ("*", "**")):
            return cls(tool)
        return cls(tool, _checked_pattern(text, tool, pattern.strip()))

    @property
    def text(self) -> str:
        """The rule as it is written."""
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    def covers_path(self, path: str, folder: str, *, wide: bool) -> bool:
        """Whether an absolute path is one that the rule speaks of."""
        return self.pattern is None or bool(matcher(self.pattern, folder, wide).fullmatch(path))

    def covers_host(self, host: str) -> bool:
        """Whether a host is one that the rule speaks of."""
        if self.pattern is None:
            return True
        domain = self.pattern.removeprefix("domain:")
        return host == domain or host.endswith(f".{domain}")

    @property
    def is_prefix(self) -> bool:
        """Whether a rule for commands speaks of how they begin."""
        return self.pattern is not None and self.pattern.endswith(":*")

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a rule for commands; none if it is no sequence of words."""
        return words_of((self.pattern or "").removesuffix(":*"))


@functools.lru_cache(maxsize=1024)
def words_of(text: str) -> tuple[str, ...]:
    """The words of a command without anything to expand; none if its quotes do not close."""
    import shlex

    try:
        return tuple(shlex.split(text))
    except ValueError:
        return ()


def _check_tool(text: str, tool: str) -> None:
    if tool == "*":
        raise ConfigError(f"{text!r}: a rule names one tool; the mode `all` is what allows every one")
    if not NAME.fullmatch(tool):
        raise ConfigError(f"{text!r} is not a rule: {tool!r} cannot be the name of a tool")
    if tool in ALL_NAMES:
        return
    import difflib

    near = [known for known in ALL_NAMES if known.lower() == tool.lower()]
    near = near or difflib.get_close_matches(tool, ALL_NAMES, 1, 0.85)
    if near:
        raise ConfigError(f"{text!r} names no known tool; did you mean {near[0]}?")


def _checked_pattern(text: str, tool: str, pattern: str) -> str:
    if not pattern:
        raise ConfigError(f"{text!r} has an empty pattern; write {tool} alone for every call")
    if "\0" in pattern:
        raise ConfigError(f"{text!r} has a NUL character")
    if tool in PATH_TOOLS:
        return _checked_path(text, pattern)
    if tool == "Bash":
        return _checked_command(text, pattern)
    if tool == "WebFetch":
        return _checked_domain(text, pattern)
    raise ConfigError(f"{text!r}: rules for {tool} take no pattern; write {tool} alone")


def _checked_path(text: str, pattern: str) -> str:
    try:
        alternatives(pattern)
        matcher(pattern, "/", False)
    except (TooManyError, re.error) as error:
        raise ConfigError(f"{text!r} has a pattern that cannot be used: {error}") from None
    if ".." in pattern.lstrip("./").split("/"):
        raise ConfigError(f"{text!r}: `..` can stand only at the beginning of a pattern")
    if pattern.startswith("~") and not pattern.startswith("~/") and pattern != "~":
        raise ConfigError(f"{text!r}: `~` alone is known, the home of another user is not; write the path")
    return pattern


def _checked_command(text: str, pattern: str) -> str:
    body = pattern.removesuffix(":*")
    if body != pattern and not words_of(body):
        raise ConfigError(f"{text!r} has no words before `:*`, or quotes that do not close")
    if body == pattern and re.search(r"\s\*$", pattern):
        raise ConfigError(f"{text!r}: for commands that begin with these words write Bash({pattern[:-1].rstrip()}:*)")
    return pattern


def _checked_domain(text: str, pattern: str) -> str:
    domain = pattern.removeprefix("domain:").strip().rstrip(".").lower()
    if not pattern.startswith("domain:") or not _DOMAIN.fullmatch(domain):
        raise ConfigError(f"{text!r}: write WebFetch(domain:example.com); its sub-domains are included")
    return f"domain:{domain}"
