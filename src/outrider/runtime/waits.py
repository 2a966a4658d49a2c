"""What a session waits for: questions whose answers come from outside, also after the process has ended."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from outrider.log.entries import Asked, Decided
from outrider.log.questions import (
    Answer,
    Body,
    Choice,
    ChoiceField,
    ChoiceQuestion,
    ElicitationQuestion,
    Option,
    PermissionQuestion,
    Question,
    ResultQuestion,
    body_of,
    question_id,
    result_question,
    stored,
)

if TYPE_CHECKING:
    from outrider.conversation.messages import ToolUseBlock
    from outrider.runtime.record import SessionRecord
    from outrider.tools.approval import Defer

Person: TypeAlias = Callable[[Asked, Body], Awaitable[Answer]]
"""Asks a person who is there. It keeps the question and the answer in the log."""

ALLOW_OR_DENY = (Option("once", "Allow", allows=True), Option("no", "Deny", allows=False, takes_words=True))


class Parked(BaseException):
    """Ends a call that waits for an answer. It is not an Exception: a tool that catches errors must not catch it."""

    def __init__(self, questions: Sequence[Asked]) -> None:
        super().__init__("the call waits for an answer")
        self.questions = questions


class Waits:
    """The open questions of one session. `SessionState` has them; the journal knows what was answered elsewhere."""

    def __init__(self, record: SessionRecord) -> None:
        self._record = record
        self.kept: set[str] = set()
        """The ids of those that other processes may see."""

    @property
    def open(self) -> list[Asked]:
        """The questions that wait also without a process."""
        return [asked for asked in self._record.state.questions.values() if asked.waits]

    def questions(self) -> tuple[Question, ...]:
        """Return the open questions, as those who answer see them."""
        own, now = self._record.id, time.time()
        return tuple(
            Question(asked.id, asked.session or own, asked.call_id, now, body)
            for asked in self.open
            if (body := body_of(asked.question))
        )

    def about(self, call_id: str, waits: str) -> tuple[Asked, Decided | None] | None:
        """Return the question for which a part of a call waits or waited, with its answer."""
        state = self._record.state
        found = state.asked_about(call_id, waits) if state.questions or state.answered else None
        return None if found and found[1] and not self._counts(found[0], found[1]) else found

    def answer_to(self, id: str) -> Decided | None:
        """Return how a question was answered."""
        found = self._record.state.answered.get(id)
        return found[1] if found and self._counts(*found) else None

    def _counts(self, asked: Asked, decided: Decided) -> bool:
        """Return whether an answer counts. One that allows something must be the user's."""
        return not decided.allowed or self._record.journal.proves(asked, decided)

    async def ask(self, questions: Sequence[Asked]) -> None:
        """Store questions, then let other processes answer them. One that waits already is not stored again."""
        new = [each for each in questions if each.id not in self._record.state.questions]
        if new:
            await self._record.append(*new)
        await self._keep(questions)

    async def _keep(self, questions: Sequence[Asked]) -> None:
        for each in questions:
            if not each.session and each.id not in self.kept:  # a sub-agent's own session keeps its questions
                await self._record.journal.ask(each)
                self.kept.add(each.id)

    async def take(self) -> None:
        """Store the answers that have come, and what was not answered in time."""
        if questions := self.open:
            await self._keep(questions)  # a kill may have come before that
            for decided in await self._record.journal.decisions(questions):
                await self._record.append(decided)
        await self.settle()

    async def settle(self) -> None:
        """Let the questions go that were answered, or that nothing waits for any more."""
        if gone := self.kept - self._record.state.questions.keys():
            await self._record.journal.give_up(sorted(gone))
            self.kept -= gone


def approval_of(use: ToolUseBlock, key: str, defer: Defer) -> Asked:
    """Return the question whether a call may run."""
    given: Any = defer.question
    if not isinstance(given, msgspec.Struct):
        named = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in use.input.items())
        given = PermissionQuestion(
            tool=use.name,
            input=use.input,
            title=f"{use.name}({named[:200]})",
            reason=str(given),
            options=ALLOW_OR_DENY,
            deadline=deadline_in(defer.seconds),
        )
    question = stored(given)
    return Asked(question_id(key, "approval", question), use.id, question, "approval")


def result_of(use: ToolUseBlock, key: str, defer: Defer) -> Asked:
    """Return the question for the result of a call, which comes from outside."""
    title = str(defer.question) or f"the result of {use.name}"
    body = ResultQuestion(tool=use.name, input=use.input, title=title, deadline=deadline_in(defer.seconds))
    return Asked(result_question(key), use.id, stored(body), "result")


def deadline_in(seconds: float | None) -> float | None:
    """Return the moment in so many seconds."""
    return None if seconds is None else time.time() + seconds


def question_for(
    tool: str,
    text: str,
    choices: Sequence[str],
    schema: Mapping[str, Any] | None,
    multiple: bool,
    seconds: float | None,
) -> ChoiceQuestion | ElicitationQuestion:
    """Return what a tool asks a person: a choice, free text, or a form."""
    deadline = deadline_in(seconds)
    if schema is not None:
        options = (Option("accept", "Send", allows=True), Option("decline", "Decline", allows=False))
        return ElicitationQuestion(server=tool, message=text, schema=dict(schema), options=options, deadline=deadline)
    offered = tuple(map(Choice, choices))
    field = ChoiceField(key="answer", text=text, choices=offered, multiple=multiple, own_words=not choices)
    return ChoiceQuestion(questions=(field,), deadline=deadline)


def words_of(body: ChoiceQuestion | ElicitationQuestion, answer: Answer) -> Any:
    """Return what was answered; None if nothing was."""
    content = answer.content
    return content if content is None or isinstance(body, ElicitationQuestion) else content.get("answer")
