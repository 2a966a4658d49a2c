"""Return the broken promises of a session with sub-agents after all its processes.

Every fault is a sentence. What a life left behind (see `family`) is held against what was on disk when it ended.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from outrider.conversation.history import repair, violations
from outrider.conversation.messages import Message, ToolResultBlock
from outrider.conversation.usage import Usage
from outrider.log.entries import CallResult, Intent, MessageEntry, Record, SubagentLinked
from outrider.log.log import Log
from outrider.log.state import SessionState
from outrider.prompts import prompt
from tests.crash.family import (
    ASKED,
    CALLS,
    DATA,
    OUTCOMES,
    PARENT,
    PROMPT,
    REPLIES,
    TURNS,
    USAGE,
    who_is_in,
)
from tests.crash.judge import UNKNOWN
from tests.crash.ledger import lines_of

REMINDER = prompt("report_reminder")
RESULTS = {"put": "box is put away", "move": "crate is moved"}
"""What the answer to each call that writes says, if nothing comes between."""


class OnDisk:
    """What the log has of one session."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = list(records)
        self._replay = SessionState(record.entry for record in records)
        self.messages = self._replay.messages
        self.answers = {each.result.tool_use_id: each for each in self.entries(CallResult)}
        self.replies = sum(message.role == "assistant" for message in self.messages)

    def entries(self, kind: type[Any]) -> list[Any]:
        return [record.entry for record in self.records if isinstance(record.entry, kind)]

    @property
    def who(self) -> str:
        return who_is_in(self.messages[0].text) if self.messages else ""

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left to ask, as far as the session itself tells."""
        if not self.messages or self._replay.final:
            return bool(self._replay.final)
        last = self.messages[-1]
        if self.who == "wanderer":
            return self.replies == TURNS and last.role == "user"
        return last.role == "assistant" and not last.tool_calls and not self._is_to_be_reminded

    @property
    def _is_to_be_reminded(self) -> bool:
        return self.who in ("reporter", "forgetful") and not any(message.text == REMINDER for message in self.messages)

    @property
    def unsettled(self) -> set[str]:
        """The keys of the writes that were begun and have no answer."""
        return {
            each.key for each in self.entries(Intent) if each.effect == "write" and each.call_id not in self.answers
        }

    @property
    def answered(self) -> set[str]:
        """The keys of the calls that have their answer."""
        return {each.key for each in self.entries(Intent) if each.call_id in self.answers}


Family = dict[str, OnDisk]
"""The sessions by id; that of the parent has none here, because it may not be there yet."""


def family_of(folder: Path) -> Family:
    """What is on disk now. Read from a copy: a reader tidies up, and the next life shall find what the last left."""
    with TemporaryDirectory(dir=folder) as copy:
        for name in ("log.db", "log.db-wal", "log.db-journal"):
            if (folder / "log" / name).exists():
                shutil.copyfile(folder / "log" / name, Path(copy) / name)
        log = Log(copy)
        found = log.sessions()
        ids = {"": found[0].id, **{child.id: child.id for child in log.children(found[0].id)}} if found else {}
        return {name: OnDisk(list(log.records(session))) for name, session in ids.items()}


def faults_of_family(folder: Path, lives: Sequence[Family], last: dict[str, Any]) -> list[str]:
    """All that is wrong after lives of which each left one of the families, and the last came to the end."""
    found = [fault for life, family in enumerate(lives, 1) for fault in _in_life(folder, life, family)]
    for life in range(1, len(lives)):
        found += _from_life_to_life(folder, life, lives[life - 1], lives[life])
    found += _written_twice(lines_of(folder, "marks"))
    found += _at_the_end(folder, lives, last)
    return found


# One life


def _in_life(folder: Path, life: int, family: Family) -> Iterator[str]:
    intents = {each.key: each for session in family.values() for each in session.entries(Intent)}
    for mark in lines_of(folder, "marks", life):
        if mark["key"] not in intents:
            yield f"{mark['tool']} ran in life {life}, and nothing on disk says that it was begun"
    for line in lines_of(folder, "shown", life):
        if not _is_there(line, family):
            yield f"life {life} showed what is lost: {line}"
    sessions = {session.who: session for session in family.values()}
    for line in lines_of(folder, "asked", life):
        asked = msgspec.convert(line["messages"], list[Message])
        if line["who"] not in sessions or asked != repair(sessions[line["who"]].messages[: len(asked)]):
            yield f"in life {life} the model was asked something by the {line['who']} that is not on disk"


def _is_there(line: dict[str, Any], family: Family) -> bool:
    session = family.get(line["session"])
    if session is None:
        return False
    if "message" in line:
        return msgspec.convert(line["message"], Message) in session.messages
    if "result" in line:
        result = msgspec.convert(line["result"], ToolResultBlock)
        answer = session.answers.get(result.tool_use_id)
        return answer is not None and (answer.result, answer.details) == (result, line["details"])
    return SubagentLinked(line["sent_by"], line["session"]) in family[""].entries(SubagentLinked)


# From life to life


def _from_life_to_life(folder: Path, life: int, before: Family, after: Family) -> Iterator[str]:
    for name, session in before.items():
        if name not in after or after[name].records[: len(session.records)] != session.records:
            yield f"life {life + 1} changed or lost what life {life} had written of the {session.who}"
    later = [line for line in lines_of(folder, "asked") if line["life"] > life]
    sessions = {session.who: session for session in before.values()}
    done = _ended(before)
    for line in later:
        who = line["who"]
        replies = sum(message["role"] == "assistant" for message in line["messages"])
        if who in done:
            yield f"the {who} was asked again in life {line['life']}, though it had ended in life {life}"
        elif who in sessions and replies < sessions[who].replies:
            yield f"the {who} was asked in life {line['life']} for a reply that it had in life {life}"
    answered = {key for session in before.values() for key in session.answered}
    unsettled = {key for session in before.values() for key in session.unsettled}
    for mark in lines_of(folder, "marks"):
        if mark["life"] > life and mark["key"] in answered:
            yield f"{mark['tool']} was run in life {mark['life']}, though it had its answer in life {life}"
        if mark["life"] > life and mark["key"] in unsettled:
            yield f"{mark['tool']} was run in life {mark['life']}, though it may have run in life {life}"


def _ended(family: Family) -> set[str]:
    """Those that are not to be asked any more: their session says so, or the parent has their outcome."""
    told = {CALLS[call_id] for call_id in family[""].answers} if family else set()
    return told | {session.who for session in family.values() if session.has_ended}


def _written_twice(marks: Iterable[dict[str, Any]]) -> Iterator[str]:
    counts = Counter((mark["tool"], mark["key"]) for mark in marks)
    for (tool, key), count in counts.items():
        if tool in RESULTS and count > 1:
            yield f"{tool} ({key}) wrote {count} times"


# The end


def _at_the_end(folder: Path, lives: Sequence[Family], last: dict[str, Any]) -> Iterator[str]:
    family = lives[-1]
    if (last["status"], last["text"]) != ("done", "All are back."):
        yield f"it ended with {last['status']!r}: {last['error'] or last['text']}"
    if sorted(session.who for session in family.values()) != sorted([PARENT, *OUTCOMES]):
        yield f"there are sessions of {[session.who for session in family.values()]}"
        return
    yield from _unlinked(family)
    yield from _told_wrong(family)
    unsettled = {key for each in lives[:-1] for session in each.values() for key in session.unsettled}
    for session in family.values():
        yield from _unsound(session, unsettled)
    yield from _in_the_file(folder / "log", last, family)


def _unlinked(family: Family) -> Iterator[str]:
    """Each call has one sub-agent, and each sub-agent one call."""
    links = family[""].entries(SubagentLinked)
    if sorted(link.call_id for link in links) != sorted(CALLS):
        yield f"these calls were delegated: {[link.call_id for link in links]}"
    if [link.session for link in links] != list(family)[1:]:
        yield "the links to the sub-agents are not those that there are, in the order in which they were begun"
    for link in links:
        if link.session in family and family[link.session].who != CALLS[link.call_id]:
            yield f"{link.call_id} is linked to the session of the {family[link.session].who}"


def _told_wrong(family: Family) -> Iterator[str]:
    """The parent has each outcome as it was."""
    parent = family[""]
    sessions = {session.who: name for name, session in family.items()}
    for call_id, who in CALLS.items():
        status, text = OUTCOMES[who]
        answer = parent.answers.get(call_id)
        if answer is None:
            yield f"the parent was not told how the {who} fared"
            continue
        if (answer.result.text, answer.result.is_error) != (text, status != "done"):
            yield f"the parent was told of the {who}: {answer.result.text!r}"
        cost = REPLIES[who] * (USAGE.cost or 0)
        known = {"session": sessions[who], "status": status, "turns": ASKED[who], "cost": cost}
        if who == "reporter":
            known["structured_output"] = DATA
        if answer.details != {"profile": "Wanderer" if who == "wanderer" else "Clerk", **known}:
            yield f"the details of the {who} are {answer.details}"


def _unsound(session: OnDisk, unsettled: set[str]) -> Iterator[str]:
    """What is wrong with one of the sessions by itself."""
    who, messages = session.who, session.messages
    calls = [call.id for message in messages for call in message.tool_calls]
    results = [result.tool_use_id for message in messages for result in message.tool_results]
    if calls != results:
        yield f"the calls {calls} of the {who} are answered by {results}"
    for kind, call_id in ((CallResult, lambda each: each.result.tool_use_id), (Intent, lambda each: each.call_id)):
        if repeated := [each for each, count in Counter(map(call_id, session.entries(kind))).items() if count > 1]:
            yield f"the log has more than one {kind.__name__} of the {who} for {repeated}"
    yield from (f"the history of the {who} cannot be sent: {fault}" for fault in violations(repair(messages)))
    said = [message.text for message in messages if message.role == "user" and message.text]
    first = PROMPT if who == PARENT else f"{who}: go."
    if said != ([first, REMINDER] if who in ("reporter", "forgetful") else [first]):
        yield f"the {who} was told {said}"
    if len(session.entries(MessageEntry)) != session.replies + len(said):
        yield f"a message of the {who} stands twice in the log"
    if session.replies != REPLIES[who]:
        yield f"the {who} has {session.replies} replies"
    for intent in [each for each in session.entries(Intent) if each.call_id in session.answers]:
        result = session.answers[intent.call_id].result
        if intent.key in unsettled and not (result.is_error and UNKNOWN in result.text):
            yield f"{intent.name} of the {who} may have run or not, and its answer is {result.text!r}"
        if intent.name in RESULTS and intent.key not in unsettled and result.text != RESULTS[intent.name]:
            yield f"{intent.name} of the {who} is answered with {result.text!r}"


def _in_the_file(folder: Path, last: dict[str, Any], family: Family) -> Iterator[str]:
    with Log(folder) as log:
        everybody = [log.session(last["id"]), *log.children(last["id"])]
        for summary in everybody:
            if summary.holder:
                yield f"{summary.title} is still held by {summary.holder}"
            if problem := log.verify(summary.id).problem:
                yield f"{summary.title}: {problem}"
        if msgspec.convert(last["usage"], Usage) != sum((each.usage for each in everybody), Usage()):
            yield f"the session counts {last['usage']} for itself and its sub-agents"
    connection = sqlite3.connect(folder / "log.db")
    children = [name for (name,) in connection.execute("SELECT id FROM session WHERE parent != '' ORDER BY number")]
    if children != list(family)[1:]:
        yield f"there are {len(children)} sessions of sub-agents"
    yield from (text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok")
    connection.close()
