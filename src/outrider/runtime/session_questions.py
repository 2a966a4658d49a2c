"""What a session asks: questions that wait for an answer, and a person who is there to be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outrider.errors import AnsweredError
from outrider.log.entries import Asked, Decided
from outrider.runtime.session_base import SessionBase

if TYPE_CHECKING:
    from outrider.log.questions import Question
    from outrider.runtime.waits import Person


class SessionQuestions(SessionBase):
    """The questions of a session, and their answers."""

    @property
    def questions(self) -> tuple[Question, ...]:
        """What the session waits for: questions that `answer` or `log.answer` answers."""
        return self._waits.questions()

    async def answer(self, id: str, answer: Any, *, by: str = "") -> None:
        """Answer a question for which the session waits: Allow(), Deny("…"), a choice, a text, a mapping, a result.

        The first answer counts, wherever it is given. The next `run()` goes on with it. Raises AnsweredError, and
        ValidationError if the question cannot be answered so.
        """
        asked = self._record.state.questions.get(id)
        if asked is None or not asked.waits:
            waiting = ", ".join(each.id for each in self._waits.open) or "none"
            raise AnsweredError(f"the session does not wait for the question {id[:40]!r}; questions: {waiting}")
        await self._record.journal.answer(asked, answer, by or getattr(answer, "by", "") or "a program")

    def attend(self, person: Person) -> None:
        """Let a person who is there be asked, from now on. Without one, calls that have to ask wait."""
        self._change_environment(person=person)

    def has_open_call(self, call_id: str) -> bool:
        """Return whether a call of the newest reply has no result yet."""
        return any(call.id == call_id for call in self._record.state.open_calls)

    def same_question(self, asked: Asked) -> Asked | None:
        """Return the question that waits already, if it is the same one about the same call."""
        waiting = self._record.state.questions.values() if asked.waits else ()
        new = asked.call_id, asked.question, asked.waits
        return next((each for each in waiting if (each.call_id, each.question, each.waits) == new), None)

    def note(self, entry: Asked | Decided) -> None:
        """Keep a question, or how it was decided, in the log. It is on disk before what follows from it."""
        self._record.write(entry)
