"""Secrets and denied files among the arguments of a command, in whatever form commands take them.

This is a courtesy, not a wall: a program can be told to read a file in ways that nobody can foresee. Only a sandbox
makes sure that it does not.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Sequence

from outrider.permissions.files import denial
from outrider.permissions.paths import shell_place
from outrider.permissions.patterns import TooManyError, alternatives
from outrider.permissions.policy import Policy
from outrider.permissions.secrets import is_secret, names_a_secret
from outrider.permissions.words import UNKNOWN, Word

_LEFT_OUT = re.compile(r"--(?:exclude|ignore|skip)")
_CUT = re.compile(r"[=@:,<>]")
_GLOB = re.compile(r"[*?\[]")


def denied_mention(policy: Policy, words: Sequence[Word], standing: Sequence[str]) -> str:
    """Why one of the words may not be mentioned; empty if all may."""
    for at, word in enumerate(words):
        if at and not _is_left_out(words, at):
            for text in filter(None, dict.fromkeys(_forms(word.hint))):
                refusal = _refusal(policy, text, word.value is None, standing)
                if refusal:
                    return refusal
    return ""


def _refusal(policy: Policy, text: str, uncertain: bool, standing: Sequence[str]) -> str:
    if uncertain and _GLOB.search(text) and names_a_secret(text, policy.secrets):
        return f"{text} looks for secrets, which stay closed"
    for folder in standing:
        found = shell_place(text, folder)
        refusal = "" if found.problem else denial(policy, ("Read", "Edit"), "read", found)
        if refusal and (_is_sharp(policy, found.seen) or os.path.lexists(found.resolved) or "rule" in refusal):
            return refusal.replace(UNKNOWN, "…")
    return ""


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
