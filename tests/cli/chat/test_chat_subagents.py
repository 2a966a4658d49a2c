"""The steps of a sub-agent while it works: Ctrl-O opens them, Esc goes back."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.chat.terminal import Terminal, answered_by, until
from tests.modelserver import Held, ModelServer, Recorded, Step
from tests.streams import Answer

PARTS = {"one": "c1", "two": "c2"}


def task(name: str) -> tuple[str, str, dict[str, object]]:
    return PARTS[name], "Task", {"description": f"look at {name}", "prompt": f"Task {name}: read the notes."}


def answer(request: Recorded) -> Step:
    """The parent starts two sub-agents; each reads a file, and then speaks until it is released."""
    messages = request.json["messages"]
    said = str(messages[0])
    part = next((part for part in PARTS if f"Task {part}:" in said), "")
    if not part:
        return Answer("All done.") if len(messages) > 1 else Answer("I ask two.", (task("one"), task("two")))
    if len(messages) == 1:
        return Answer(f"Part {part} begins.", ((f"r{part}", "Read", {"file_path": "notes.txt"}),))
    return Held(Answer(f"Part {part} says a lot, and then it ends here."))


async def test_the_steps_of_a_subagent_are_shown_as_they_come(project: Path) -> None:
    async with (
        ModelServer(answer) as server,
        Terminal("--permissions", "all", cwd=project, PAGER="cat", **answered_by(server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say("Look")
        await terminal.wait_for("Ctrl-O shows the steps")
        await until(lambda: len(server.requests) >= 5, what="both to speak")
        terminal.type("\x0f")
        await terminal.wait_for(re.compile(r"\w+: look at two"))
        await terminal.wait_for("› Task two: read the notes.")
        await terminal.wait_for("Part two begins.")
        await terminal.wait_for(re.compile(r"✓ Read\(notes.txt\)"))
        await terminal.wait_for("Part two says a lot,")  # still being written
        terminal.press("left")
        await terminal.wait_for("Part one begins.")
        await terminal.wait_until_gone("Part two begins.")
        terminal.press("escape")
        await terminal.wait_for("Ctrl-O shows the steps")  # the turn goes on
        assert "Part one begins." not in terminal.screen
        terminal.type("\x0f")
        await terminal.wait_for("Part two begins.")  # the newest
        server.release.set()
        await terminal.wait_for("All done.")
        await terminal.wait_for_prompt()
        terminal.say("/tree")
        await terminal.wait_for("/tree ID shows")
        found = re.search(r"([0-9a-f]{8})  \w+: look at two", terminal.screen)
        assert found
        terminal.say(f"/tree {found[1]}")
        await terminal.wait_for("Part two says a lot, and then it ends here.")
