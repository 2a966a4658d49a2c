"""A change of a file in the words of version 2: which file, what is done to it, and a patch as Git writes them."""

from __future__ import annotations

import os
import re

from outrider.acp.updates.state import Diff
from outrider.acp.v2.schema import DiffItem, FileChange, Patch
from outrider.coding.toolbox.files.diffs import LINE_CHARACTERS

_LEFT_OUT = re.compile(r"^… [\d,]+ more lines?$", re.MULTILINE)
_ESCAPES = {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    7: "\\a",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    11: "\\v",
    12: "\\f",
    13: "\\r",
}


def diff_item(diff: Diff, made: str | None) -> DiffItem:
    """The change as it was made, by the unified diff of the tool that made it; or as it would be, if there is none."""
    if made is not None:
        return _made(diff, made)
    if diff.old is None:  # what is in the file is nobody's business before the call may run
        return _item("modify", diff.path, "") if os.path.lexists(diff.path) else _added(diff)
    return _item("modify", diff.path, _replaced(diff.old, diff.new))


def _made(diff: Diff, made: str) -> DiffItem:
    hunks = made.partition("\n")[2].partition("\n")[2]
    if hunks.startswith("@@ -0,0 "):
        return _added(diff) if diff.old is None else _item("add", diff.path, hunks)
    if diff.old is not None and not _is_whole(hunks):
        hunks = _replaced(diff.old, diff.new)
    return _item("modify", diff.path, hunks)


def _added(diff: Diff) -> DiffItem:
    lines = _lines("+", diff.new)
    return _item("add", diff.path, f"@@ -0,0 {_range('+', diff.new)} @@\n{lines}" if lines else "")


def _item(operation: str, path: str, hunks: str) -> DiffItem:
    change = [FileChange(operation, path, "text")]
    if not _is_whole(hunks) or not (hunks or operation == "add"):
        return DiffItem(change)
    return DiffItem(change, Patch("git_patch", _headers(operation, path, bool(hunks)) + hunks))


def _headers(operation: str, path: str, has_hunks: bool) -> str:
    name = quoted(path)
    shown = f"{name}\t" if " " in name else name  # as Git does, so that the end of the name is known
    before = "/dev/null" if operation == "add" else shown
    created = "new file mode 100644\n" if operation == "add" else ""
    return f"diff --git {name} {name}\n{created}" + (f"--- {before}\n+++ {shown}\n" if has_hunks else "")


def quoted(path: str) -> str:
    """A path as Git writes it: in quotes where it has characters that need them.

    >>> quoted("/a/b c.py"), quoted('/a/"é"')
    ('/a/b c.py', '"/a/\\\\"\\\\303\\\\251\\\\""')
    """
    if path.isascii() and path.isprintable() and not set(path) & {'"', "\\"}:
        return path
    return '"' + "".join(_escaped(byte) for byte in path.encode(errors="replace")) + '"'


def _escaped(byte: int) -> str:
    return _ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")


def _replaced(old: str, new: str) -> str:
    """One text in place of another, wherever in the file that is."""
    return f"@@ {_range('-', old)} {_range('+', new)} @@\n{_lines('-', old)}{_lines('+', new)}"


def _range(sign: str, text: str) -> str:
    count = text.count("\n") + (not text.endswith("\n")) if text else 0
    return f"{sign}{min(1, count)},{count}"


def _lines(sign: str, text: str) -> str:
    if not text:
        return ""
    lines = "".join(f"{sign}{line}\n" for line in text.removesuffix("\n").split("\n"))
    return lines if text.endswith("\n") else f"{lines}\\ No newline at end of file\n"


def _is_whole(hunks: str) -> bool:
    return not _LEFT_OUT.search(hunks) and all(len(line) <= LINE_CHARACTERS for line in hunks.split("\n"))
