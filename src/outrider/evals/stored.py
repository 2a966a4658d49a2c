"""Evals that a log has: each trial's session knows which trial it was, and how it ended."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from outrider.errors import SessionHeldError, UnknownSessionError
from outrider.evals.trial import Outcome
from outrider.log.log import Log
from outrider.log.reader import LogReader
from outrider.log.session_filter import SessionFilter
from outrider.struct_types import described

EVAL = "eval"
"""The key of metadata whose value is the eval's name."""
MOST_SESSIONS = 20_000
"""Sessions of batches that are looked at, the newest first."""


class StoredEval(msgspec.Struct, frozen=True):
    """An eval, with the trials that have ended."""

    name: str
    updated: float
    outcomes: list[Outcome]

    @property
    def title(self) -> str:
        """The name of its results file."""
        return self.name.rpartition("-")[0]


def store(log: Log, name: str, outcome: Outcome) -> None:
    """Keep how a trial ended with its session. Again is as good as once."""
    told = {key: str(value) for key, value in msgspec.structs.asdict(outcome).items() if value is not None}
    with suppress(UnknownSessionError, SessionHeldError):  # it never began, or someone looks at it: the file has it
        log.annotate(outcome.session, metadata={**told, EVAL: name})


def stored_evals(log: LogReader, name: str = "") -> list[StoredEval]:
    """Return the evals of a log, the newest first, or the one with this name."""
    wanted = SessionFilter(origins=("batch",), metadata={EVAL: name} if name else {})
    found: dict[str, StoredEval] = {}
    for summary in log.sessions(MOST_SESSIONS, where=wanted):
        told = {"cost": None, **summary.metadata, "session": summary.id}
        with suppress(msgspec.MsgspecError, KeyError):  # other batches have none, and an import may say anything
            outcome = msgspec.convert(told, described(Outcome), strict=False)
            stored = StoredEval(summary.metadata[EVAL], summary.updated, [])
            found.setdefault(stored.name, stored).outcomes.append(outcome)
    return list(found.values())
