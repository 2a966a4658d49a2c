"""Docstrings for the site: examples in them become blocks of code. An extension of Griffe, which mkdocstrings loads."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^|\n)((?:>>> [^\n]*(?:\n(?!\n)[^\n]+)*(?:\n+(?=>>> ))?)+)")
"""Lines from `>>> ` to the next blank line, and further examples that follow at once."""


class Examples(griffe.Extension):
    """Mark the examples of each docstring as a Python session."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object."""
        if obj.docstring:
            obj.docstring.value = with_examples(obj.docstring.value)


def with_examples(docstring: str) -> str:
    """Return a docstring whose examples are blocks of code."""
    return EXAMPLE.sub(lambda found: f"\n```pycon\n{found[1].rstrip()}\n```", docstring).rstrip()
