"""Evals for the page: their figures, each task's trials, and a comparison."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.errors import UnknownSessionError
from outrider.evals.figures import comparison_lines, figures_of
from outrider.evals.trial import Outcome, StoredEval, stored_evals
from outrider.log.log import Log
from outrider.text.visible import safe_line
from outrider.web.api_answers import EvalDetails, EvalHead, EvalPage, EvalTask, EvalTrial


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
