"""Ask another model at each step of a recorded session, and say where it would act differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from outrider.conversation.messages import Message
from outrider.conversation.usage import Usage
from outrider.errors import LogError
from outrider.log.entries import AttemptFailed, MessageEntry
from outrider.log.requests import restored
from outrider.log.session_id import shown_id
from outrider.log.state import SessionState
from outrider.providers.base import ModelSettings, Provider, Request
from outrider.replay.tape import is_reply
from outrider.runtime.receiver import Receiver
from outrider.runtime.retry import Retry

if TYPE_CHECKING:
    from outrider.log.reader import LogReader

Agreement: TypeAlias = Literal[
    "same", "other arguments", "other tools", "text instead of a call", "a call instead of text"
]
"""How a reply compares with the recorded one: `same` has the same calls with the same arguments, or both have none."""


class OtherReply(msgspec.Struct, frozen=True):
    """What another model replies at one step of a recorded session."""

    turn: int
    """The recorded reply, counted from 1."""
    seq: int
    """Its entry."""
    agreement: Agreement
    recorded: Message
    replied: Message
    usage: Usage


async def other_replies(
    log: LogReader, session: str, provider: Provider, *, system: str | None = None
) -> AsyncIterator[OtherReply]:
    """Ask a model at each step of a session, and yield its replies. Each request has the recorded history before it.

    Its tools do not run, and nothing is stored. `system` replaces the system prompt. Raises ProviderError, and LogError
    if the log does not say what was sent.
    """
    session = log.session(session).id
    files = log.files(session)
    for turn, seq, recorded, state in _steps(log, session):
        requested = state.requested
        request = restored(requested, state.history.sendable(), files) if requested else None
        if request is None:
            name = shown_id(session)
            raise LogError(f"the log does not say what turn {turn} of {name} sent: an earlier version wrote it")
        used: list[Usage] = []
        request = msgspec.structs.replace(for_another(request, provider), output_schema=None)
        if system is not None:
            request = msgspec.structs.replace(request, system=system)
        reply = await _receiver(provider, used).receive(request)
        agreement = agreement_of(recorded, reply.message)
        yield OtherReply(turn, seq, agreement, recorded, reply.message, sum(used, reply.usage))


def agreement_of(recorded: Message, replied: Message) -> Agreement:
    """Return how a reply compares with the recorded one.

    >>> agreement_of(Message.assistant("4"), Message.assistant("Four."))
    'same'
    """
    ours, theirs = recorded.tool_calls, replied.tool_calls
    if not ours or not theirs:
        return "same" if not ours and not theirs else "a call instead of text" if theirs else "text instead of a call"
    if Counter(map(_exact, ours)) == Counter(map(_exact, theirs)):
        return "same"
    names = [Counter(call.name for call in calls) for calls in (ours, theirs)]
    return "other arguments" if names[0] == names[1] else "other tools"


def _steps(log: LogReader, id: str) -> Iterator[tuple[int, int, Message, SessionState]]:
    """Yield each reply of a session with its number and its entry, and the state before it."""
    state, turn = SessionState(), 0
    for record in log.records(id):
        if isinstance(entry := record.entry, MessageEntry) and is_reply(entry):
            turn += 1
            yield turn, record.seq, entry.message, state
        state.apply(record.entry, record.seq)


def for_another(request: Request, provider: Provider) -> Request:
    """Return a request without what may be for its own model alone: settings, and server tools that others lack."""
    able: Any = getattr(provider, "capabilities", None)
    known = able.server_tools if able and (able.server_tools_with_functions or not request.tools) else ()
    served = tuple(each for each in request.server_tools if each.name in known)
    return msgspec.structs.replace(request, settings=ModelSettings(), server_tools=served)


def _receiver(provider: Provider, used: list[Usage]) -> Receiver:
    async def note(failed: AttemptFailed) -> None:
        used.extend([failed.usage] if failed.usage else [])

    return Receiver(provider, lambda event: None, Retry(), note)


def _exact(call: Any) -> tuple[str, bytes]:
    return call.name, msgspec.json.encode(call.input, order="deterministic")
