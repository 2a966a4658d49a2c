"""Find secrets, and files that rules cover, among the arguments of a command.

This is best effort: a program can be told to read a file in other ways. Only a sandbox prevents that.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Sequence

from outrider.coding.permissions.files import denial_reason, denying_rule, rule_asks
from outrider.coding.permissions.part_decision import PartDecision, deny_part
from outrider.coding.permissions.paths import ResolvedPath, resolve_shell_path
from outrider.coding.permissions.patterns import TooManyAlternativesError, alternatives
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.shell.glob_expansion import ExpansionError, expand_glob
from outrider.coding.permissions.shell.words import UNKNOWN, Word
from outrider.coding.permissions.word_set import word_set
from outrider.coding.protected_paths import is_secret, targets_secrets

FILE_TOOLS = ("Read", "Edit", "Write")
"""The tools whose rules apply to a path in an argument: what the command does with it is unknown."""

MAX_GLOBS = 64
"""The most globs of one command that are expanded."""

_EXCLUDE_OPTION = re.compile(r"--(?:exclude|ignore|skip)")
_CUT = re.compile(r"[=@:,<>]")
_GLOB = re.compile(r"[*?\[]")
_PATTERN_COMMANDS = word_set("git find fd tar rsync zip unzip")
_GLOB_OPTION = re.compile(r"-g|--i?glob|--include")
_PATHSPEC_MAGIC = re.compile(r"\([a-z,]*\)")


def check_path_arguments(policy: Policy, words: Sequence[Word], folders: Sequence[str]) -> Iterator[PartDecision]:
    """Check the arguments of a command that is not known to be read-only."""
    globs: list[tuple[str, str]] = []
    for at, word in enumerate(words):
        if not at or _is_excluded(words, at):
            continue
        matched = word.value is None or _is_pattern(words, at)
        for text in filter(None, dict.fromkeys(_possible_paths(word.hint))):
            if matched and _GLOB.search(text) and targets_secrets(text, policy.secrets):
                yield deny_part(f"{text} looks for secrets, which are never opened".replace(UNKNOWN, "…"))
            for folder in folders:
                yield from _check_path(policy, resolve_shell_path(text, folder))
                if word.value is None and _GLOB.search(text) and UNKNOWN not in text:
                    globs.append((text, folder))
    for glob, folder in dict.fromkeys(globs[:MAX_GLOBS]):
        yield from _check_glob(policy, glob, folder)
    if len(globs) > MAX_GLOBS:
        yield from _ask_if_restricted(policy, "its patterns match")


def _check_path(policy: Policy, found: ResolvedPath) -> Iterator[PartDecision]:
    reason = "" if found.problem else denial_reason(policy, FILE_TOOLS, "read", found)
    if reason and (
        _is_certain_secret(policy, found.all_paths)
        or os.path.lexists(found.resolved)
        or denying_rule(policy, FILE_TOOLS, found)
    ):
        yield deny_part(reason.replace(UNKNOWN, "…"))
    elif rule_asks(policy, FILE_TOOLS, found):
        yield PartDecision("ask", f"a rule asks about {found.given}", final=True, resolved_paths=(found.resolved,))


def _check_glob(policy: Policy, glob: str, folder: str) -> Iterator[PartDecision]:
    """Ask if the shell would expand a glob to a path that is denied or needs approval."""
    try:
        paths = expand_glob(glob, folder)
    except ExpansionError:
        yield from _ask_if_restricted(policy, f"{glob} matches")
        return
    for path in paths:
        found = resolve_shell_path(path, folder)
        if denial_reason(policy, FILE_TOOLS, "read", found) or rule_asks(policy, FILE_TOOLS, found):
            yield PartDecision("ask", f"{glob} also matches {os.path.basename(path)}, which is not allowed", final=True)
            return


def _ask_if_restricted(policy: Policy, subject: str) -> Iterator[PartDecision]:
    if any(rule.tool in FILE_TOOLS for rule in (*policy.deny, *policy.ask)):
        yield PartDecision("ask", f"{subject} too many files to check each", final=True)


def _is_certain_secret(policy: Policy, paths: tuple[str, ...]) -> bool:
    """Return whether a path is certainly a secret. `.key` may be an expression of jq, so `*.key` needs a file."""
    certain = tuple(pattern for pattern in policy.secrets if not pattern.startswith("*"))
    return any(is_secret(path, certain, str(policy.folder)) for path in paths)


def _is_excluded(words: Sequence[Word], at: int) -> bool:
    """Return whether the word excludes something: `--exclude=.git`, `! -path ./.git`."""
    word, before = words[at].hint, words[at - 1].hint
    if _EXCLUDE_OPTION.match(word) or (_EXCLUDE_OPTION.match(before) and "=" not in before):
        return True
    if before not in ("-path", "-name", "-wholename"):
        return False
    after = words[at + 1].hint if at + 1 < len(words) else ""
    return after == "-prune" or words[at - 2].hint in ("!", "-not")


def _is_pattern(words: Sequence[Word], at: int) -> bool:
    """Return whether the command itself expands the word as a pattern, as git does."""
    if words[0].hint.rpartition("/")[2] in _PATTERN_COMMANDS:
        return True
    return bool(_GLOB_OPTION.match(words[at].hint)) or words[at - 1].hint in ("-g", "--glob", "--iglob", "--include")


def _possible_paths(hint: str) -> Iterator[str]:
    """Yield the word, and the parts that may be a path: `--opt=x`, `@x`, `if=x`, `-Tx`, `HEAD:x`."""
    try:
        texts = alternatives(hint)
    except TooManyAlternativesError:
        texts = [hint]
    for text in texts:
        yield text
        yield from (text[cut.end() :] for cut in _CUT.finditer(text))
        yield from (part for part in _CUT.split(text)[:-1])
        if text.startswith("-") and not text.startswith("--"):
            yield text[2:]
        if text.startswith(":"):  # a pathspec of git
            yield _PATHSPEC_MAGIC.sub("", text[1:], count=1).lstrip("/")
