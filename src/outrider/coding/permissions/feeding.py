"""What is written to a command: data for some, a program for others.

`python3` alone does nothing; `python3 < x` does whatever stands in x. So a rule that was agreed for the one does not
hold for the other, unless the command is known to take its input for data.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.coding.permissions.naming import names
from outrider.coding.permissions.nodes import READING
from outrider.coding.permissions.reading import READERS
from outrider.coding.permissions.rules import Rule
from outrider.coding.permissions.script import Command
from outrider.coding.permissions.traps import is_trapped
from outrider.coding.permissions.wrappers import SHELLS, WRAPPERS, base_name

if TYPE_CHECKING:
    from tree_sitter import Node

INTERPRETERS = names(
    "python pypy ipython node deno bun tsx ts-node ruby irb perl php lua luajit R Rscript julia ghci runghc scala "
    "swift clojure elixir iex erl tclsh wish expect osascript groovy jshell guile racket sbcl ocaml sqlite psql mysql "
    "mariadb mongo mongosh redis-cli duckdb gdb lldb ed ex vi vim nvim emacs dc m4 at batch crontab pwsh nc ncat socat"
)
"""Programs that do what they read."""

DATA_READERS = frozenset(READERS) | names(
    "tee jq yq awk gawk mawk sed rg less more xxd hexdump base64 gzip gunzip zcat bzip2 xz zstd iconv paste join shuf "
    "diff fmt pr tr bat pbcopy xclip xsel wl-copy pv sponge"
)
"""Programs that only pass on or look at what they read."""

_REMOTE = names("at batch crontab ssh")
_VERSION = re.compile(r"[0-9.]+\Z")
_PIPES = ("|", "|&")


def is_fed(node: Node) -> bool:
    """Whether something is written to a command, or to a group in which it stands."""
    inner: Node | None = None
    holder: Node | None = node
    while holder is not None:
        if any(_feeds(child) for child in holder.children):
            return True
        if inner is not None and holder.type == "pipeline" and _is_behind_a_pipe(inner, holder):
            return True
        inner, holder = holder, holder.parent
    return False


def _feeds(node: Node) -> bool:
    if node.type == "file_redirect":
        return any(child.type in READING or child.type == "<>" for child in node.children)
    return node.type in ("herestring_redirect", "heredoc_redirect")


def _is_behind_a_pipe(node: Node, pipeline: Node) -> bool:
    return any(child.type in _PIPES and child.end_byte <= node.start_byte for child in pipeline.children)


def holds_while_fed(rule: Rule, words: Sequence[str]) -> bool:
    """Whether a rule for a command still holds where something is written to the command."""
    if base_name(words[0]) in DATA_READERS and not is_trapped(words):
        return True
    return rule.is_prefix and base_name(words[0]) not in WRAPPERS and not any(map(does_what_it_reads, words))


def is_fed_a_program(command: Command) -> bool:
    """Whether a command line that cannot be seen is written to a shell, or to something that makes commands of it."""
    values = [base_name(value) for value in command.values if value is not None]
    if not command.fed or not values:
        return False
    if "xargs" in values or "parallel" in values:
        return any(value in WRAPPERS | SHELLS | {"{}"} for value in values if value not in ("xargs", "parallel"))
    return any(value in SHELLS or value in _REMOTE for value in values)


def does_what_it_reads(word: str) -> bool:
    """Whether it is the name of a shell or of another interpreter, of whatever version."""
    name = base_name(word)
    return name in SHELLS or name in INTERPRETERS or _VERSION.sub("", name) in INTERPRETERS
