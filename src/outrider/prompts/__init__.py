"""The instructions that models read, one file each."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def prompt(name: str) -> str:
    """Return the text of a file in this folder, by its name without `.md`."""
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").strip()
