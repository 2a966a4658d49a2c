"""Return the broken promises of a session after all its processes; none if the log kept them.

Every fault is a sentence. What a life left behind (see `script`) is held against what was on disk when it ended.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import msgspec

from outrider.conversation.history import repair, violations
from outrider.conversation.messages import AttachmentBlock, Message, ToolResultBlock
from outrider.conversation.usage import Usage
from outrider.errors import AttachmentError
from outrider.log.entries import CallResult, Intent, MessageEntry, Record
from outrider.log.log import Log
from outrider.log.state import SessionState
from outrider.providers.base import Request
from tests.adapters import ALL
from tests.crash.ledger import lines_of
from tests.crash.places import place_of, url_of, wait_for_the_end
from tests.crash.script import EFFECTS, FAILURES, NEVER_RUN, OUTCOMES, PROMPTS, STEPS, USAGE, specs
from tests.oracles import attachments_of, check

UNKNOWN = "The outcome of this call is unknown"
State: TypeAlias = Sequence[Record]
"""What is on disk of the session."""


def state_of(folder: Path) -> list[Record]:
    """What is on disk now. Read from a copy: a reader tidies up, and the next life shall find what the last left."""
    if url := url_of(folder):
        wait_for_the_end(url)
        with Log(url) as log:
            found = log.sessions()
            return list(log.records(found[0].id)) if found else []
    with TemporaryDirectory(dir=folder) as copy:
        for name in ("log.db", "log.db-wal", "log.db-journal"):
            if (folder / "log" / name).exists():
                shutil.copyfile(folder / "log" / name, Path(copy) / name)
        log = Log(copy)
        found = log.sessions()
        return list(log.records(found[0].id)) if found else []


def faults_of_lives(folder: Path, states: Sequence[State]) -> list[str]:
    """What went wrong in lives of which each left one of the states."""
    lives = range(1, len(states) + 1)
    found = [fault for life in lives for fault in _in_life(folder, life, states[life - 1])]
    for life in lives[1:]:
        before, after = states[life - 2], states[life - 1]
        if list(after[: len(before)]) != list(before):
            found.append(f"life {life} changed or lost what life {life - 1} had written")
        found += _repeated(before, lines_of(folder, "marks"), life)
    return [*found, *_badly_keyed(lines_of(folder, "marks"))]


def faults_at_the_end(
    folder: Path,
    ended: dict[str, Any],
    killed: Sequence[State] = (),
    excuses: Sequence[str] = (),
    discarded: int = 0,
) -> list[str]:
    """What is wrong with a session that has come to its end, given what its killed lives left.

    Where something else was in the way of a call, its answer may have one of the excuses. Replies that were discarded
    because they could not be written were paid for all the same: the session counts them, the log does not.
    """
    with Log(place_of(folder)) as log:
        records = list(log.records(ended["id"]))
        messages = log.messages(ended["id"])
        summary = log.session(ended["id"])
        unsettled = {call_id for state in killed for call_id in _unsettled(state)}
        results = [result for message in messages for result in message.tool_results]
        unexcused = [result for result in results if not any(excuse in result.text for excuse in excuses)]
        found = [
            *_told_wrong(ended, messages, discarded),
            *_unpaired(messages, records),
            *_wrong_outcomes(
                unexcused, messages, unsettled, Counter(mark["call"] for mark in lines_of(folder, "marks"))
            ),
            *_lost_files(messages, log.files(summary.id)),
            *filter(None, [log.verify(summary.id).problem]),
        ]
        if [record.seq for record in records] != list(range(1, summary.last + 1)):
            found.append("the entries are not numbered one by one")
        if summary.turns != len(STEPS) or summary.usage != _times(USAGE, len(STEPS)):
            found.append(f"the summary counts {summary.turns} turns and {summary.usage}")
        if summary.holder:
            found.append(f"the session is still held by {summary.holder}")
    if url_of(folder):
        return found
    with sqlite3.connect(folder / "log" / "log.db") as connection:
        found += [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
    connection.close()
    return found


_accepted: set[bytes] = set()


def faults_of_requests(folder: Path, id: str) -> list[str]:
    """What a provider would find wrong with what the model was asked, and with what it could be asked next."""
    with Log(place_of(folder)) as log:
        asked = [_messages(line) for line in lines_of(folder, "asked")]
        asked.append(repair([*log.messages(id), Message.user("And then?")]))
        files = log.files(id)
        return [fault for messages in asked for fault in _refused(messages, files)]


def _refused(messages: Sequence[Message], store: Any) -> Iterator[str]:
    key = msgspec.json.encode(messages)
    if key in _accepted:
        return
    yield from violations(messages)
    for case in ALL:
        request = Request(messages, store, "A clerk.", specs())
        try:
            check(case, case.adapter().render(request), request)
        except Exception as error:
            yield f"{case.name} would refuse a request: {type(error).__name__}: {error}"
            return
    _accepted.add(key)


# One life


def _in_life(folder: Path, life: int, state: State) -> Iterator[str]:
    messages = SessionState(record.entry for record in state).messages
    shown = lines_of(folder, "shown", life)
    yield from _lost(life, shown, state, messages)
    intents = _intents(state)
    for mark in lines_of(folder, "marks", life):
        intent = intents.get(mark["call"])
        if intent is None:
            yield f"{mark['tool']} ran in life {life}, and nothing on disk says that it was begun"
        elif intent.key != mark["key"]:
            yield f"{mark['tool']} ran in life {life} with another key than on disk"
    for line in lines_of(folder, "asked", life):
        asked = _messages(line)
        if asked != _as_asked(messages, sum(message.role == "assistant" for message in asked)):
            yield f"in life {life} the model was asked something that is not on disk"


def _lost(life: int, shown: Iterable[dict[str, Any]], state: State, messages: Sequence[Message]) -> Iterator[str]:
    answers = {result.tool_use_id: result for result in _results(state)}
    there = iter(messages)
    for line in shown:
        if "message" in line:
            message = msgspec.convert(line["message"], Message)
            if message not in there:  # looks on from the one that was found last
                yield f"life {life} showed a message that is lost, or out of order: {message.role} {message.text!r}"
                there = iter(messages)
        else:
            result = msgspec.convert(line["result"], ToolResultBlock)
            if answers.get(result.tool_use_id) != result:
                yield f"life {life} showed a result that is lost: {result.tool_use_id}"


def _as_asked(messages: Sequence[Message], replies: int) -> list[Message]:
    """What is on disk of the conversation before the reply that comes after so many others."""
    before: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            if not replies:
                break
            replies -= 1
        before.append(message)
    return repair(before)


# From life to life


def _repeated(before: State, marks: Iterable[dict[str, Any]], life: int) -> Iterator[str]:
    answered = {result.tool_use_id for result in _results(before)}
    unsettled = _unsettled(before)
    for mark in marks:
        if mark["life"] < life:
            continue
        if mark["call"] in answered:
            yield f"{mark['tool']} was run in life {mark['life']}, though it had its answer before life {life}"
        if mark["call"] in unsettled:
            yield f"{mark['tool']} was run in life {mark['life']}, though it may have run before life {life}"


def _badly_keyed(marks: Sequence[dict[str, Any]]) -> Iterator[str]:
    counts = Counter(mark["call"] for mark in marks)
    tools = {mark["call"]: mark["tool"] for mark in marks}
    for call, count in counts.items():
        if EFFECTS[tools[call]] == "write" and count > 1:
            yield f"{tools[call]} ({call}) wrote {count} times"
        if len({mark["key"] for mark in marks if mark["call"] == call}) > 1:
            yield f"{tools[call]} ({call}) was repeated with another key"
    if len({mark["key"] for mark in marks}) < len(counts):
        yield "two calls have the same key"


def _unsettled(state: State) -> set[str]:
    """The writes that were begun and have no answer."""
    answered = {result.tool_use_id for result in _results(state)}
    return {each.call_id for each in _intents_in_order(state) if each.effect == "write"} - answered


# The end


def _told_wrong(ended: dict[str, Any], messages: Sequence[Message], discarded: int) -> Iterator[str]:
    if ended["status"] != "done" or ended["text"] != STEPS[-1][0]:
        yield f"it ended with {ended['status']!r}: {ended['error'] or ended['text']}"
    if msgspec.convert(ended["usage"], Usage) != _times(USAGE, len(STEPS) + discarded):
        yield f"the session counts {ended['usage']}"
    if sum(message.role == "assistant" for message in messages) != len(STEPS):
        yield "there are more or fewer replies than the model gave"
    if sum(message.role == "user" and not message.tool_results for message in messages) != len(PROMPTS):
        yield "there are more or fewer prompts than were said"


def _unpaired(messages: Sequence[Message], records: State) -> Iterator[str]:
    calls = [call.id for message in messages for call in message.tool_calls]
    results = [result.tool_use_id for message in messages for result in message.tool_results]
    if results != calls or sorted(calls) != sorted(OUTCOMES):
        yield f"the calls {calls} are answered by {results}"
    yield from (f"the history cannot be sent: {fault}" for fault in violations(repair(messages)))
    for kind, entries in (("answers", _results(records)), ("intents", _intents_in_order(records))):
        counts = Counter(_id(entry) for entry in entries)
        yield from (f"the log has {count} {kind} for {call_id}" for call_id, count in counts.items() if count > 1)
    if sum(isinstance(record.entry, MessageEntry) for record in records) != len(STEPS) + len(PROMPTS):
        yield "a message stands twice in the log"


def _wrong_outcomes(
    results: Iterable[ToolResultBlock], messages: Sequence[Message], unsettled: set[str], marks: Counter[str]
) -> Iterator[str]:
    calls = {call.id: call for message in messages for call in message.tool_calls}
    for result in results:
        call_id = result.tool_use_id
        if call_id in unsettled:
            asked = msgspec.json.encode(calls[call_id].input).decode()
            if not result.is_error or UNKNOWN not in result.text or asked not in result.text:
                yield f"{call_id} may have run or not, and its answer is {result.text!r}"
        elif OUTCOMES[call_id] not in result.text or result.is_error != (call_id in FAILURES):
            yield f"{call_id} is answered with {result.text!r}"
        elif not marks[call_id] and call_id not in NEVER_RUN:
            yield f"{call_id} has a result and was never run"


def _lost_files(messages: Sequence[Message], store: Any) -> Iterator[str]:
    wholes = [result.whole for message in messages for result in message.tool_results if result.whole]
    files: list[AttachmentBlock] = [*attachments_of(messages), *wholes]
    for file in files:
        try:
            store.read(file)
        except AttachmentError as error:
            yield str(error)


# The log


def _intents_in_order(state: State) -> list[Intent]:
    return [record.entry for record in state if isinstance(record.entry, Intent)]


def _intents(state: State) -> dict[str, Intent]:
    return {intent.call_id: intent for intent in _intents_in_order(state)}


def _results(state: State) -> list[ToolResultBlock]:
    return [record.entry.result for record in state if isinstance(record.entry, CallResult)]


def _id(entry: Intent | ToolResultBlock) -> str:
    return entry.call_id if isinstance(entry, Intent) else entry.tool_use_id


def _messages(line: dict[str, Any]) -> list[Message]:
    return msgspec.convert(line["messages"], list[Message])


def _times(usage: Usage, count: int) -> Usage:
    total = Usage()
    for _ in range(count):
        total += usage
    return total
