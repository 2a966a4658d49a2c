"""Many processes on one log: each makes progress, with documented errors only, and entries do not interleave."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from outrider.conversation.history import violations
from outrider.conversation.messages import Message
from outrider.log.log import Log
from tests.log import Process, look

TURNS = 15
"""How often each process says something in its own session."""
ROUNDS = 6
"""How often each process wins the session that all want."""

OWN = """
    say("ready")
    hear()
    log = Log(arguments[0])
    session = talk(log)
    for number in range(int(arguments[2])):
        result = asyncio.run(session.run(f"{arguments[1]} says {number}"))
        assert (result.status, result.error) == ("done", ""), result
    session.close()
    log.close()
    say(session.id)
"""
"""A process that talks in a session of its own."""

FIGHT = """
    say("ready")
    hear()
    log = Log(arguments[0])
    won, lost = 0, 0
    while won < int(arguments[3]):
        try:
            session = talk(log, arguments[1])
        except SessionHeldError:
            lost += 1
            continue
        for number in range(2):
            result = asyncio.run(session.run(f"{arguments[2]} says {won}.{number}"))
            assert (result.status, result.error) == ("done", ""), result
        session.close()
        won += 1
        time.sleep(0.001)  # let another one have it
    say(won, lost)
"""
"""A process that opens, uses and closes a session that others want as well."""

SHARE = """
    import random
    say("ready")
    hear()
    log = Log(arguments[0])
    names = arguments[2].split(",")
    for number in range(int(arguments[3])):
        random.shuffle(names)
        for name in names:
            while True:
                try:
                    session = talk(log, name)
                    break
                except SessionHeldError:
                    time.sleep(0.001)
            result = asyncio.run(session.run(f"{arguments[1]} says {number}"))
            assert (result.status, result.error) == ("done", ""), result
            session.close()
    log.close()
    say("done")
"""
"""A process that says something in each of several sessions, again and again."""


def begin_together(stack: ExitStack, script: str, arguments: list[tuple[object, ...]]) -> list[Process]:
    processes = [stack.enter_context(Process(script, *each)) for each in arguments]
    assert [process.hear() for process in processes] == ["ready"] * len(processes)
    for process in processes:
        process.tell()
    return processes


def check_whole(log: Log, name: str) -> list[Message]:
    """The messages of a session in which each prompt is followed by its own echo, and whose numbers have no gap."""
    records = list(log.records(name))
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert log.session(name).last == len(records)
    messages = log.messages(name)
    assert violations(messages) == []
    for said, answer in zip(messages[::2], messages[1::2], strict=True):
        assert answer.text == f"You said: {said.text}"
    times = [record.time for record in records]
    assert all(later >= earlier - 1 for earlier, later in pairwise(times))
    return messages


@pytest.mark.long
def test_eight_processes_write_eight_sessions_of_one_log(tmp_path: Path) -> None:
    with ExitStack() as stack:
        processes = begin_together(stack, OWN, [(tmp_path, f"process {n}", TURNS) for n in range(8)])
        names = [process.hear(seconds=60) for process in processes]
        for process in processes:
            assert process.end() == []
    log = Log(tmp_path)
    assert {summary.id for summary in log.sessions()} == set(names)
    for number, name in enumerate(names):
        messages = check_whole(log, name)
        assert [message.text for message in messages[::2]] == [f"process {number} says {n}" for n in range(TURNS)]
        assert log.session(name).turns == TURNS
        assert log.session(name).holder is None
    assert look(log, "SELECT count(*), count(DISTINCT session) FROM event") == [(8 * (3 + 4 * TURNS), 8)]
    assert look(log, "PRAGMA integrity_check") == [("ok",)]


def test_four_processes_fight_for_one_session_and_nothing_is_interleaved(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        journal = log.create()
        journal.close()
        with ExitStack() as stack:
            arguments: list[tuple[object, ...]] = [(tmp_path, journal.id, n, ROUNDS) for n in range(4)]
            processes = begin_together(stack, FIGHT, arguments)
            outcomes = [process.hear(seconds=60).split() for process in processes]
            for process in processes:
                assert process.end() == []
    assert [won for won, _ in outcomes] == [str(ROUNDS)] * 4
    messages = check_whole(log, journal.id)
    said = [message.text for message in messages[::2]]
    assert len(said) == 4 * ROUNDS * 2
    for first, second in zip(said[::2], said[1::2], strict=True):
        assert first.removesuffix(".0") == second.removesuffix(".1"), "nobody spoke while another held the session"
    for number in range(4):
        own = [text for text in said if text.startswith(f"{number} says")]
        assert own == [f"{number} says {won}.{part}" for won in range(ROUNDS) for part in range(2)]


@pytest.mark.long
def test_eight_processes_take_turns_in_eight_sessions(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        journals = [log.create() for _ in range(8)]
        names = [journal.id for journal in journals]
        for journal in journals:
            journal.close()
    with ExitStack() as stack:
        arguments: list[tuple[object, ...]] = [(tmp_path, n, ",".join(names), 1) for n in range(8)]
        processes = begin_together(stack, SHARE, arguments)
        assert [process.hear(seconds=60) for process in processes] == ["done"] * 8
    for name in names:
        said = Counter(message.text for message in check_whole(log, name)[::2])
        assert said == Counter(f"{process} says {number}" for process in range(8) for number in range(1))
