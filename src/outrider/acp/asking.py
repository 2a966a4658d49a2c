"""A permission question in the editor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from outrider.acp.calls import fenced, new_call
from outrider.acp.client import Client
from outrider.acp.schema.asked import Option, Permission, RequestPermission
from outrider.acp.v1 import ReadFile, fields_of
from outrider.acp.wire import ClosedError, WireError
from outrider.permissions.question import Answer, Question
from outrider.updates.engine import Engine
from outrider.updates.state import CallState, Text
from outrider.updates.update import Update

SEEN_WHOLE = 200
"""Characters of a command that can be seen in a title; nobody agrees to what they cannot see."""
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
            permission = await self._permission(call, question)
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

    async def _permission(self, call: CallState, question: Question) -> Permission:
        return await self._client.permit(self._request(call, question))

    def _call(self, question: Question) -> CallState:
        """The call as the editor knows it, and what is to be known of it. One of a sub-agent is announced for this."""
        call = new_call(question.call_id, question.tool, question.input, self._folder)
        call = replace(call, content=(*call.content, *_remarks(question, self._folder)))
        if not question.asker:
            call = replace(call, id=self._shown_id(question.call_id))
            self._engine().change(call.id, content=call.content)
            return call
        self._number += 1
        asked = replace(call, id=f"{question.call_id}-asked-{self._number}", title=f"{question.asker}: {call.title}")
        self._engine().announce(asked)
        return asked

    def _request(self, call: CallState, question: Question) -> RequestPermission:
        known = Update(
            call.id,
            title=call.title,
            kind=call.kind,
            content=call.content or UNSET,
            locations=call.locations or UNSET,
            raw_input=call.raw_input,
        )
        return RequestPermission(self._session(), fields_of(known, self._read), options_of(question))

    def _ended(self, engine: Engine, call: CallState, question: Question, answer: Answer) -> Answer:
        """The call that was announced for the question alone ends with it."""
        if question.asker:
            allowed = answer.verdict != "no"
            said = Text("Allowed." if allowed else "Not allowed.")
            engine.finish(call.id, "completed" if allowed else "failed", content=(*call.content, said))
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
