"""Questions for which a session waits without a process: asked by its holder, answered from anywhere, taken later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from outrider.log.entries import Asked, Decided
from outrider.log.inbox_tables import InboxTables, QuestionRow
from outrider.log.questions import Answer, body_of, shown_text
from outrider.log.signer import Signer

LATE = "deadline"
"""The answer of a question that nobody has answered in time."""


class OpenQuestions:
    """Those of one session, for its holder. The log has each as an entry first: only what it says there counts."""

    def __init__(self, number: int, fence: int, tables: InboxTables, signer: Signer) -> None:
        self._number, self._fence = number, fence
        self._tables = tables
        self._signer = signer

    async def ask(self, asked: Asked) -> None:
        """Let other processes see a question and answer it. One that waits already is left as it is."""
        text = shown_text(asked.question)
        await self._tables.ask(self._number, self._fence, asked.id, asked.call_id, text, lasting=True)

    async def decisions(self, questions: Iterable[Asked]) -> list[Decided]:
        """Return how those of the questions were decided that have an answer, or whose deadline has passed.

        An answer that is not signed with the user's key, for the question as the session asked it, is removed.
        """
        asked = {each.id: each for each in questions}
        rows = await asyncio.to_thread(self._tables.asked, list(asked))
        found = {row.id: decided for row in rows if (decided := self._decided(asked[row.id], row))}
        now = time.time()
        late = (each for each in asked.values() if each.id not in found and is_late(each, now))
        return [*found.values(), *map(too_late, late)]

    def _decided(self, asked: Asked, row: QuestionRow) -> Decided | None:
        if row.answer is None:
            return None
        found = self._signer.answer(row._replace(body=shown_text(asked.question)))
        if found is None:
            self._tables.reject(row.id, row.answer)
            return None
        answer, signature = found
        return decided(asked, answer, row.answered_by, row.answered or 0.0, signature)

    def proves(self, asked: Asked, decided: Decided) -> bool:
        """Return whether the user's key has signed this answer to this question."""
        answer = Answer(decided.answer, decided.words, decided.content, decided.input)
        return self._signer.proves(decided.signature, asked.id, shown_text(asked.question), answer, decided.by)

    async def give_up(self, ids: Sequence[str]) -> None:
        """Let questions end with this holder: their answers were taken, or nothing waits for them any more."""
        await self._tables.give_up(self._number, self._fence, ids)


def decided(asked: Asked, answer: Answer, by: str, at: float, signature: str = "") -> Decided:
    """Return the entry for an answer."""
    body = body_of(asked.question)
    return Decided(
        any(each.allows for each in body.options if each.id == answer.option) if body else False,
        by,
        asked.call_id,
        asked.id,
        answer.option,
        answer.input,
        answer.words,
        answer.content,
        at,
        signature,
    )


def is_late(asked: Asked, now: float) -> bool:
    """Return whether the deadline of a question has passed."""
    deadline = asked.question.get("deadline")
    return isinstance(deadline, int | float) and deadline <= now


def too_late(asked: Asked) -> Decided:
    """Return the entry for a question whose deadline has passed."""
    return Decided(False, "nobody: the deadline has passed", asked.call_id, asked.id, LATE)
