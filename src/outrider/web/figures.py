"""Figures: cost and tokens by day, model and folder, the context of a session by turn, and evals."""

from __future__ import annotations

import csv
import io
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from outrider.errors import LogError, UnknownSessionError
from outrider.evals.figures import comparison_lines, figures_of
from outrider.evals.trial import Outcome, StoredEval, stored_evals
from outrider.log.log import Log
from outrider.log.usage_tables import Dimension, TurnUsage, UsageSums, day_of, named
from outrider.providers.resolution import window_of_name
from outrider.text.visible import safe_line, safe_lines
from outrider.web.api_answers import EvalDetails, EvalHead, EvalPage, EvalTask, EvalTrial

Json = dict[str, Any]
DIMENSIONS: dict[str, Dimension] = {"day": "quarter", "model": "model", "folder": "folder"}
INDEX_SECONDS = 0.05
"""How long one request indexes what is new. The page shows what there is, and asks again for the rest."""
PREPARE_SECONDS = 0.5
"""How long the server indexes at once when it starts."""
MOST_POINTS = 2_000
"""Turns in the plot of a session, and rows in its table."""


class Figures:
    """The sums of all sessions. The log has an index of them; messages are not read."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._is_closed = threading.Event()

    def by(self, dimension: str, *, days: float | None = None, seconds: float = threading.TIMEOUT_MAX) -> Json:
        """Return the sums by day, model or folder, sorted, and whether about `seconds` were enough to index all."""
        if dimension not in DIMENSIONS:
            raise ValueError(f"choose one of {', '.join(DIMENSIONS)}")
        since = day_of(time.time() - days * 86400).start if days else 0.0
        report = self._log.used(DIMENSIONS[dimension], since=since, seconds=seconds)
        found = named(report.sums)
        rows = [{"name": safe_lines(name) or "–", **_fields(found[name])} for name in sorted(found)]
        return {"rows": rows, "complete": report.progress.is_complete}

    def prepare(self) -> None:
        """Index the log in steps, so that the first plots are complete."""
        with suppress(LogError):  # the page says so when it asks
            while not self._is_closed.is_set() and not self.by("model", seconds=PREPARE_SECONDS)["complete"]:
                pass

    def close(self) -> None:
        """End `prepare` soon."""
        self._is_closed.set()


def _fields(sums: UsageSums) -> Json:
    """Return sums with the shares that the plots show."""
    return {
        "requests": sums.requests,
        "input_tokens": sums.input_tokens,
        "output_tokens": sums.output_tokens,
        "cached_tokens": sums.cached_tokens,
        "cached_share": sums.cached_share,
        "cost": sums.known_cost,
        "unpriced": sums.unpriced,
        "first_token": sums.first_token / sums.measured if sums.measured else None,
    }


def context_by_turn(log: Log, id: str) -> Json:
    """Return the tokens of the context after each turn of a session, with its compactions.

    `points` are for a plot: of a long session, the highest and the lowest of each stretch. `turns` are the newest.
    """
    summary = log.session(id)
    turns = log.turns(summary.id)
    return {
        "title": safe_lines(summary.title),
        "window": window_of_name(summary.model),
        "count": len(turns),
        "points": [[number, turn.tokens] for number, turn in outline(turns, MOST_POINTS)],
        "turns": list(turn_rows(turns, max(0, len(turns) - MOST_POINTS))),
    }


def turn_rows(turns: Sequence[TurnUsage], start: int = 0) -> Iterator[Json]:
    """Yield the rows of the table, from one of them on."""
    for number in range(start, len(turns)):
        seq, moment, tokens, is_compaction, cost = turns[number]
        row: Json = {"turn": number + 1, "seq": seq, "time": moment, "tokens": tokens}
        yield row | {"compacted": is_compaction, "cost": cost}


def outline(turns: Sequence[TurnUsage], most: int) -> list[tuple[int, TurnUsage]]:
    """Return numbered turns whose line looks as that of all: of each stretch the highest and the lowest.

    >>> [number for number, _ in outline([TurnUsage(0, 0.0, tokens, False, None) for tokens in (1, 5, 3, 2, 9, 4)], 4)]
    [1, 2, 4, 5]
    """
    numbered = list(enumerate(turns, 1))
    if len(numbered) <= most:
        return numbered
    length = -(-len(numbered) // (most // 2))
    kept: list[tuple[int, TurnUsage]] = []
    for start in range(0, len(numbered), length):
        stretch = sorted(numbered[start : start + length], key=lambda each: each[1].tokens)
        kept += sorted({stretch[0][0]: stretch[0], stretch[-1][0]: stretch[-1]}.values())
    return kept


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV. A text that a spreadsheet would take for a formula gets an apostrophe in front."""
    output = io.StringIO()
    writer = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(output, list(row), lineterminator="\r\n")
            writer.writeheader()
        writer.writerow({name: _harmless(value) for name, value in row.items()})
    return output.getvalue() or "name\r\n"


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def list_evals(log: Log) -> EvalPage:
    """Return the evals of a log with the figures of their models, the newest first."""
    return EvalPage([EvalHead(**_head(each)) for each in stored_evals(log)])


def one_eval(log: Log, name: str, against: str = "") -> EvalDetails:
    """Return an eval with its trials by task, compared with another if it is named. Raises UnknownSessionError."""
    found = _find(log, name)
    tasks: dict[str, list[EvalTrial]] = {}
    for each in sorted(found.outcomes, key=lambda outcome: (outcome.task, outcome.model, outcome.repeat)):
        tasks.setdefault(safe_line(each.task), []).append(_trial(each))
    lines = comparison_lines(found.outcomes, _find(log, against).outcomes) if against else ()
    rows = [EvalTask(task, trials) for task, trials in tasks.items()]
    return EvalDetails(**_head(found), tasks=rows, comparison=list(lines))


def _trial(outcome: Outcome) -> EvalTrial:
    return EvalTrial(
        model=safe_line(outcome.model),
        repeat=outcome.repeat,
        reward=outcome.reward,
        solved=outcome.is_solved,
        status=safe_line(outcome.status),
        turns=outcome.turns,
        seconds=outcome.seconds,
        session=outcome.session,
    )


def _find(log: Log, name: str) -> StoredEval:
    for each in stored_evals(log, name):
        return each
    raise UnknownSessionError(f"there is no eval {safe_line(name)!r} in this log")


def _head(found: StoredEval) -> dict[str, Any]:
    figures = [msgspec.structs.replace(each, model=safe_line(each.model)) for each in figures_of(found.outcomes)]
    return {"name": found.name, "title": safe_line(found.title), "updated": found.updated, "figures": figures}
