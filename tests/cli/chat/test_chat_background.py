"""Sub-agents in the background of a chat: the turn ends, they work on, ask, are followed and stopped, and wake it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.chat.terminal import Terminal, answered_by, until
from tests.modelserver import Held, ModelServer, Recorded, Step
from tests.streams import Answer

PARTS = ("one", "two", "six")


def task(name: str) -> tuple[str, str, dict[str, object]]:
    given = {"description": f"look at {name}", "prompt": f"Task {name}: do it.", "run_in_background": True}
    return f"c{name}", "Task", given


def answer(request: Recorded) -> Step:
    """The first speaks until it is released, the second asks a question first, the third never ends by itself."""
    messages = request.json["messages"]
    first, last = str(messages[0]), str(messages[-1])
    part = next((part for part in PARTS if f"Task {part}:" in first), "")
    if not part:
        if "[Sub-agent" in last:
            told = re.findall(r"look at (\w+)\) (has finished|was stopped)", last)
            return Answer(f"I heard of {told[-1][0]}: {told[-1][1]}.")
        return Answer("I go on.") if len(messages) > 1 else Answer("Three.", tuple(map(task, PARTS)))
    if part == "two":
        call = ("w1", "Write", {"file_path": "two.txt", "content": "made by two\n"})
        return Answer("I write.", (call,)) if len(messages) == 1 else Answer("Two is written.")
    return Held(Answer(f"Part {part} says a lot, and then it ends here."))


async def test_the_turn_ends_and_they_work_on(project: Path) -> None:
    async with (
        ModelServer(answer) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Go")
        await terminal.wait_for("I go on.")
        # One asks between turns, by its name; or at once, if it comes before the turn has ended.
        await terminal.wait_for(re.compile("General: look at two asks(:| something)"))
        if "look at two asks something. Press Enter to see it." in terminal.screen:
            await terminal.wait_for(re.compile(r"· 3 tasks"))
            terminal.say("")
        await terminal.wait_for("General: look at two asks:")
        await terminal.wait_for("y yes, once")
        terminal.press("y")
        await terminal.wait_for("General: look at two has finished.")  # which begins a turn
        await terminal.wait_for("I heard of two: has finished.")
        assert (project / "two.txt").read_text() == "made by two\n"
        await terminal.wait_for_prompt()
        await until(lambda: sum("Task" in str(each.json["messages"][0]) for each in server.requests) >= 4, what="both")
        terminal.say("/tasks")
        await terminal.wait_for(re.compile(r"[0-9a-f]{8}  running      General: look at one"))
        await terminal.wait_for(re.compile(r"[0-9a-f]{8}  ended        General: look at two"))
        listed = re.findall(r"([0-9a-f]{8})  \w+ +General: look at (\w+)", terminal.transcript)
        ids = {name: found for found, name in listed}
        terminal.say(f"/tasks {ids['one']}")
        await terminal.wait_for("› Task one: do it.")
        await terminal.wait_for("Part one says a lot,")
        terminal.press("escape")
        await terminal.wait_until_gone("› Task one: do it.")
        await terminal.wait_for_prompt()
        terminal.say("/model anthropic/claude-opus-4-5")  # they work on
        await terminal.wait_for("Model: anthropic/claude-opus-4-5.")
        terminal.say(f"/tasks end {ids['six']}")
        await terminal.wait_for(f"Sub-agent {ids['six']} was stopped; the model is told.")
        await terminal.wait_for("I heard of six: was stopped.")
        await terminal.wait_for_prompt()
        terminal.say("/tasks end 01234567")
        await terminal.wait_for("There is no sub-agent 01234567")
        server.release.set()
        await terminal.wait_for("I heard of one: has finished.")
        await terminal.wait_for_prompt()
