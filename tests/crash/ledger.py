"""The record that a child process leaves: lines in files, written at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

_open, _write = os.open, os.write  # as they are before `points` watches them


class Ledger:
    """A file of JSON lines. Each says which life of the session it belongs to, and may be written by any thread."""

    def __init__(self, folder: Path, name: str, life: int) -> None:
        self._handle = _open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._life = life

    def write(self, **fields: Any) -> None:
        """One line, in one call to the system. It begins on a line of its own, even after one that was cut off."""
        _write(self._handle, b"\n" + msgspec.json.encode({"life": self._life, **fields}) + b"\n")


def lines_of(folder: Path, name: str, life: int | None = None) -> list[dict[str, Any]]:
    """The whole lines of all lives, or of one. One that a kill cut off does not count."""
    return [line for line in _lines(folder / f"{name}.jsonl") if life in (None, line["life"])]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().splitlines() if path.exists() else ():
        if line:
            try:
                yield msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue
