"""Figures for the plots: cost and tokens by day, model and folder, and the context of a session by turn."""

from __future__ import annotations

import csv
import io
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from outrider.log.log import Log
from outrider.log.used import Used
from outrider.web.session_head import window
from outrider.web.visible import visible

Json = dict[str, Any]
Key = tuple[str, str, str]
"""A day, a model and a folder."""
DIMENSIONS = ("day", "model", "folder")
OVERLAP_SECONDS = 5.0
"""Sessions that were changed this long before the last reading are read again: clocks of processes differ a little."""


class Sums(msgspec.Struct):
    """What was used by some requests."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    first_token: float = 0.0
    measured: int = 0
    """The requests whose time to the first token is known."""

    def add(self, used: Used) -> None:
        """Add a request."""
        self.requests += 1
        self.input_tokens += used.usage.input_tokens
        self.output_tokens += used.usage.output_tokens
        self.cached_tokens += used.usage.cached_tokens
        self.cost += used.usage.cost or 0.0
        if used.first_token is not None:
            self.first_token += used.first_token
            self.measured += 1

    def merge(self, other: Sums) -> None:
        """Add other sums."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def fields(self) -> Json:
        """Return the sums with the shares that the plots show."""
        return {
            "requests": self.requests,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "cached_share": self.cached_tokens / self.input_tokens if self.input_tokens else None,
            "cost": self.cost,
            "first_token": self.first_token / self.measured if self.measured else None,
        }


class Figures:
    """The sums of all sessions. Only sessions that changed are read again; messages are never kept."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._sessions: dict[str, dict[Key, Sums]] = {}
        self._read_at = 0.0
        self._reading = threading.Lock()

    def by(self, dimension: str, *, days: float | None = None) -> list[Json]:
        """Return the sums by day, by model or by folder, in order of their names."""
        if dimension not in DIMENSIONS:
            raise ValueError(f"choose one of {', '.join(DIMENSIONS)}")
        place = DIMENSIONS.index(dimension)
        first = _day(time.time() - days * 86400) if days else ""
        with self._reading:
            self._update()
            found: dict[str, Sums] = {}
            for sums in self._sessions.values():
                for key, each in sums.items():
                    if key[0] >= first:
                        found.setdefault(key[place], Sums()).merge(each)
        return [{"name": visible(name) or "–", **found[name].fields()} for name in sorted(found)]

    def _update(self) -> None:
        began = time.time()
        for summary, used in self._log.used_since(self._read_at - OVERLAP_SECONDS):
            self._sessions[summary.id] = _sums(used, summary.model, summary.folder)
        self._read_at = began


def _sums(used: Iterable[Used], model: str, folder: str) -> dict[Key, Sums]:
    found: dict[Key, Sums] = {}
    for each in used:
        found.setdefault((_day(each.time), each.model or model, folder), Sums()).add(each)
    return found


def _day(moment: float) -> str:
    try:
        return time.strftime("%Y-%m-%d", time.localtime(moment))
    except (OverflowError, ValueError, OSError):  # a damaged time
        return ""


def context_by_turn(log: Log, id: str) -> Json:
    """Return the tokens of the context after each turn of a session, with its compactions."""
    summary = log.session(id)
    turns: list[Json] = []
    for each in log.used(summary.id):
        tokens = each.tokens_after if each.kind == "compacted" else each.usage.total_tokens
        if each.kind != "attempt_failed":
            point: Json = {"turn": len(turns) + 1, "seq": each.seq, "time": each.time, "tokens": tokens}
            turns.append(point | {"compacted": each.kind == "compacted", "cost": each.usage.cost})
    return {"title": visible(summary.title), "window": window(summary.model), "turns": turns}


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV. A text that a spreadsheet would take for a formula gets an apostrophe in front."""
    found = list(rows)
    output = io.StringIO()
    writer = csv.DictWriter(output, list(found[0]) if found else ["name"], lineterminator="\r\n")
    writer.writeheader()
    for row in found:
        writer.writerow({name: _harmless(value) for name, value in row.items()})
    return output.getvalue()


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
