"""AG-UI: front ends that speak this protocol run sessions with POST /ag-ui/run. A thread is a session."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from outrider.errors import AnsweredError, OutriderError
from outrider.log.log import Log
from outrider.log.questions import Answer, Question
from outrider.struct_types import described
from outrider.web.agui_events import AgUiEvents, interrupt
from outrider.web.api_requests import NewSession
from outrider.web.event_stream import stream_response
from outrider.web.http import RefusedError, Request, Response
from outrider.web.live_sessions import LiveSessions
from outrider.web.owners import Owners
from outrider.web.route import Route

Json = dict[str, Any]
ASK_LOOKS, LOOK_SECONDS = 100, 0.02
Id = Annotated[str, Meta(min_length=1, max_length=500)]


class AgUiMessage(msgspec.Struct, frozen=True):
    """A message of the client. Only the newest one is read: the session has the others."""

    role: str
    content: str | list[Json] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(str(each.get("text", "")) for each in self.content if each.get("type") == "text")
        return self.content or ""


class Resume(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to an interrupt."""

    interrupt_id: Id
    status: Literal["resolved", "cancelled"] = "resolved"
    payload: Any = None


class RunAgentInput(msgspec.Struct, frozen=True, rename="camel"):
    """A run. `forwardedProps` may have the folder, model and mode of a new coding session."""

    thread_id: Id
    run_id: Id
    messages: list[AgUiMessage]
    resume: list[Resume] | None = None
    forwarded_props: Any = None


class AgUi:
    """Runs sessions for front ends that speak AG-UI."""

    def __init__(self, log: Log, sessions: LiveSessions, owners: Owners) -> None:
        self._log, self._sessions, self._owners = log, sessions, owners

    def routes(self) -> Iterator[Route]:
        about = (
            "Run an agent, and stream the events of AG-UI. Questions end the run as interrupts, which `resume` answers."
        )
        yield Route(
            method="POST",
            path="/ag-ui/run",
            name="runAgent",
            about=about,
            handle=self._run,
            body=RunAgentInput,
            answer="text/event-stream",
        )

    async def _run(self, request: Request, given: RunAgentInput) -> Response:
        newest = given.messages[-1] if given.messages else None
        text = newest.text if newest and newest.role == "user" and not given.resume else ""
        if not text.strip() and not given.resume:
            raise RefusedError(422, "the newest message must be one of the user, with text")
        session = await self._session(request, given)
        self._owners.check_prompt(request.owner, session)
        events = await self._sessions.talk(session, text) if text else await self._resumed(session, given.resume or [])
        return stream_response(self._pieces(session, given, events))

    async def _session(self, request: Request, given: RunAgentInput) -> str:
        """Return the session of the thread, a new one if there is none. Threads of two owners are two sessions."""
        name = hashlib.sha256(f"{request.owner}\0{given.thread_id}".encode()).hexdigest()[:32]
        if not await asyncio.to_thread(self._log.summaries, [name]):
            props = given.forwarded_props if isinstance(given.forwarded_props, dict) else {}
            known = {name: props[name] for name in ("folder", "model", "mode") if props.get(name)}
            wanted = msgspec.convert(known, described(NewSession))
            metadata = {"thread": given.thread_id}
            wanted = msgspec.structs.replace(wanted, owner=request.owner, metadata=metadata)
            await self._sessions.begin(wanted, id=name, is_page=request.is_page)
        return name

    async def _resumed(self, session: str, answers: list[Resume]) -> AsyncIterator[Json]:
        for each in answers:
            question = await asyncio.to_thread(self._log.inbox.question, each.interrupt_id)
            root = await asyncio.to_thread(self._log.inbox.root_of, question.session) if question else ""
            if question is None or root != session:
                raise RefusedError(404, "there is no such interrupt in this thread")
            if not await asyncio.to_thread(
                self._log.inbox.answer, question.id, answer_of(question, each), "over AG-UI"
            ):
                raise AnsweredError("the interrupt was answered before, or nobody waits for it any more")
        return await self._sessions.talk(session, "")

    async def _pieces(self, session: str, given: RunAgentInput, events: AsyncIterator[Json]) -> AsyncIterator[bytes]:
        run = {"threadId": given.thread_id, "runId": given.run_id}
        yield _line({"type": "RUN_STARTED", **run})
        translated = AgUiEvents(given.run_id)
        ended: Json = {"type": "RUN_ERROR", "message": "the session was closed", "code": "closed"}
        try:
            async for event in events:
                for each in translated.of(event):
                    yield _line(each)
                live = self._sessions.get(session)
                if event.get("type") == "run_finished" or (live and live.has_dialogue and await self._waits(event)):
                    ended = await self._end(session, event, run)
                    break
        except OutriderError as error:
            ended = {"type": "RUN_ERROR", "message": str(error), "code": "error"}
        for each in translated.end():
            yield _line(each)
        yield _line(ended)

    async def _waits(self, event: Json) -> bool:
        """Return whether an event asks a person. It comes just before the inbox has the question."""
        question = _asked(event)
        for _ in range(ASK_LOOKS if question else 0):
            if await asyncio.to_thread(self._log.inbox.unanswered, [question]):
                return True
            await asyncio.sleep(LOOK_SECONDS)
        return False

    async def _end(self, session: str, event: Json, run: Json) -> Json:
        status = event.get("status", "waiting")
        if status == "done":
            return {"type": "RUN_FINISHED", **run, "result": event.get("text", ""), "outcome": {"type": "success"}}
        if status != "waiting":
            return {"type": "RUN_ERROR", "message": event.get("error") or f"the run ended: {status}", "code": status}
        found = await asyncio.to_thread(self._owners.questions)
        interrupts = [interrupt(each.question) for each in found if each.root == session]
        return {"type": "RUN_FINISHED", **run, "outcome": {"type": "interrupt", "interrupts": interrupts}}


def _asked(event: Json) -> str:
    """Return the question that the session or a sub-agent asks, or ""."""
    inner = event.get("event") if event.get("type") == "subagent_event" else event
    return str(inner["id"]) if isinstance(inner, dict) and inner.get("type") == "question_asked" else ""


def answer_of(question: Question, given: Resume) -> Answer:
    """Return the answer that a client gives: an option by its id, or yes or no, or what was filled in."""
    options = question.body.options
    payload = given.payload
    if isinstance(payload, dict) and "option" in payload and given.status == "resolved":
        return msgspec.convert(payload, described(Answer))
    is_yes = given.status == "resolved" and payload not in (False, None)
    if isinstance(payload, dict) and isinstance(approved := payload.get("approved"), bool):
        is_yes, payload = is_yes and approved, None
    chosen = next((each.id for each in options if each.allows == is_yes), options[0].id if options else "")
    return Answer(chosen, content=payload if is_yes and isinstance(payload, dict) else None)


def _line(event: Json) -> bytes:
    return b"data: " + msgspec.json.encode(event, enc_hook=str) + b"\n\n"
