"""Asks the user for permission through `session/request_permission`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from outrider.acp.client import AskingSession
from outrider.acp.content import ReadFile, to_tool_call_fields
from outrider.acp.schema import PermissionOption, RequestPermissionRequest
from outrider.acp.tool_calls import fenced, new_call, single_line
from outrider.acp.updates.call_state import CallState, Status, Text, Update, size_of_items
from outrider.coding.permissions.question import PLAN_ANSWERS, Answer, Question, plan_verdict
from outrider.coding.permissions.rules import at_any_level, meaning_of
from outrider.coding.remote.questions import EDIT_TOOLS, json_text
from outrider.jsonrpc import RpcError
from outrider.log.questions import PermissionQuestion
from outrider.runtime.events import QuestionAnswered, QuestionAsked
from outrider.struct_types import described
from outrider.text.visible import revealed, revealed_line

VISIBLE_COMMAND = 200
"""Characters of a command that a title shows; a longer command is shown in the content, so that the user sees all."""
VISIBLE_ARGUMENTS = 40
"""Characters of the arguments of other calls that a title shows."""
MAX_SHOWN = 200_000
"""Characters of a command or of arguments that a request shows. It says how many it leaves out."""
MAX_REPEATED_CONTENT = 65_536
"""Bytes of content up to which a request repeats it, for editors that show nothing but the request."""
_ASKED = "-asked-"
"""Part of the id of a call that is announced for a request alone."""
ALLOW_ONCE, REJECT, REJECT_ALWAYS = "once", "no", "never"
_PLAN_KINDS = {"go": "allow_once", "edits": "allow_always", "change": "reject_once", "no": "reject_once"}


class PermissionRequester:
    """Asks the user through the editor. Implements `Ask`."""

    def __init__(
        self, session: AskingSession, folder: Path, read_attachment: ReadFile, tool_call_id: Callable[[Question], str]
    ) -> None:
        """`tool_call_id` returns the id by which the editor knows the call of a question, or "" if that is no call."""
        self._session, self._folder = session, folder
        self._read_attachment, self._tool_call_id = read_attachment, tool_call_id
        self._own_calls = 0
        self._replayed: dict[str, tuple[CallState, Question]] = {}
        """The stored questions that are shown and have no answer yet."""

    async def __call__(self, question: Question) -> Answer:
        """Send the request and return the answer. If the editor cannot ask, the answer is no."""
        call = self._show_call(question)
        self._session.engine.flush()
        try:
            answer = await self._request(call, question)
        except asyncio.CancelledError:  # the turn was cancelled, or the question was answered elsewhere
            self._restore_call(call, question, "Withdrawn.", is_allowed=False)
            raise
        is_allowed = answer.verdict not in ("no", "never", "change")
        self._restore_call(call, question, "Allowed." if is_allowed else "Not allowed.", is_allowed=is_allowed)
        return answer

    def replay(self, event: QuestionAsked | QuestionAnswered) -> None:
        """Show a stored question that is about no call, and its answer, as they were shown live."""
        if isinstance(event, QuestionAnswered):
            if shown := self._replayed.pop(event.id, None):
                words = "Allowed." if event.allowed else "Withdrawn." if event.by == "nobody" else "Not allowed."
                self._restore_call(*shown, words, is_allowed=event.allowed)
            return
        try:
            body = msgspec.convert(event.question, described(PermissionQuestion))
        except msgspec.ValidationError:  # a question of a server, or an imported log says anything
            return
        question = Question(event.call_id, body.tool, body.input, body.reason, body.always, body.asker)
        if body.asker and not self._tool_call_id(question):
            self._replayed[event.id] = self._show_call(question), question

    async def _request(self, call: CallState, question: Question) -> Answer:
        try:
            response = await self._session.client.request_permission(self._request_for(call, question))
        except RpcError as error:
            return Answer("no", f"the editor could not ask: {error}")
        if response.outcome.outcome != "selected" and question.in_background:  # a cancelled turn leaves it at work
            return Answer("no", "they cancelled the turn before they answered")
        selected = response.outcome.option_id if response.outcome.outcome == "selected" else REJECT
        if question.is_plan:
            return Answer(plan_verdict(selected))
        if selected == ALLOW_ONCE:
            return Answer("once")
        if selected == REJECT_ALWAYS and question.always:
            return Answer("never")
        return next((Answer(name) for name in question.lasting if name == selected), Answer("no"))

    def _show_call(self, question: Question) -> CallState:
        """Show the call with the remarks of the request. What is no call of its own is announced for the request."""
        call = new_call(question.call_id, question.tool, question.input, self._folder)
        if question.asker:
            call = replace(call, title=f"{single_line(question.asker)}: {call.title}")
        if known := self._tool_call_id(question):
            call = self._with_remarks(replace(call, id=known), question)
            self._session.engine.change(call.id, title=call.title, content=call.content)
            return call
        self._own_calls += 1
        call = self._with_remarks(replace(call, id=f"{question.call_id}{_ASKED}{self._own_calls}"), question)
        self._session.engine.announce(call)
        return call

    def _with_remarks(self, call: CallState, question: Question) -> CallState:
        """Add the remarks after the content; to the title if the content is large.

        Content can only be replaced as a whole: to remove a remark from it would send all of it again.
        """
        remarks = tuple(_remarks(question, self._folder))
        if self._session.engine.is_small(call.content):
            return replace(call, content=(*call.content, *remarks))
        text = " · ".join(remark.text for remark in remarks).replace("\n", " ")
        return replace(call, title=f"{call.title}: {text}") if text else call

    def _request_for(self, call: CallState, question: Question) -> RequestPermissionRequest:
        repeats = size_of_items(call.content) <= MAX_REPEATED_CONTENT or self._session.engine.is_small(call.content)
        update = Update(
            call.id,
            title=call.title,
            kind=call.kind,
            content=call.content if call.content and repeats else UNSET,
            locations=call.locations or UNSET,
            raw_input=call.raw_input,
        )
        fields = to_tool_call_fields(update, self._read_attachment)
        return RequestPermissionRequest(self._session.id, fields, permission_options(question))

    def _restore_call(self, call: CallState, question: Question, text: str, *, is_allowed: bool) -> None:
        """Remove the remarks from the title. Finish a call that was announced for the request alone."""
        engine = self._session.engine
        if not call.id.startswith(f"{question.call_id}{_ASKED}"):
            title = new_call(call.id, question.tool, question.input, self._folder).title
            if title != call.title:
                engine.change(call.id, title=title)
            return
        status: Status = "completed" if is_allowed else "failed"
        if engine.is_small(call.content):
            engine.finish(call.id, status, content=(*call.content, Text(text)))
        else:
            engine.finish(call.id, status, title=f"{call.title} {text}")


def permission_options(question: Question) -> list[PermissionOption]:
    """Return the options that the user can choose from."""
    if question.is_plan:
        return [PermissionOption(name, label, _PLAN_KINDS[name]) for name, label in PLAN_ANSWERS.items()]
    allow = PermissionOption(ALLOW_ONCE, "Allow", "allow_once")
    reject = PermissionOption(REJECT, "Reject", "reject_once")
    if not question.always:
        return [allow, reject]
    never = meaning_of(at_any_level(question.always))
    return [
        allow,
        *(
            PermissionOption(name, revealed_line(f"{text[0].upper()}{text[1:]}"), "allow_always")
            for name, text in question.lasting.items()
        ),
        reject,
        PermissionOption(REJECT_ALWAYS, f"Never in this session: {revealed_line(never)}", "reject_always"),
    ]


def _is_in_title(question: Question) -> bool:
    """Return whether the title, the diff or the plan shows the whole call."""
    if question.tool in EDIT_TOOLS or question.is_plan:
        return True
    if question.tool == "Bash" and isinstance(command := question.input.get("command"), str):
        return len(command) <= VISIBLE_COMMAND and revealed_line(command) == command
    return len(question.input) <= 1 and len(str(question.input)) <= VISIBLE_ARGUMENTS


def _whole(question: Question) -> str:
    """Return the command, or all arguments; cut with a note where no editor would show more."""
    command = question.input.get("command") if question.tool == "Bash" else None
    shown = command if isinstance(command, str) else json_text(question.input)
    more = len(shown) - MAX_SHOWN
    return revealed(shown[:MAX_SHOWN]) + (f"\n… [{more:,} more characters are not shown]" if more > 0 else "")


def _remarks(question: Question, folder: Path) -> Iterator[Text]:
    """Yield what the user should know before deciding."""
    path = question.input.get("file_path")
    if not _is_in_title(question):
        yield Text(fenced(_whole(question)))
    if question.facts:
        yield Text(revealed_line(" · ".join(question.facts)))
    if question.tool == "Write" and isinstance(path, str) and os.path.lexists(folder / os.path.expanduser(path)):
        yield Text("This replaces the content of the file.")
    if question.reason and not question.is_plan:
        yield Text(revealed(question.reason))
