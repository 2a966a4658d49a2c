"""A permission question in the editor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from outrider.acp.calls import LONGEST_TITLE, fenced, new_call, on_one_line
from outrider.acp.client import Client
from outrider.acp.schema.client_requests import Option, RequestPermission
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.sizes import size_of_items
from outrider.acp.updates.state import CallState, Status, Text
from outrider.acp.updates.update import Update
from outrider.acp.v1 import ReadFile, fields_of
from outrider.acp.wire import ClosedError, WireError
from outrider.coding.permissions.question import Answer, Question

SEEN_WHOLE = 200
"""Characters of a command that can be seen in a title; nobody agrees to what they cannot see."""
MOST_ASKED = 65_536
"""Bytes of content up to which a question repeats it, for editors that show nothing else."""
ONCE, ALWAYS, NO = "once", "always", "no"


class EditorAsker:
    """Asks the person through the editor. An Ask."""

    def __init__(
        self,
        client: Client,
        session: Callable[[], str],
        engine: Callable[[], Engine],
        folder: Path,
        read: ReadFile,
        shown_id: Callable[[str], str],
    ) -> None:
        self._client = client
        self._session = session
        self._engine = engine
        self._folder = folder
        self._read = read
        self._shown_id = shown_id
        """The id by which the editor knows a call."""
        self._number = 0

    async def __call__(self, question: Question) -> Answer:
        """Show the question, and wait. An editor that cannot ask says no."""
        engine = self._engine()
        call = self._call(question)
        engine.flush()
        try:
            permission = await self._client.permit(self._request(call, question))
        except ClosedError:  # nobody was asked: it ends with the session, as cancelled
            never: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            return await never
        except WireError as error:
            return self._ended(engine, call, question, Answer("no", f"the editor could not ask: {error}"))
        outcome = permission.outcome
        if outcome.outcome == "selected" and outcome.option_id == ONCE:
            return self._ended(engine, call, question, Answer("once"))
        if outcome.outcome == "selected" and outcome.option_id == ALWAYS and question.always:
            return self._ended(engine, call, question, Answer("always"))
        return self._ended(engine, call, question, Answer("no"))

    def _call(self, question: Question) -> CallState:
        """The call as the editor knows it, and what is to be known of it. One of a sub-agent is announced for this."""
        call = new_call(question.call_id, question.tool, question.input, self._folder)
        if not question.asker:
            call = replace(call, id=self._shown_id(question.call_id))
            asked = self._remarked(call, question)
            self._engine().change(call.id, title=asked.title, content=asked.content)
            return asked
        self._number += 1
        call = replace(call, id=f"{question.call_id}-asked-{self._number}", title=f"{question.asker}: {call.title}")
        asked = self._remarked(call, question)
        self._engine().announce(asked)
        return asked

    def _remarked(self, call: CallState, question: Question) -> CallState:
        """The call with what else the person should know: after its content, or in its title if that is large.

        Content can only be replaced whole: a remark in it would have all of it sent again when the remark goes.
        """
        remarks = tuple(_remarks(question, self._folder))
        if self._engine().is_repeated(call.content):
            return replace(call, content=(*call.content, *remarks))
        said = " ".join(remark.text for remark in remarks)
        return replace(call, title=on_one_line(f"{call.title}: {said}", 2 * LONGEST_TITLE)) if said else call

    def _request(self, call: CallState, question: Question) -> RequestPermission:
        is_shown = size_of_items(call.content) <= MOST_ASKED or self._engine().is_repeated(call.content)
        known = Update(
            call.id,
            title=call.title,
            kind=call.kind,
            content=call.content if call.content and is_shown else UNSET,
            locations=call.locations or UNSET,
            raw_input=call.raw_input,
        )
        return RequestPermission(self._session(), fields_of(known, self._read), options_of(question))

    def _ended(self, engine: Engine, call: CallState, question: Question, answer: Answer) -> Answer:
        """The question goes out of the title. The call that was announced for the question alone ends with it."""
        if not question.asker:
            title = new_call(call.id, question.tool, question.input, self._folder).title
            if title != call.title:
                engine.change(call.id, title=title)
            return answer
        allowed = answer.verdict != "no"
        said = "Allowed." if allowed else "Not allowed."
        status: Status = "completed" if allowed else "failed"
        if engine.is_repeated(call.content):
            engine.finish(call.id, status, content=(*call.content, Text(said)))
        else:
            engine.finish(call.id, status, title=f"{call.title} {said}")
        return answer


def options_of(question: Question) -> list[Option]:
    """What the person can choose."""
    options = [Option(ONCE, "Allow", "allow_once")]
    if question.always:
        options.append(Option(ALWAYS, f"Always allow {', '.join(question.always)} here", "allow_always"))
    return [*options, Option(NO, "Reject", "reject_once")]


def _remarks(question: Question, folder: Path) -> Iterator[Text]:
    """What else the person should know before they answer."""
    command, path = question.input.get("command"), question.input.get("file_path")
    if question.tool == "Bash" and isinstance(command, str) and (len(command) > SEEN_WHOLE or "\n" in command):
        yield Text(fenced(command))
    if question.tool == "Write" and isinstance(path, str) and os.path.lexists(folder / os.path.expanduser(path)):
        yield Text("It replaces what the file has now.")
    if question.reason:
        yield Text(question.reason)
