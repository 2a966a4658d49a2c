"""Any run, live and loaded again: the editor shows the same calls, content, terminals and exits."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import example, given, settings
from hypothesis import strategies as st

from outrider import Agent, Attachment, Log, Session, ToolContext, tool, with_subagents
from outrider.acp.turns import replay_session
from outrider.coding.toolbox.shell.outcomes import to_result
from outrider.coding.toolbox.shell.output import Outcome, Output, Reader
from outrider.conversation.messages import Message, ServerToolResultBlock, ServerToolUseBlock, ThinkingBlock
from outrider.runtime.events import Event, ToolProgress
from outrider.testing import call, malformed_call
from outrider.tools.result import ToolResult
from tests.acp.test_event_translator import FOLDER, Watched
from tests.acp.test_prompting import PNG
from tests.lengths import examples
from tests.subagents.teams import HELPER, play, task

CANCELS = "sleep"
"""A command that runs until the turn is cancelled."""
WAITS = {"output": ""}
"""What it says when it runs."""
Run: TypeAlias = tuple[list[Any], list[Any]]
"""The replies of one run: those with calls, and the last one."""


@tool(name="Bash", effect="write")
async def bash(context: ToolContext, command: str, printed: str = "", code: int = 0) -> ToolResult:
    """Print, and end as the real tool does."""
    output = Output(Path(tempfile.mkdtemp()) / "spool")
    source, sink = os.pipe()
    os.set_blocking(source, False)
    os.write(sink, printed.encode())
    reader = Reader(source, output, context.progress)
    reader.read(0.001)
    cause: Any = "timed out" if command == "slow" else "ended"
    if command == CANCELS:
        context.progress(WAITS)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cause = "stopped"
    os.close(sink)
    reader.finish()
    os.close(source)
    return to_result(Outcome(cause, code, 0.1, 0, 0), output, 60, FOLDER, ["A note."] if code == 1 else [])


@tool(name="Read", effect="read")
def read(file_path: str) -> ToolResult:
    """Return a picture, a text, or fail."""
    if file_path == "missing":
        raise ValueError("there is no such file")
    return ToolResult("It is here.", [Attachment(PNG, name="p.png")] if file_path == "p.png" else [])


@tool(name="Edit", effect="write")
def edit(file_path: str, old_string: str, new_string: str) -> ToolResult:
    """Change nothing, and say so or not."""
    diff = f"@@ -3 +3 @@\n-{old_string}\n+{new_string}\n"
    return ToolResult("Changed.", is_error=file_path == "missing", details={"path": file_path, "diff": diff})


words = st.sampled_from(["one", "two\n", "## three\n\n", "`", "\x1b[31mred\x1b[0m", "tick 1\rtick 2\n"])
printed = st.lists(words | st.sampled_from(["\n\n", " "]), max_size=4).map("".join) | st.just("line\n" * 5_000)
names = st.sampled_from(["a.txt", "missing", "p.png"])
calls = st.one_of(
    st.builds(lambda text, code: call("Bash", command="run", printed=text, code=code), printed, st.integers(0, 2)),
    st.builds(lambda text: call("Bash", command="slow", printed=text), printed),
    st.builds(lambda name: call("Read", file_path=name), names),
    st.builds(lambda name: call("Edit", file_path=name, old_string="a", new_string="b"), names),
    st.sampled_from([call("Read"), call("NoSuchTool", x=1), malformed_call("Bash", '{"comm'), call("Bash")]),
)
SILENT, STOPPED = call("Bash", command=CANCELS), call("Bash", command=CANCELS, printed="1\n")
stops = st.builds(lambda text: call("Bash", command=CANCELS, printed=text), printed)
uses = st.builds(lambda name: ServerToolUseBlock("search", name, {"query": "ferries"}), st.just("web_search"))
found = st.builds(ServerToolResultBlock, st.just("search"), words | st.just(""), st.booleans())
searches = st.builds(lambda use, results: (use, *results), uses, st.lists(found, max_size=1))
said = st.one_of(words.map(lambda text: (text,)), st.builds(lambda text: (ThinkingBlock(text),), words), searches)
bodies = st.lists(said, max_size=3).map(lambda parts: [block for part in parts for block in part])
working = st.builds(lambda body, made: [*body, *made], bodies, st.lists(calls, min_size=1, max_size=3))
answers = bodies.map(lambda body: [*body, "Done."])
children = st.tuples(working, answers).map(list)
sending = st.builds(lambda body: [*body, task("help")], bodies)
turns = st.lists(working | sending, max_size=3)
runs = st.lists(st.tuples(turns, answers | stops.map(lambda use: [use])), min_size=1, max_size=3)


def seen_by(watched: Watched) -> Any:
    """All that lasts on the screen."""
    seen = watched.end()
    assert not seen.open_calls
    return seen.lasting()


async def follow(planned: Sequence[Run], helping: Sequence[Any], log: Log, watched: Watched) -> str:
    """Run a session that an editor watches; return its id."""
    model = play([step for turns, last in planned for step in (*turns, last)], {"help": helping})
    agent = with_subagents(Agent(model=model, tools=[bash, read, edit]), [HELPER])

    def observe(event: Event) -> None:
        watched.translator.handle(event)
        if isinstance(event, ToolProgress) and event.content == WAITS:
            asyncio.get_running_loop().call_soon(session.cancel)

    async with Session.open(log, agent=agent, cwd=FOLDER) as session:
        session.observe(observe)
        for number in range(len(planned)):
            watched.sender.send_user_message(Message.user(f"Prompt {number}"))
            await session.run(f"Prompt {number}")
        return session.id


async def live_and_loaded(planned: Sequence[Run], helping: Sequence[Any], appends: bool) -> tuple[Any, Any]:
    with tempfile.TemporaryDirectory() as folder, Log(Path(folder)) as log:
        live, loaded = Watched(appends=appends), Watched(appends=appends)
        session = await follow(planned, helping, log, live)
        loaded.translator.is_replaying = True
        for event in replay_session(log, session):
            loaded.translator.handle(event)
        return seen_by(live), seen_by(loaded)


SEARCHED = ServerToolUseBlock("search", "web_search", {"query": "ferries"})
ANSWERED = [[call("Read", file_path="p.png")], ["It is a picture."]]


@settings(max_examples=examples(40))
@given(runs, children, st.booleans())
@example([([], [SEARCHED, "Cut"]), ([], [SEARCHED, ServerToolResultBlock("search", "Two."), "Done."])], ANSWERED, False)
@example([([[call("Bash", command="run", printed="1\n2\n", code=1)]], [STOPPED])], ANSWERED, True)
@example([([[call("Bash", command="run"), call("Bash", command="slow")]], [SILENT])], ANSWERED, True)
@example([([[task("help")]], ["Done."])], ANSWERED, True)
def test_a_loaded_session_looks_as_it_did_live(planned: list[Run], helping: list[Any], appends: bool) -> None:
    live, loaded = asyncio.run(live_and_loaded(planned, helping, appends))
    assert loaded == live
