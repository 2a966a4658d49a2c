"""Secrets and files of which rules speak among the arguments of a command, in whatever form commands take them.

This is a courtesy, not a wall: a program can be told to read a file in ways that nobody can foresee. Only a sandbox
makes sure that it does not.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Sequence

from outrider.coding.permissions.expanding import TooMuchError, expanded
from outrider.coding.permissions.files import denial, is_asked_about
from outrider.coding.permissions.finding import Finding, denied
from outrider.coding.permissions.naming import names
from outrider.coding.permissions.paths import Place, shell_place
from outrider.coding.permissions.patterns import TooManyError, alternatives
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.secrets import is_secret, names_a_secret
from outrider.coding.permissions.words import UNKNOWN, Word

MENTIONED = ("Read", "Edit", "Write")
"""The tools whose rules speak of a path among the arguments: what the command does with it is not known."""

MOST_GLOBS = 64
"""Patterns in one command that are compared with the names on the disk."""

_LEFT_OUT = re.compile(r"--(?:exclude|ignore|skip)")
_CUT = re.compile(r"[=@:,<>]")
_GLOB = re.compile(r"[*?\[]")
_MATCHERS = names("git find fd tar rsync zip unzip")
_GLOB_OPTION = re.compile(r"-g|--i?glob|--include")
_MAGIC = re.compile(r"\([a-z,]*\)")


def judge_mentions(policy: Policy, words: Sequence[Word], standing: Sequence[str]) -> Iterator[Finding]:
    """What is found about the arguments of a command of which nothing else is known."""
    globs: list[tuple[str, str]] = []
    for at, word in enumerate(words):
        if not at or _is_left_out(words, at):
            continue
        matched = word.value is None or _is_matched(words, at)
        for text in filter(None, dict.fromkeys(_forms(word.hint))):
            if matched and _GLOB.search(text) and names_a_secret(text, policy.secrets):
                yield denied(f"{text} looks for secrets, which stay closed".replace(UNKNOWN, "…"))
            for folder in standing:
                yield from _judge(policy, shell_place(text, folder))
                if word.value is None and _GLOB.search(text) and UNKNOWN not in text:
                    globs.append((text, folder))
    for glob, folder in dict.fromkeys(globs[:MOST_GLOBS]):
        yield from _judge_glob(policy, glob, folder)
    if len(globs) > MOST_GLOBS:
        yield from _judge_too_many(policy, "its patterns stand")


def _judge(policy: Policy, found: Place) -> Iterator[Finding]:
    refusal = "" if found.problem else denial(policy, MENTIONED, "read", found)
    if refusal and (_is_sharp(policy, found.seen) or os.path.lexists(found.resolved) or "rule" in refusal):
        yield denied(refusal.replace(UNKNOWN, "…"))
    elif is_asked_about(policy, MENTIONED, found):
        yield Finding("ask", f"a rule asks about {found.given}", firm=True, places=(found.resolved,))


def _judge_glob(policy: Policy, glob: str, folder: str) -> Iterator[Finding]:
    """What the shell would make of a pattern: it is asked about if that is something that may not be touched."""
    try:
        paths = expanded(glob, folder)
    except TooMuchError:
        yield from _judge_too_many(policy, f"{glob} stands")
        return
    for path in paths:
        found = shell_place(path, folder)
        if denial(policy, MENTIONED, "read", found) or is_asked_about(policy, MENTIONED, found):
            yield Finding("ask", f"{glob} stands for {os.path.basename(path)} too, which is not free", firm=True)
            return


def _judge_too_many(policy: Policy, subject: str) -> Iterator[Finding]:
    if any(rule.tool in MENTIONED for rule in (*policy.deny, *policy.ask)):
        yield Finding("ask", f"{subject} for too many files to look at each", firm=True)


def _is_sharp(policy: Policy, paths: tuple[str, ...]) -> bool:
    """Whether a name is a secret's beyond doubt. `*.key` is also an expression of jq, unless there is such a file."""
    sharp = tuple(pattern for pattern in policy.secrets if not pattern.startswith("*"))
    return any(is_secret(path, sharp, str(policy.folder)) for path in paths)


def _is_left_out(words: Sequence[Word], at: int) -> bool:
    """Whether the word says what a command should not look at: `--exclude=.git`, `! -path ./.git`."""
    word, before = words[at].hint, words[at - 1].hint
    if _LEFT_OUT.match(word) or (_LEFT_OUT.match(before) and "=" not in before):
        return True
    if before not in ("-path", "-name", "-wholename"):
        return False
    after = words[at + 1].hint if at + 1 < len(words) else ""
    return after == "-prune" or words[at - 2].hint in ("!", "-not")


def _is_matched(words: Sequence[Word], at: int) -> bool:
    """Whether the command itself takes the word for a pattern of names, as git does."""
    if words[0].hint.rpartition("/")[2] in _MATCHERS:
        return True
    return bool(_GLOB_OPTION.match(words[at].hint)) or words[at - 1].hint in ("-g", "--glob", "--iglob", "--include")


def _forms(hint: str) -> Iterator[str]:
    """A word as it stands, and what a command may take for a path in it: `--opt=x`, `@x`, `if=x`, `-Tx`, `HEAD:x`."""
    try:
        texts = alternatives(hint)
    except TooManyError:
        texts = [hint]
    for text in texts:
        yield text
        yield from (text[cut.end() :] for cut in _CUT.finditer(text))
        yield from (part for part in _CUT.split(text)[:-1])
        if text.startswith("-") and not text.startswith("--"):
            yield text[2:]
        if text.startswith(":"):  # a pathspec of git
            yield _MAGIC.sub("", text[1:], count=1).lstrip("/")
