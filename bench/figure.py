"""A measured figure beside its target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """What was measured, how much it is, and how much it may be."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the target is met; a figure without one always holds."""
        return self.at_most is None or self.value <= self.at_most

    def __str__(self) -> str:
        target = "" if self.at_most is None else f"  (at most {self.at_most:g}: {'ok' if self.holds else 'MISSED'})"
        detail = f"  {self.detail}" if self.detail else ""
        return f"{self.name:<58} {self.value:9.3f} {self.unit:<3}{target}{detail}"
