"""The instructions that models read, one file each."""

from __future__ import annotations

import os
from functools import cache


@cache
def prompt(name: str) -> str:
    """Return the text of a file in this folder, by its name without `.md`."""
    with open(os.path.join(os.path.dirname(__file__), f"{name}.md"), encoding="utf-8") as file:
        return file.read().strip()
