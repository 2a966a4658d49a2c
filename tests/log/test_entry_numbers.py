"""Events that come from entries have their numbers, so that a reader can go on where a stream ended."""

from __future__ import annotations

import asyncio
from typing import Any

from outrider import Agent, Attachment, Log, Message, Session
from outrider.events import Compacted, Event, MessageAdded, RunFinished, ToolFinished, TurnStarted
from outrider.log.entries import SteeringQueued
from outrider.runtime.entry_events import EntryEvents
from outrider.testing import Delay, ScriptedModel, call

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


def look(at: str) -> Any:
    "Look at something, and at a picture of it."
    return [f"{at} is fine", Attachment(PNG + at.encode(), name=f"{at}.png")]


def numbered(events: list[Event]) -> list[MessageAdded | ToolFinished | RunFinished | Compacted]:
    return [event for event in events if isinstance(event, MessageAdded | ToolFinished | RunFinished | Compacted)]


def check(event: MessageAdded | ToolFinished | RunFinished | Compacted, entry: Any) -> None:
    match event:
        case ToolFinished():
            assert entry.result == event.result
        case RunFinished():
            assert entry.status == event.status
        case Compacted():
            assert entry.summary.text == event.summary
        case MessageAdded() if not event.message.tool_results:
            assert entry.message == event.message


async def test_events_have_the_numbers_of_their_entries(place: Any) -> None:
    seen: list[Event] = []
    steering: list[asyncio.Task[Any]] = []

    def observe(event: Event) -> None:
        seen.append(event)
        if isinstance(event, TurnStarted) and event.turn == 2:  # the queue is then stored beside the reply
            steering.append(asyncio.create_task(session.steer("And this.")))

    async def rest() -> str:
        "Wait."
        return "waited"

    script: list[Any] = [
        [call("look", at="a"), call("look", at="b")],
        Delay(0.2, call("rest")),
        *("Fine.", "Again.", "They looked."),
    ]
    agent = Agent(ScriptedModel(script), tools=[look, rest])
    with Log(place) as log:
        async with Session.open(log, agent=agent, observer=observe) as session:
            await session.run(["Look", Attachment(PNG, name="z.png")])
            await steering[0]
            await session.run([Message.user("Once"), Message.user("more")])
            compacted = await session.compact()
        assert sum(isinstance(record.entry, SteeringQueued) for record in log.records(session.id)) > 1
        live = numbered(seen)
        assert live[-1] == compacted
        assert sum(isinstance(event, RunFinished) for event in live) == 2
        records = {record.seq: record.entry for record in log.records(session.id)}
        own = EntryEvents()
        assert live == numbered([event for record in log.records(session.id) for event in own.of(record)])
        numbers = [event.entry for event in live]
        assert None not in numbers
        assert numbers == sorted(numbers, key=lambda number: number or 0)
        for event in live:
            assert event.entry is not None
            check(event, records[event.entry])
        middle = live[len(live) // 2].entry or 0
        later, missed = EntryEvents(), list[Event]()
        for record in log.records(session.id):
            for each in later.of(record):
                missed += [each] if record.seq > middle else []
        assert numbered(missed) == [event for event in live if (event.entry or 0) > middle]


async def test_without_a_log_there_are_none() -> None:
    seen: list[Event] = []
    await Agent(ScriptedModel([call("look", at="a"), "Fine."]), tools=[look]).run("Look", observer=seen.append)
    assert {event.entry for event in numbered(seen)} == {None}
