"""AG-UI (https://docs.ag-ui.com): front ends that speak it run sessions with POST /ag-ui/run. A thread is a session."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from outrider.coding.remote.questions import json_text
from outrider.errors import AnsweredError, OutriderError
from outrider.log.log import Log
from outrider.log.questions import Answer, ElicitationQuestion, Question
from outrider.struct_types import described
from outrider.web.api_requests import NewSession
from outrider.web.http import RefusedError, Request, Response, Route, post, stream_response
from outrider.web.live_sessions import LiveSessions
from outrider.web.owners import Owners

Json = dict[str, Any]
_CUSTOM = ("notice", "retrying", "tool_progress", "compaction_started", "compacted", "model_switched", "handed_off")
"""Events that AG-UI has no name for. They are CUSTOM, with their own names."""


class AgUiEvents:
    """Translates the events of one run. What begins also ends, whatever the run does."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._count = 0
        self._text = self._reasoning = ""
        """The ids of the messages that are open."""
        self._said = ""
        """The id of the text of this reply, to which its calls belong."""
        self._calls: set[str] = set()
        self._seen: set[str] = set()

    def of(self, event: Json) -> Iterator[Json]:
        """Yield the events for one of ours."""
        match event:
            case {"type": "text_delta", "text": str(text)} if text:
                yield from self._say(text)
            case {"type": "thinking_delta", "text": str(text)} if text:
                yield from self._think(text)
            case {"type": "tool_call_delta", "call_id": str(id), "name": str(name), "arguments": str(arguments)}:
                yield from self._call(id, name, arguments)
            case {"type": "message_added", "message": {"role": "assistant", "content": list(blocks)}}:
                yield from self._added(blocks)
            case {"type": "tool_finished", "call_id": str(id), "result": dict(result)}:
                content = "\n".join(each.get("text", "") for each in result.get("content", ()) if "text" in each)
                name = self._new_id()
                yield _event("TOOL_CALL_RESULT", messageId=name, toolCallId=id, content=content, role="tool")
            case {"type": "reply_discarded"}:
                yield from self.end()
                yield _event("CUSTOM", name="reply_discarded", value=event)
            case {"type": str(kind)} if kind in _CUSTOM:
                yield _event("CUSTOM", name=kind, value=event)

    def end(self) -> Iterator[Json]:
        """End the messages and calls that are open."""
        if self._reasoning:
            yield _event("REASONING_MESSAGE_END", messageId=self._reasoning)
            yield _event("REASONING_END", messageId=self._reasoning)
        if self._text:
            yield _event("TEXT_MESSAGE_END", messageId=self._text)
        for each in sorted(self._calls):
            yield _event("TOOL_CALL_END", toolCallId=each)
        self._text = self._reasoning = ""
        self._calls.clear()

    def _new_id(self) -> str:
        self._count += 1
        return f"{self._run}-{self._count}"

    def _say(self, text: str) -> Iterator[Json]:
        if not self._text:
            yield from self.end()
            self._text = self._said = self._new_id()
            yield _event("TEXT_MESSAGE_START", messageId=self._text, role="assistant")
        self._seen.add("text")
        yield _event("TEXT_MESSAGE_CONTENT", messageId=self._text, delta=text)

    def _think(self, text: str) -> Iterator[Json]:
        if not self._reasoning:
            yield from self.end()
            self._reasoning = self._new_id()
            yield _event("REASONING_START", messageId=self._reasoning)
            yield _event("REASONING_MESSAGE_START", messageId=self._reasoning, role="reasoning")
        yield _event("REASONING_MESSAGE_CONTENT", messageId=self._reasoning, delta=text)

    def _call(self, id: str, name: str, arguments: str) -> Iterator[Json]:
        if id not in self._seen:
            if not self._calls:
                yield from self.end()
            self._calls.add(id)
            self._seen.add(id)
            parent = {"parentMessageId": self._said} if self._said else {}
            yield _event("TOOL_CALL_START", toolCallId=id, toolCallName=name, **parent)
        if arguments:
            yield _event("TOOL_CALL_ARGS", toolCallId=id, delta=arguments)

    def _added(self, blocks: list[Json]) -> Iterator[Json]:
        """A reply is complete. Of a model that sends no deltas, all of it comes now."""
        for block in blocks:
            if block.get("type") == "text" and "text" not in self._seen:
                yield from self._say(str(block["text"]))
            elif block.get("type") == "tool_use" and block["id"] not in self._seen:
                yield from self._call(str(block["id"]), str(block["name"]), json_text(block.get("input") or {}))
        yield from self.end()
        self._seen.clear()
        self._said = ""


def _event(kind: str, **fields: Any) -> Json:
    return {"type": kind, **fields}


def interrupt(question: Question) -> Json:
    body = question.body
    kind = {"permission": "tool_approval", "plan": "plan_approval"}.get(str(body.__struct_config__.tag), "input")
    properties: Json = {"option": {"enum": [each.id for each in body.options]}, "words": {"type": "string"}}
    if body.schema:
        properties["content"] = body.schema
    return {
        "id": question.id,
        "reason": kind,
        "message": question.text,
        **({"toolCallId": question.call_id} if question.call_id else {}),
        "responseSchema": {"type": "object", "properties": properties, "required": ["option"]},
        "metadata": {
            "options": [{"id": each.id, "label": each.label, "allows": each.allows} for each in body.options],
            **({"url": body.url} if isinstance(body, ElicitationQuestion) and body.url else {}),
        },
    }


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
        yield post("/ag-ui/run", "runAgent", about, self._run, "text/event-stream", RunAgentInput)

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
