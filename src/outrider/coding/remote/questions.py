"""Ask a question in two places at once: in the dialogue of the front end, and in the log. The first answer wins.

The log stores questions with everything that the user must see. It decides: each answer is stored there unless another
was stored before. So both sides agree, also if two people answer in the same moment. A question is withdrawn when its
turn is cancelled. One about a call of the session waits also without the process that asked it; those of MCP servers
and sub-agents end with it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.coding.front_end import Front
from outrider.coding.permissions.question import ALL_EDITS, APPROVING, PLAN_ANSWERS, Answer, Ask, Mode, Question
from outrider.coding.toolbox import EXIT_PLAN
from outrider.coding.toolbox.titles import title
from outrider.errors import LogError
from outrider.log.entries import Asked
from outrider.log.inbox import HeldInbox
from outrider.log.inbox_tables import InboxView
from outrider.log.open_questions import decided
from outrider.log.questions import Answer as GivenAnswer
from outrider.log.questions import ElicitationQuestion, Option, PermissionQuestion, PlanQuestion, stored
from outrider.log.questions import Question as StoredQuestion

if TYPE_CHECKING:
    from outrider.mcp.elicitation import Elicitation, ElicitationAnswer, OnElicit
    from outrider.runtime.session import Session


EDIT_TOOLS = ("Edit", "Write")
MOST_COMPARED = 1_000_000
"""Pairs of lines that are compared for a diff. More could take minutes, and all else would wait."""


def permission_body(question: Question, folder: Path, mode: Mode) -> PermissionQuestion:
    is_command, call = question.tool == "Bash", (question.tool, question.input)
    return PermissionQuestion(
        tool=question.tool,
        input=question.input,
        title=title(question.tool, question.input, folder),
        reason=question.reason,
        access=str(question.input.get("access") or "read") if is_command else "",
        # The content of a new file is in the input already, and may be large.
        diff=question.diff or ("" if question.tool == "Write" else "\n".join(changed_lines(*call))),
        always=question.always,
        prefix=question.prefix,
        asker=question.asker,
        facts=question.facts,
        options=tuple(_permission_options(question, mode)),
    )


def plan_body(plan: str) -> PlanQuestion:
    return PlanQuestion(
        title=title(EXIT_PLAN, {"plan": plan}),
        plan=plan,
        options=tuple(
            Option(name, label, allows=name in APPROVING, takes_words=name == "change")
            for name, label in PLAN_ANSWERS.items()
        ),
    )


def elicitation_body(question: Elicitation) -> ElicitationQuestion:
    accept = "I have opened the page" if question.url else "Send"
    return ElicitationQuestion(
        server=question.server,
        message=question.message,
        schema=question.schema,
        url=question.url,
        options=(Option("accept", accept, allows=True), Option("decline", "Decline", allows=False)),
    )


def offers_edits(question: Question, mode: Mode) -> bool:
    """Return whether the mode `edits` would change the answer to questions like this."""
    return question.tool in EDIT_TOOLS and mode == "ask"


def shown_diff(body: PermissionQuestion) -> str:
    """Return all lines that the call removes and adds, or ""."""
    return body.diff or "\n".join(changed_lines(body.tool, body.input))


def changed_lines(tool: str, input: Mapping[str, Any], shown: Callable[[str], str] = str) -> list[str]:
    """Return the lines that a call removes and adds; none for other calls. `shown` changes the texts first.

    >>> changed_lines("Edit", {"old_string": "a = 1", "new_string": "a = 2"})
    ['-a = 1', '+a = 2']
    """
    if tool == "Write":
        return [f"+{line}" for line in _lines(input.get("content"), shown)]
    if tool != "Edit":
        return []
    old, new = (_lines(input.get(name), shown) for name in ("old_string", "new_string"))
    if len(old) * len(new) > MOST_COMPARED:
        return [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    import difflib  # few questions show a diff

    # Drop the file names and line numbers of the diff: the place in the file is not known yet.
    return [line for line in list(difflib.unified_diff(old, new, lineterm="", n=1))[2:] if not line.startswith("@@")]


def json_text(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value, enc_hook=repr), indent=2).decode()
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return repr(value)


def _permission_options(question: Question, mode: Mode) -> Iterator[Option]:
    yield Option("once", "Allow in this session" if question.is_for_session else "Allow once", allows=True)
    if offers_edits(question, mode):
        yield Option("edits", ALL_EDITS.capitalize(), allows=True)
    for name, meaning in question.lasting.items():
        yield Option(name, f"{meaning[0].upper()}{meaning[1:]}", allows=True)
    yield Option("no", "Deny", allows=False, takes_words=True)


def _lines(value: Any, shown: Callable[[str], str]) -> list[str]:
    text = shown("" if value is None else str(value))
    return text.removesuffix("\n").split("\n") if text else []


VERDICTS = {
    "once": "Allowed",
    "edits": "Allowed, with all edits in this session,",
    "always": "Always allowed",
    "prefix": "Always allowed, with commands that begin like it,",
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
        self.session: Session | None = None
        """Keeps questions and answers in its log, once it is open."""
        self._waiting: dict[str, asyncio.Future[StoredQuestion]] = {}

    @property
    def is_waiting(self) -> bool:
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

        body = permission_body(question, self._folder, mode)
        given = await self.pose(self._about_call(question, body), here())
        if given.option == "edits":
            self._front.use_mode("edits")
            return Answer("once")
        return meaning_of(given.option, given.words)

    async def elicit(self, question: Elicitation, dialogue: OnElicit) -> ElicitationAnswer:
        from outrider.mcp.elicitation import ElicitationAnswer

        async def here() -> GivenAnswer:
            answer = await dialogue(question)
            return GivenAnswer(answer.action, content=answer.content)

        given = await self.pose(Asked(_new_name(), "", stored(elicitation_body(question))), here())
        if given.option == "accept":
            return ElicitationAnswer("accept", given.content)
        return ElicitationAnswer("cancel" if given.option == "cancel" else "decline")

    def _about_call(self, question: Question, body: PermissionQuestion) -> Asked:
        """Return the entry of a question. One about a call of the session itself waits also without this process.

        If it waits already, since an earlier process or another front end, it is the same question.
        """
        text = stored(body)
        if self.session is None or question.asker or not self.session.has_open_call(question.call_id):
            return Asked(_new_name(), question.call_id, text)
        asked = Asked(_new_name(), question.call_id, text, "approval")
        return self.session.same_question(asked) or asked

    async def pose(self, asked: Asked, dialogue: Coroutine[Any, Any, GivenAnswer]) -> GivenAnswer:
        """Return the answer that comes first. The log has the question, who answered it and how."""
        session = self.session
        if session and not session.same_question(asked):
            session.note(asked)
        here = asyncio.ensure_future(dialogue)
        given, by = GivenAnswer("withdrawn"), "nobody"
        try:
            given, by = await self._answer(asked, here)
        finally:
            if session and not session.is_suspended:  # else the question stays
                signature = self.inbox.signature(asked, given, by) if self.inbox and asked.waits else ""
                session.note(decided(asked, given, by, 0.0, signature))
            await _close(here)
        return given

    async def _answer(self, asked: Asked, here: asyncio.Future[GivenAnswer]) -> tuple[GivenAnswer, str]:
        """Return the answer, and where it was given."""
        if self.inbox is None:
            return await here, self._front.place
        there = self._waiting[asked.id] = asyncio.get_running_loop().create_future()
        try:
            try:
                await self.inbox.ask(asked)
            except LogError:  # it can still be asked here
                self.inbox.withdraw(asked.id)
                return await here, self._front.place
            return await self._first_answer(self.inbox, asked.id, here, there)
        except BaseException:
            if not (self.session and self.session.is_suspended):
                self.inbox.withdraw(asked.id)
            raise
        finally:
            del self._waiting[asked.id]
            self.inbox.forget(asked.id)

    async def _first_answer(
        self, inbox: HeldInbox, name: str, here: asyncio.Future[GivenAnswer], there: asyncio.Future[StoredQuestion]
    ) -> tuple[GivenAnswer, str]:
        inbox.look_soon()  # it may have been answered already
        await asyncio.wait((here, there), return_when=asyncio.FIRST_COMPLETED)
        if there.done():
            return await self._take(there.result(), here)
        given = here.result()
        with suppress(LogError):  # the user has answered here, and the session can go on
            if earlier := await inbox.answer(name, given, self._front.place):
                return await self._take(earlier, here)
        return given, self._front.place

    async def _take(self, question: StoredQuestion, here: asyncio.Future[GivenAnswer]) -> tuple[GivenAnswer, str]:
        """Close the dialogue here, and show the answer that came from elsewhere."""
        await _close(here)
        assert question.answer
        self._front.answered(sentence(question))
        return question.answer, question.answered_by


def _new_name() -> str:
    return os.urandom(16).hex()


def meaning_of(option: str, words: str) -> Answer:
    """Return what the chosen option of a question about a call means."""
    match option:
        case "once" | "edits" | "always" | "prefix" | "never":
            return Answer(option)
    return Answer("no", words)


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
