"""Who decided about the calls of a session: `Log.audit`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from outrider.conversation.messages import ToolUseBlock
from outrider.log.entries import Asked, CallResult, Decided, Intent, MessageEntry, Record, SessionStarted

CallOutcome: TypeAlias = Literal["done", "failed", "unknown", "not run", "unfinished"]
"""`unknown`: it was stopped while it ran. `unfinished`: it has begun, and has no result."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision about a call, or an answer to a question that is about no call."""

    session: str
    entry: int
    """The number of the entry in the log."""
    time: float
    call_id: str = ""
    tool: str = ""
    effect: str = ""
    """That of the tool. Empty if the call did not begin."""
    input: dict[str, Any] = {}
    """The arguments that the call ran with. They may hold secrets."""
    allowed: bool | None = None
    """None if nobody decided: the session had no approver."""
    by: str = ""
    """A rule, a mode, a hook, or a person and where."""
    answer: str = ""
    """The option that a person chose, or why the call was denied."""
    question: str = ""
    """The SHA-256 of the question that a person was shown, as JSON with sorted keys. Empty if nobody was asked."""
    about: str = ""
    """The question in one line, if it is about no call."""
    outcome: CallOutcome = "not run"
    is_copied: bool = False
    """Whether the entry was copied from another session, by a fork."""


def decisions(session: str, records: Iterable[Record], asked: Mapping[str, Decision]) -> list[Decision]:
    """Return the decisions about the calls of a session, in order. `asked` has questions of its parent, by call id."""
    found = _Audit(session, asked)
    for record in records:
        found.take(record)
    return found.decisions


class _Audit:
    """Puts together what the entries say of each call."""

    def __init__(self, session: str, asked: Mapping[str, Decision]) -> None:
        self._session, self._asked_for = session, asked
        self.decisions: list[Decision] = []
        self._calls: dict[str, ToolUseBlock] = {}
        """The calls of the newest reply."""
        self._newest: dict[str, int] = {}
        """The newest decision about each of these calls: its index."""
        self._asked: dict[str, Asked] = {}
        """The questions that wait, by their ids."""
        self._copied = 0

    def take(self, record: Record) -> None:
        """Take the next entry."""
        match record.entry:
            case SessionStarted(forked_at=copied):
                self._copied = copied
            case MessageEntry(message=message) if message.tool_calls:
                self._calls, self._newest = {call.id: call for call in message.tool_calls}, {}
            case Asked(id=id) as entry:
                self._asked[id] = entry
            case Decided(question=id) as entry if asked := self._asked.pop(id, None):
                self._answer(record, entry, asked)
            case Decided() as entry:
                self._decide(record, entry)
            case Intent() as entry:
                self._begin(record, entry)
            case CallResult(result=result):
                newest = self._newest.get(result.tool_use_id)
                if newest is not None and self.decisions[newest].outcome == "unfinished":
                    self._change(result.tool_use_id, outcome=result.outcome)

    def _begin(self, record: Record, entry: Intent) -> None:
        if entry.call_id not in self._newest:
            self._add(record, entry.call_id)
        # A call that is denied and begins has arguments that are not valid: its tool does not run.
        is_denied = self.decisions[self._newest[entry.call_id]].allowed is False
        outcome = "not run" if is_denied else "unfinished"
        self._change(entry.call_id, tool=entry.name, effect=entry.effect, input=entry.input, outcome=outcome)

    def _answer(self, record: Record, entry: Decided, asked: Asked) -> None:
        """Add the answer of a person. That to a question for a sub-agent, or of a server, is about no call here."""
        shown = asked.question
        known = {"allowed": entry.allowed, "by": entry.by, "answer": entry.answer, "question": _sha256(shown)}
        asker = str(shown.get("asker") or shown.get("server") or "")
        if entry.call_id in self._calls and not asker:
            self._add(record, entry.call_id, **known)
            return
        text = str(shown.get("title") or shown.get("message") or "")
        about = f"{asker}: {text}" if asker else text or "a question"
        self.decisions.append(self._new(record, entry.call_id, about=about, **known))

    def _decide(self, record: Record, entry: Decided) -> None:
        newest = self._newest.get(entry.call_id)
        answer = self.decisions[newest] if newest is not None else None
        if answer and answer.question and answer.outcome == "not run":
            # What became of the answer: the person may have agreed to what has changed meanwhile.
            by, said = f"{entry.by}, {answer.by}", answer.answer if entry.allowed else entry.answer
            self._change(entry.call_id, allowed=entry.allowed, by=by, answer=said)
            return
        self._add(record, entry.call_id, allowed=entry.allowed, by=entry.by, answer=entry.answer)
        if asked := self._asked_for.get(entry.call_id):
            self._change(entry.call_id, by=f"{entry.by}, {asked.by}", question=asked.question)

    def _add(self, record: Record, call_id: str, **known: Any) -> None:
        self._newest[call_id] = len(self.decisions)
        self.decisions.append(self._new(record, call_id, **known))

    def _new(self, record: Record, call_id: str, **known: Any) -> Decision:
        if (call := self._calls.get(call_id)) and "about" not in known:
            known |= {"tool": call.name, "input": call.input}
        return Decision(
            session=self._session,
            entry=record.seq,
            time=record.time,
            call_id=call_id,
            is_copied=record.seq <= self._copied,
            **known,
        )

    def _change(self, call_id: str, **known: Any) -> None:
        index = self._newest[call_id]
        self.decisions[index] = msgspec.structs.replace(self.decisions[index], **known)


def _sha256(question: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(question, order="sorted")).hexdigest()
