"""Ask a question in two places at once: in the dialogue of the front end, and in the log. The first answer wins.

The log decides: each answer is stored there unless another was stored before. So both sides agree, also if two people
answer in the same moment. A question is withdrawn when its turn is cancelled, and it ends with the process that asks:
when the session is resumed, the call is asked about again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.coding.front_end import Front
from outrider.coding.permissions.question import Answer, Ask, Mode, Question, mode_after, plan_verdict
from outrider.coding.remote.bodies import elicitation_body, permission_body, plan_body
from outrider.errors import LogError
from outrider.log.entries import Asked, Decided
from outrider.log.inbox import HeldInbox
from outrider.log.inbox_tables import InboxView
from outrider.log.questions import Answer as GivenAnswer
from outrider.log.questions import Body
from outrider.log.questions import Question as StoredQuestion

if TYPE_CHECKING:
    from outrider.mcp.elicitation import Elicitation, ElicitationAnswer, OnElicit

VERDICTS = {
    "once": "Allowed",
    "edits": "Allowed, with all edits in this session,",
    "always": "Always allowed",
    "no": "Denied",
    "never": "Denied for this session",
    "accept": "Answered",
    "decline": "Declined",
    "cancel": "Cancelled",
    "go": "Plan approved",
    "change": "Another plan wanted",
}


class RemoteQuestions:
    """Asks for one session."""

    def __init__(self, front: Front, folder: Path) -> None:
        self._front = front
        self._folder = folder
        self.inbox: HeldInbox | None = None
        """The inbox of the session, once it is open. Without it, only the front end asks."""
        self.note: Callable[[Asked | Decided], None] | None = None
        """Keeps questions and answers in the log of the session, once it is open."""
        self._waiting: dict[str, asyncio.Future[StoredQuestion]] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether a question waits for an answer."""
        return bool(self._waiting)

    def look(self, view: InboxView) -> None:
        """Take the answers that have come."""
        for name, waiting in list(self._waiting.items()):
            if self.inbox and not waiting.done() and (found := self.inbox.answered(view, name)):
                waiting.set_result(found)

    async def ask(self, question: Question, dialogue: Ask, mode: Mode) -> Answer:
        """Ask about a call or a plan."""

        async def here() -> GivenAnswer:
            answer = await dialogue(question)
            return GivenAnswer(answer.verdict, answer.words)

        body = plan_body(question) if question.is_plan else permission_body(question, self._folder, mode)
        given = await self._first(question.call_id, body, here())
        if question.is_plan:
            if (chosen := mode_after(given.option, mode)) != mode:
                self._front.use_mode(chosen)
            return Answer(plan_verdict(given.option), given.words)
        match given.option:
            case "edits":
                self._front.use_mode("edits")
                return Answer("once")
            case "once":
                return Answer("once")
            case "always":
                return Answer("always")
            case "never":
                return Answer("never")
        return Answer("no", given.words)

    async def elicit(self, question: Elicitation, dialogue: OnElicit) -> ElicitationAnswer:
        """Ask for an MCP server."""
        from outrider.mcp.elicitation import ElicitationAnswer

        async def here() -> GivenAnswer:
            answer = await dialogue(question)
            return GivenAnswer(answer.action, content=answer.content)

        given = await self._first("", elicitation_body(question), here())
        if given.option == "accept":
            return ElicitationAnswer("accept", given.content)
        return ElicitationAnswer("cancel" if given.option == "cancel" else "decline")

    async def _first(self, call_id: str, body: Body, dialogue: Coroutine[Any, Any, GivenAnswer]) -> GivenAnswer:
        """Return the answer that comes first. The log has the question, who answered it and how."""
        asked = Asked(os.urandom(8).hex(), call_id, msgspec.to_builtins(body))
        self._note(asked)
        here = asyncio.ensure_future(dialogue)
        given, by = GivenAnswer("withdrawn"), "nobody"
        try:
            given, by = await self._answer(call_id, body, here)
        finally:
            allowed = any(each.allows for each in body.options if each.id == given.option)
            self._note(Decided(allowed, by, call_id, asked.id, given.option))
            await _close(here)
        return given

    def _note(self, entry: Asked | Decided) -> None:
        if self.note:
            self.note(entry)

    async def _answer(self, call_id: str, body: Body, here: asyncio.Future[GivenAnswer]) -> tuple[GivenAnswer, str]:
        """Return the answer, and where it was given."""
        if self.inbox is None:
            return await here, self._front.place
        try:
            name = await self.inbox.ask(call_id, body)
        except LogError:  # it can still be asked here
            return await here, self._front.place
        return await self._first_answer(self.inbox, name, here)

    async def _first_answer(
        self, inbox: HeldInbox, name: str, here: asyncio.Future[GivenAnswer]
    ) -> tuple[GivenAnswer, str]:
        there = self._waiting[name] = asyncio.get_running_loop().create_future()
        inbox.look_soon()  # it may have been answered already
        try:
            await asyncio.wait((here, there), return_when=asyncio.FIRST_COMPLETED)
            if there.done():
                return await self._take(there.result(), here)
            given = here.result()
            with suppress(LogError):  # the user has answered here, and the session can go on
                if earlier := await inbox.answer(name, given, self._front.place):
                    return await self._take(earlier, here)
            return given, self._front.place
        except BaseException:
            inbox.withdraw(name)
            raise
        finally:
            del self._waiting[name]
            inbox.forget(name)

    async def _take(self, question: StoredQuestion, here: asyncio.Future[GivenAnswer]) -> tuple[GivenAnswer, str]:
        """Close the dialogue here, and show the answer that came from elsewhere."""
        await _close(here)
        assert question.answer
        self._front.answered(sentence(question))
        return question.answer, question.answered_by


async def _close(dialogue: asyncio.Future[GivenAnswer]) -> None:
    """Cancel a dialogue, and wait until it is gone from the screen."""
    if not dialogue.done():
        dialogue.cancel()
        await asyncio.wait([dialogue])
    if not dialogue.cancelled():
        dialogue.exception()  # whoever needed its outcome has it


def sentence(question: StoredQuestion) -> str:
    """Return how a question was answered, and where, in one line."""
    answer = question.answer
    assert answer
    words = f": {answer.words}" if answer.words else "."
    return f"{VERDICTS.get(answer.option, 'Answered')} {question.answered_by}{words}"
