"""Parse a command line into its simple commands, with tree-sitter-bash.

Every command is found: in pipelines, lists, groups, loops, conditions, functions and substitutions. Only known node
types are trusted; all others are doubts. A script with doubts still has the commands that were found, so that deny
rules can be applied.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import TYPE_CHECKING

from outrider.coding.permissions.shell.script import Script
from outrider.coding.permissions.shell.tree_reader import TreeReader

if TYPE_CHECKING:
    from tree_sitter import Parser

MAX_CHARACTERS = 20_000
"""The longest command line that is parsed."""
MAX_OPERATORS = 1_000
"""The most operators in it: some texts take the parser seconds."""

_OPERATORS = re.compile(r"[|&;()<>{}\[\]`\"'$]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@functools.lru_cache(maxsize=16)
def parse_script(text: str) -> Script:
    """Parse a command line. Never raises. Results are cached because each line is parsed twice."""
    doubt = _obvious_doubt(text)
    if doubt:
        return Script(text, doubts=(doubt,))
    source = text.encode()
    return TreeReader(source).read(_parser().parse(source).root_node)


def _obvious_doubt(text: str) -> str:
    if len(text) > MAX_CHARACTERS or len(_OPERATORS.findall(text)) > MAX_OPERATORS:
        return "it is too long"
    if _CONTROL.search(text):
        return "it has control characters"
    if not text.isascii() and any(unicodedata.category(character)[0] in "ZC" for character in text if character > "~"):
        return "it has invisible characters"
    return ""


@functools.lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
