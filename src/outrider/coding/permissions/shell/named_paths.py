"""Find secrets, and files that rules cover, among the words of a command line.

This covers names that are written out. What a program opens by itself, only the sandbox restricts.
"""

from __future__ import annotations

import glob
import itertools
import os.path
import re
from collections.abc import Iterator, Sequence

from outrider.coding.permissions.file_access import denial_reason, denying_rule, rule_asks
from outrider.coding.permissions.paths import ResolvedPath, resolve_shell_path
from outrider.coding.permissions.policy import Decision, Policy, deny_part
from outrider.coding.protected_paths import is_secret, targets_secrets
from outrider.coding.wildcards import TooManyAlternativesError, alternatives

MAX_NAMES = 1_000
"""The most names that a glob is expanded to."""

_EXCLUDES = re.compile(r"--(?:exclude|ignore|skip)")
_CUT = re.compile(r"[=@:,!)]")
_GLOB = re.compile(r"[*?\[]")


def check_named_paths(
    policy: Policy,
    words: Sequence[str],
    cwd: str,
    tools: tuple[str, ...],
    *,
    secrets: bool,
    patterns: bool,
    globs: bool,
) -> Iterator[Decision]:
    """Check the words of a command against the rules of these tools, and against the secrets if nothing masks them.

    `patterns` says whether the command finds files by patterns, `globs` whether the shell expands them.
    """
    cwd = os.path.realpath(cwd)
    for word in dict.fromkeys(word for at, word in enumerate(words) if not _is_excluded(words, at)):
        for text in filter(None, dict.fromkeys(_possible_paths(word))):
            if patterns and secrets and _GLOB.search(text) and targets_secrets(text, policy.secrets):
                yield deny_part(f"{text} looks for secrets, which are never opened")
            yield from _check_path(policy, _resolved(text, cwd), tools, secrets=secrets)
            for path in _expanded(text, cwd) if globs else ():
                for part in _check_path(policy, resolve_shell_path(path, cwd), tools, secrets=secrets):
                    yield Decision("ask", f"{text} also matches {path}: {part.reason}", final=True)


def _resolved(text: str, cwd: str) -> ResolvedPath:
    """Resolve a word. Most words are no paths, and are not looked up component by component."""
    if "/" not in text and text not in (".", "..") and not os.path.lexists(f"{cwd}/{text}"):
        return ResolvedPath(text, f"{cwd}/{text}", (f"{cwd}/{text}",))
    return resolve_shell_path(text, cwd)


def _check_path(policy: Policy, found: ResolvedPath, tools: tuple[str, ...], *, secrets: bool) -> Iterator[Decision]:
    if found.problem:
        return
    if rule := denying_rule(policy, tools, found):
        yield deny_part(f"the rule {rule.text} denies {found.given}")
    elif secrets and _is_secret(policy, found):
        yield deny_part(denial_reason(policy, tools, "read", found))
    elif rule_asks(policy, tools, found):
        yield Decision("ask", f"a rule asks about {found.given}", final=True, resolved_paths=(found.resolved,))


def _is_secret(policy: Policy, found: ResolvedPath) -> bool:
    """Return whether it is a secret or Outrider's own.

    `.key` may be an expression of jq, so a match of `*.key` must exist.
    """
    folder = str(policy.folder)
    if any(policy.own.hides(path) for path in found.all_paths):
        return True
    if not any(is_secret(path, policy.secrets, folder) for path in found.all_paths):
        return False
    certain = tuple(pattern for pattern in policy.secrets if not pattern.startswith("*"))
    return os.path.lexists(found.resolved) or any(is_secret(path, certain, folder) for path in found.all_paths)


def _expanded(text: str, folder: str) -> Iterator[str]:
    """Return the names that a glob stands for now. The last name may be that of a new file."""
    if not _GLOB.search(text):
        return iter(())
    parent, slash, name = text.rpartition("/")
    new = (f"{each}/{name}" for each in glob.iglob(parent, root_dir=folder)) if slash and not _GLOB.search(name) else ()
    return itertools.islice(itertools.chain(glob.iglob(text, root_dir=folder), new), MAX_NAMES)


def _is_excluded(words: Sequence[str], at: int) -> bool:
    """Return whether the word excludes something: `--exclude=.git`, `! -path ./.git`."""
    before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
    if _EXCLUDES.match(words[at]) or (_EXCLUDES.match(before) and "=" not in before):
        return True
    return before in ("-path", "-name") and (after == "-prune" or (at > 1 and words[at - 2] in ("!", "-not")))


def _possible_paths(word: str) -> Iterator[str]:
    """Yield the word, and the parts that may be a path: `--opt=x`, `@x`, `if=x`, `-Tx`, `HEAD:x`, `~/x`."""
    try:
        texts = alternatives(word)
    except TooManyAlternativesError:
        texts = [word]
    for text in texts:
        home = os.path.expanduser(text.replace("$HOME/", "~/")) if text.startswith(("~/", "$HOME/")) else text
        yield from (home, *(home[cut.end() :] for cut in _CUT.finditer(home)), *_CUT.split(home)[:-1])
        if text.startswith("-") and not text.startswith("--"):
            yield text[2:]
