"""A process that answers every question of a log, at the same moments as others of its kind.

python -m tests.batches.answerer LOG NAME ANSWERS

It appends a line to ANSWERS for each question: its id, and its own name if its answer was the first, else a dash.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from outrider import Allow, Log
from outrider.errors import AnsweredError, LogError

BEAT = 0.2


def answer(log: Log, name: str, answers: Path) -> None:
    """Answer what waits at the next beat of the clock, which all answerers share."""
    time.sleep(BEAT - time.time() % BEAT)
    for question in log.questions():
        try:
            log.answer(question.id, Allow(), by=name)
            first = name
        except AnsweredError:
            first = "-"
        with answers.open("a") as file:
            file.write(f"{question.id} {first}\n")


def main() -> None:
    place, name, answers = sys.argv[1:]
    with Log(place) as log:
        print("ready", flush=True)
        while True:
            try:
                answer(log, name, Path(answers))
            except LogError:  # the database is away
                time.sleep(BEAT)


if __name__ == "__main__":
    main()
