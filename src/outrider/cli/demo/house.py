"""A long task for demo 6, and the process that begins it: python -m outrider.cli.demo.house FOLDER"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from outrider.conversation.messages import Message
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.providers.testing.scripted import Delay, ScriptedModel, Step, call
from outrider.runtime.agent import Agent
from outrider.runtime.compaction import Compaction
from outrider.runtime.events import Event, ToolFinished
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.tools.decorator import tool

ROOMS, KILLED_IN = 40, 20
WINDOW = 8_000
PROMPT = f"Walk through all {ROOMS} rooms and remember the codes."
QUESTION = "What is the code of room 3?"


def code(room: int) -> str:
    """Return the code that is written in a room."""
    return f"{room * 7919 % 100_000:05}"


@tool(effect="read")
def enter(room: int) -> str:
    """Enter a room and read what is written there."""
    return f"The code of room {room} is {code(room)}. " + "There is an old chair in the corner. " * 45


def walker(*, is_killed: bool) -> Agent:
    """Return an agent that enters a room a turn. Its window is too small for all of them."""
    model = ScriptedModel(_killed if is_killed else _step, window=WINDOW)
    limits, compaction = Limits(max_turns=None, max_repeats=None), Compaction(clear_threshold=None)
    return Agent(model, tools=[enter], limits=limits, compaction=compaction)


def _step(request: Request) -> Step:
    if "Write a summary" in request.reminder:
        return f"Goal: all {ROOMS} rooms. The last room: {_last_room(request)}."
    if request.messages[-1].text == QUESTION:
        return call("Recall", query='"code of room 3 is"')
    if _asks(request) and (found := re.search(r"code of room 3 is (\d+)", _results(request.messages[-1])[-1])):
        return f"The code of room 3 is {found[1]}."
    room = _last_room(request) + 1
    return call("enter", room=room) if room <= ROOMS else "I have been in every room."


def _killed(request: Request) -> Step:
    """Hang in one room, so that the process can be killed there."""
    is_there = _last_room(request) + 1 == KILLED_IN and "Write a summary" not in request.reminder
    return Delay(3600, "never") if is_there else _step(request)


def _asks(request: Request) -> bool:
    return len(request.messages) > 2 and request.messages[-3].text == QUESTION


def _last_room(request: Request) -> int:
    """Return the last room that the conversation names, or its summary."""
    text = "".join(part for message in request.messages for part in (message.text, *_results(message)))
    rooms = re.findall(r"code of room (\d+) is|The last room: (\d+)\.", text)
    return int("".join(rooms[-1])) if rooms else 0


def _results(message: Message) -> list[str]:
    return [result.text for result in message.tool_results]


async def begin(folder: Path) -> None:
    """Walk until the process is killed; print the session, and a line for each room."""

    def show(event: Event) -> None:
        if isinstance(event, ToolFinished):
            print(event.result.text.partition(" is ")[0], flush=True)

    with Log(folder) as log:
        async with Session.open(log, agent=walker(is_killed=True), observer=show) as session:
            print(session.id, flush=True)
            await session.run(PROMPT)


if __name__ == "__main__":
    asyncio.run(begin(Path(sys.argv[1])))
