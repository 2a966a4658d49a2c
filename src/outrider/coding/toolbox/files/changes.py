"""The details of a file change, for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.coding.toolbox.files.diffs import diff_of
from outrider.coding.toolbox.tool_errors import printable
from outrider.text import clean


def change_details(path: Path, name: str, old: str, new: str) -> dict[str, Any]:
    """Return the details of a result: the path, the diff, and the number of added and removed lines."""
    diff = diff_of(old, new, clean(printable(name)))
    return {"path": clean(str(path)), "diff": diff.text, "added": diff.added, "removed": diff.removed}
