"""A command line to the simple commands in it, with tree-sitter-bash.

Every command counts, wherever it stands: in pipelines, lists, groups, loops, conditions, functions, substitutions. Only
kinds of nodes that are known here are taken for what they seem; all others are doubts. A script with a doubt still
tells what was seen in it, so that rules that deny can be applied.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import TYPE_CHECKING

from outrider.coding.permissions.reader import Reader
from outrider.coding.permissions.script import Script

if TYPE_CHECKING:
    from tree_sitter import Parser

LONGEST = 20_000
"""Characters of a command line that is read."""
BUSIEST = 1_000
"""Signs with a meaning in it: some texts would take the parser seconds."""

_SIGNS = re.compile(r"[|&;()<>{}\[\]`\"'$]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@functools.lru_cache(maxsize=16)
def read_script(text: str) -> Script:
    """What a command line does. Never raises for what a model may write. The last few are kept: each is read twice."""
    doubt = _unreadable(text)
    if doubt:
        return Script(text, doubts=(doubt,))
    source = text.encode()
    return Reader(source).read(_parser().parse(source).root_node)


def _unreadable(text: str) -> str:
    if len(text) > LONGEST or len(_SIGNS.findall(text)) > BUSIEST:
        return "it is too long to be read"
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
