"""Demo 6: a long task in a small window. Its process is killed, it is rewound, and an editor finishes it.

The process that is killed: python -m outrider.cli.demo.long_day FOLDER
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from outrider.cli.demo.editor import Editor, running_agent
from outrider.cli.demo.story import Story
from outrider.conversation.messages import Message
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.runtime.agent import Agent
from outrider.runtime.compaction import Compaction
from outrider.runtime.events import Compacted, Event, ToolFinished
from outrider.runtime.limits import Limits
from outrider.runtime.session import Session
from outrider.testing import Delay, ScriptedModel, Step, call
from outrider.text import counted
from outrider.tools.tool import tool

MISTAKE = "Forget all codes."
SUM = "What is 2+2?"


def long_day(story: Story) -> str:
    """Begin in a process that is killed; go on here, rewind, ask for an old fact; finish in an editor."""
    story.heading("compacted, killed, rewound, and finished in an editor")
    story.printer.question(PROMPT)
    name = _begin_and_be_killed(story)
    compactions: list[Event] = []

    def observe(event: Event) -> None:
        if isinstance(event, Compacted):
            compactions.append(event)

    async def go_on() -> tuple[str, int, str]:
        async with Session.open(log, name, agent=walker(is_killed=False), observer=observe) as session:
            walked = await session.run()
            await session.run(MISTAKE)
            rewound = await session.rewind(2)
            found = await session.run(QUESTION)
            return walked.text, rewound.messages, found.text

    with Log(_log_folder(story)) as log:
        walked, removed, found = asyncio.run(go_on())
        _tell(story, f"Another process goes on from room {KILLED_IN}", walked)
        _tell(story, f"The context was full: {counted(len(compactions), 'compaction')}", "the log has all of it")
        _tell(story, f"› {MISTAKE} Then rewind to before it", f"{counted(removed, 'message')} taken back")
        _tell(story, f"› {QUESTION}", found)
        entered = [each.input.get("room") for message in log.messages(name) for each in message.tool_calls]
    seen, stop = _finish_in_an_editor(story, name)
    _tell(story, f"An editor loads it: {counted(seen, 'call')}; › {SUM}", stop)
    story.check(
        {
            "the rooms were not entered once each, in order": entered[:ROOMS] == list(range(1, ROOMS + 1)),
            "nothing was compacted": bool(compactions),
            "the code of room 3 was lost": code(3) in found,
            "the rewind did not take back the mistake": removed > 0,
            f"the editor shows {seen} calls": seen > ROOMS,
            f"the stop reason is {stop!r}, not 'end_turn'": stop == "end_turn",
        }
    )
    return "Long day: killed, compacted and rewound, and the first facts are still found."


def _begin_and_be_killed(story: Story) -> str:
    """Start a process, kill it with SIGKILL in the middle, and return the session."""
    command, env = story.command("outrider.cli.demo.long_day", str(_log_folder(story)))
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        try:
            assert process.stdout
            name = process.stdout.readline().strip()
            room = ""
            while not room.endswith(f"room {KILLED_IN - 1}"):
                room = process.stdout.readline().strip()
                if not room:
                    raise RuntimeError("the first process ended early")
        finally:
            process.kill()
    _tell(story, f"A process walks to room {KILLED_IN - 1}", "kill -9")
    return name


def _finish_in_an_editor(story: Story, name: str) -> tuple[int, str]:
    """Load the session in `outrider acp` and send a prompt. Return the number of calls shown, and how it ended."""
    with running_agent(story, "--model", "demo") as process:
        editor = Editor(process, story, shows=False)
        editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        editor.ask("session/load", sessionId=name, cwd=str(story.folder), mcpServers=[])
        calls = {update["toolCallId"] for update in editor.updates if update["sessionUpdate"] == "tool_call"}
        ended = editor.ask("session/prompt", sessionId=name, prompt=[{"type": "text", "text": SUM}])
    return len(calls), str(ended["stopReason"])


def _log_folder(story: Story) -> Path:
    """Return where `outrider acp` of this demo finds its sessions."""
    return story.folder / "home" / "sessions"


def _tell(story: Story, what: str, outcome: str) -> None:
    story.print_lines(f"  {what:<50} {outcome}")


ROOMS, KILLED_IN = 40, 20
WINDOW = 8_000
PROMPT = f"Walk through all {ROOMS} rooms and remember the codes."
QUESTION = "What is the code of room 3?"


def code(room: int) -> str:
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
