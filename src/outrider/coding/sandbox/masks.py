"""How bubblewrap covers secrets: one by one, or a folder of many as a whole, with its other entries shown.

For bwrap, each cover costs more than the one before: 50 take about 20 ms, 200 take 120 ms and 1,000 take 3 seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec

MASKS = 200
"""More covers than these are not made."""
ALONE = 10
"""A folder with more secrets than these is covered as a whole, if it has fewer other entries."""
TOO_MANY = (
    f"there are more than {MASKS} secrets in different places, and no more are masked, so the command may be able to "
    "read one; put them into few folders that hold nothing else to avoid this"
)


class Masks(msgspec.Struct, frozen=True):
    """What is covered."""

    secrets: tuple[str, ...]
    """Covered one by one."""
    folders: dict[str, tuple[str, ...]]
    """Covered as a whole, with the entries that are shown."""
    incomplete: str = ""
    """Why a secret is left uncovered, or ""."""

    @property
    def covered(self) -> tuple[str, ...]:
        """The paths of the covers."""
        return (*self.secrets, *self.folders)


def plan_masks(secrets: Iterable[str], working: Sequence[str]) -> Masks:
    """Return how to cover these secrets. Places with few of them come first, and no working folder is covered."""
    groups: dict[str, list[str]] = {}
    for path in secrets:
        groups.setdefault(os.path.dirname(path), []).append(path)
    single: list[str] = []
    folders: dict[str, tuple[str, ...]] = {}
    left = MASKS
    for folder, paths in sorted(groups.items(), key=lambda item: len(item[1])):
        shown = _others(folder, paths) if len(paths) > ALONE and not _holds_any(folder, working) else None
        whole = shown is not None and len(shown) < len(paths)
        if whole and shown is not None and len(shown) < left:
            folders[folder] = shown
            left -= 1 + len(shown)
        else:
            single += paths[:left]
            left -= len(paths)
        if left < 0:
            return Masks(tuple(single), folders, TOO_MANY)
    return Masks(tuple(single), folders)


def _others(folder: str, secrets: Sequence[str]) -> tuple[str, ...] | None:
    try:
        return tuple(sorted({f"{folder}/{name}" for name in os.listdir(folder)} - set(secrets)))
    except OSError:
        return None


def _holds_any(folder: str, working: Sequence[str]) -> bool:
    return any(f"{each}/".startswith(f"{folder.rstrip('/')}/") for each in working)
