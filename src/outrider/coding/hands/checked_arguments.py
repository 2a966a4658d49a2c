"""Stands for the module `jsonschema_rs` in a bundle, which has no compiled part that can be left out.

The session checks the arguments of each call against the tool's schema before it sends them. The conversion of
arguments to the types of the tool's function still happens where the hands are, and still refuses what does not fit.
"""

from __future__ import annotations

from typing import Any


class RegexOptions:
    """Takes the options, which mean nothing here."""

    def __init__(self, **options: Any) -> None:
        pass


FancyRegexOptions = RegexOptions


class _Checked:
    def is_valid(self, value: Any) -> bool:
        return True

    def iter_errors(self, value: Any) -> list[Any]:
        return []


def validator_for(schema: Any, **options: Any) -> _Checked:
    """Return a validator that finds no fault."""
    return _Checked()
