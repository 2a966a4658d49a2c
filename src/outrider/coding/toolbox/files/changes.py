"""A change of a file as people see it beside the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.coding.toolbox.files.diffs import diff_of
from outrider.coding.toolbox.refusals import shown
from outrider.text import clean


def change(path: Path, name: str, old: str, new: str) -> dict[str, Any]:
    """The details of a result: which file, and what became of it."""
    diff = diff_of(old, new, clean(shown(name)))
    return {"path": clean(str(path)), "diff": diff.text, "added": diff.added, "removed": diff.removed}
