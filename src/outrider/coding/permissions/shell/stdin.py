"""The standard input of a command: data for some commands, a program for others.

`python3` alone does nothing; `python3 < x` runs x. So a rule for the one does not allow the other, unless the command
is known to treat its input as data.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.coding.permissions.rules import Rule
from outrider.coding.permissions.shell.node_types import READING
from outrider.coding.permissions.shell.read_only_options import READERS
from outrider.coding.permissions.shell.script import Command
from outrider.coding.permissions.shell.unsafe_options import has_unsafe_options
from outrider.coding.permissions.shell.wrappers import SHELLS, WRAPPERS, program_name
from outrider.coding.permissions.word_set import word_set

if TYPE_CHECKING:
    from tree_sitter import Node

INTERPRETERS = word_set(
    "python pypy ipython node deno bun tsx ts-node ruby irb perl php lua luajit R Rscript julia ghci runghc scala "
    "swift clojure elixir iex erl tclsh wish expect osascript groovy jshell guile racket sbcl ocaml sqlite psql mysql "
    "mariadb mongo mongosh redis-cli duckdb gdb lldb ed ex vi vim nvim emacs dc m4 at batch crontab pwsh nc ncat socat"
)
"""Programs that run their input."""

DATA_READERS = frozenset(READERS) | word_set(
    "tee jq yq awk gawk mawk sed rg less more xxd hexdump base64 gzip gunzip zcat bzip2 xz zstd iconv paste join shuf "
    "diff fmt pr tr bat pbcopy xclip xsel wl-copy pv sponge"
)
"""Programs that treat their input as data."""

_DEFERRED_SHELLS = word_set("at batch crontab ssh")
_VERSION = re.compile(r"[0-9.]+\Z")
_PIPES = ("|", "|&")


def has_input(node: Node) -> bool:
    """Return whether a command, or a group around it, has input from a pipe or a redirection."""
    inner: Node | None = None
    holder: Node | None = node
    while holder is not None:
        if any(_is_input(child) for child in holder.children):
            return True
        if inner is not None and holder.type == "pipeline" and _is_piped_into(inner, holder):
            return True
        inner, holder = holder, holder.parent
    return False


def _is_input(node: Node) -> bool:
    if node.type == "file_redirect":
        return any(child.type in READING or child.type == "<>" for child in node.children)
    return node.type in ("herestring_redirect", "heredoc_redirect")


def _is_piped_into(node: Node, pipeline: Node) -> bool:
    return any(child.type in _PIPES and child.end_byte <= node.start_byte for child in pipeline.children)


def applies_with_input(rule: Rule, words: Sequence[str]) -> bool:
    """Return whether a rule for a command still applies if the command has input."""
    if program_name(words[0]) in DATA_READERS and not has_unsafe_options(words):
        return True
    return rule.is_prefix and program_name(words[0]) not in WRAPPERS and not any(map(is_interpreter, words))


def runs_unseen_input(command: Command) -> bool:
    """Return whether a shell, or something that makes commands of its input, reads input that cannot be checked."""
    values = [program_name(value) for value in command.values if value is not None]
    if not command.has_input or not values:
        return False
    if "xargs" in values or "parallel" in values:
        return any(value in WRAPPERS | SHELLS | {"{}"} for value in values if value not in ("xargs", "parallel"))
    return any(value in SHELLS or value in _DEFERRED_SHELLS for value in values)


def is_interpreter(word: str) -> bool:
    """Return whether it is the name of a shell or another interpreter, in any version."""
    name = program_name(word)
    return name in SHELLS or name in INTERPRETERS or _VERSION.sub("", name) in INTERPRETERS
