"""Story 3: an editor shows a build, is asked about an edit and cancels a server; another editor loads it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import Editor, introduced, selecting
from tests.acp.seen import Seen
from tests.cli.asking import everywhere
from tests.cli.program import clean_environment, outrider
from tests.interop import installing
from tests.modelserver import ModelServer
from tests.processes import is_running
from tests.stories.shell_picture import take_picture_of_shell
from tests.streams import Answer

HERE = Path(__file__).parent
STEPS = ("compile", "check")
BUILD = f"""\
for step in {" ".join(STEPS)}; do
  for unit in $(seq 40); do echo "$step: unit $unit of 40 is done, nothing to complain of"; sleep 0.002; done
  until [ -e "$step.seen" ]; do sleep 0.02; done
done
echo "The build is complete."
"""
"""Each step waits until somebody has seen the whole of it: what is only shown at the end would never come."""
SERVE = 'echo $$ > pid; echo "listening on port 8000"; sleep 60'
OLD, NEW = 'VERSION = "1.9"', 'VERSION = "2.0"'
EDIT = {"file_path": "version.py", "old_string": OLD, "new_string": NEW}
WORK = [
    Answer("I run the build.", (("build", "Bash", {"command": "sh build.sh"}),)),
    Answer("It is complete."),
    Answer("I read it first.", (("read", "Read", {"file_path": "version.py"}),)),
    Answer("", (("edit", "Edit", EDIT),)),
    Answer("This is version 2.0."),
    Answer("", (("serve", "Bash", {"command": "sh serve.sh"}),)),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "build.sh").write_text(BUILD)
    (folder / "serve.sh").write_text(SERVE)
    (folder / "version.py").write_text(f"{OLD}\n")
    return folder


async def test_an_editor_watches_and_another_one_sees_the_same_later(project: Path, tmp_path: Path) -> None:
    metrics = tmp_path / "updates.jsonl"
    async with ModelServer(WORK) as server:
        async with introduced("--metrics", str(metrics), name="editor", **answered_by(server)) as editor:
            session = await editor.new(project)
            await watches_a_build(editor, session, project)
            await is_asked_about_an_edit(editor, session, project)
            await cancels_a_server(editor, session, project)
            assert await editor.close() == 0
        assert len(server.requests) == len(WORK)
    *earlier, last = map(json.loads, metrics.read_text().splitlines())
    assert earlier
    assert [line["ended"] for line in (*earlier, last)] == [*(False for _ in earlier), True]
    add_up(last, editor, session)
    live = editor.seen(session).lasting()
    async with introduced(name="another") as another:
        await another.load(session, project)
        assert another.seen(session).lasting() == live
        assert await another.close() == 0
    look_at_it_in_a_terminal(session, metrics)


@pytest.mark.long
async def test_an_editor_of_another_maker_sees_the_same_later(project: Path) -> None:
    """With the official Python SDK of the protocol, in a process of its own."""
    python = installing.python_sdk()
    async with (
        ModelServer(WORK[2:]) as server,
        introduced(**answered_by(server)) as editor,
    ):
        session = await editor.new(project)
        await is_asked_about_an_edit(editor, session, project)
        await cancels_a_server(editor, session, project)
        assert await editor.close() == 0
    agent = json.dumps([sys.executable, "-m", "outrider", "acp"])
    client = [str(python), str(HERE / "loading_client.py"), agent, session, str(project), "[]"]
    ended = await asyncio.to_thread(
        subprocess.run, client, env=clean_environment(), capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    again = Seen()
    for update in json.loads(ended.stdout)["told"]:
        again.take(update)
    live = editor.seen(session)
    for call in live.calls.values():
        del call["name"]  # newer than the SDK, which leaves it out
    assert again.lasting() == live.lasting()


def answered_by(server: ModelServer) -> dict[str, Any]:
    return {**everywhere(server)}


async def watches_a_build(editor: Editor, session: str, project: Path) -> None:
    """Each step is seen while the command runs."""
    editor.handlers["session/request_permission"] = selecting("once")
    request = editor.say(session, "Build it.")
    live = editor.seen(session)
    for step in STEPS:
        await editor.until(lambda: f"{step}: unit 40" in shown(live, "build"), f"the end of {step}")  # noqa: B023
        assert live.calls["build"]["status"] == "in_progress"
        (project / f"{step}.seen").touch()
    assert await editor.answer(request) == {"stopReason": "end_turn"}
    assert live.calls["build"]["status"] == "completed"
    assert "compile: unit 1 of 40" in shown(live, "build")
    assert "The build is complete." in shown(live, "build")


async def is_asked_about_an_edit(editor: Editor, session: str, project: Path) -> None:
    """The question shows what would be changed, and before the answer nothing is."""
    version = project / "version.py"
    asked: list[tuple[str, Any]] = []

    def person(question: Any) -> Any:
        asked.append((version.read_text(), question["toolCall"]["content"]))
        return selecting("once")(question)

    editor.handlers["session/request_permission"] = person
    assert await editor.prompt(session, "Make it version 2.0.") == "end_turn"
    [(before, content)] = asked
    call = editor.seen(session).calls["edit"]
    (difference,) = (item for item in call["content"] if item["type"] == "diff")
    assert (difference["path"], difference["oldText"], difference["newText"]) == (
        str(version),
        f"{OLD}\n",
        f"{NEW}\n",
    )
    assert difference in content
    assert (before, version.read_text()) == (f"{OLD}\n", f"{NEW}\n")
    assert call["status"] == "completed"


async def cancels_a_server(editor: Editor, session: str, project: Path) -> None:
    """In the middle of its work: the call is answered, and the process is gone."""
    request = editor.say(session, "Start the server.")
    live = editor.seen(session)
    await editor.until(lambda: "listening" in shown(live, "serve"), "a server")
    pid = project / "pid"
    assert is_running(pid)
    editor.tell("session/cancel", sessionId=session)
    assert await editor.answer(request) == {"stopReason": "cancelled"}
    assert live.calls["serve"]["status"] == "failed"
    assert not live.open_calls
    await editor.until(lambda: not is_running(pid))


def add_up(metrics: dict[str, Any], editor: Editor, session: str) -> None:
    """What was sent is what has arrived, to the byte, and it is a part of what was wanted."""
    updates, size = metrics["updates"], metrics["bytes"]
    arrived = [
        (line, message["params"]["update"])
        for line, message in zip(editor.lines, editor.received, strict=True)
        if "toolCallId" in message.get("params", {}).get("update", ())
    ]
    calls = list(editor.seen(session).calls)
    assert calls == ["build", "read", "edit", "serve"]
    assert (metrics["session"], metrics["client"]) == (session, "editor")
    assert updates["sent"] == len(arrived) < updates["wanted"]
    assert size["sent"] == sum(len(line) for line, _ in arrived) < size["wanted"]
    assert size["saved"] == size["wanted"] - size["sent"]
    for field in metrics["fields"].values():
        assert field["saved"] == field["wanted"] - field["sent"]
    for said_once in ("kind", "rawInput"):
        assert [update["toolCallId"] for _, update in arrived if said_once in update] == calls
    assert (metrics["refused"], metrics["failed"]) == (0, 0)


def look_at_it_in_a_terminal(session: str, metrics: Path) -> None:
    """The session of the editor is one like all others."""
    shown = outrider("sessions", "show", session[:8]).stdout
    assert re.search(r"result +compile: unit 1 of 40", shown)
    assert re.search(
        r"unknown +The call was cancelled before it finished\.[^\n]*\s+listening on port 8000",
        shown,
    )
    counts = json.loads(metrics.read_text().splitlines()[-1])
    sums = (json.dumps(counts[name], separators=(",", ":")) for name in ("updates", "bytes"))
    lines = (line for line in shown.splitlines() if " settings " not in line)  # it names the folder of the test
    take_picture_of_shell(
        "3-watching-from-an-editor",
        ("tail -1 updates.jsonl | jq -c '.updates, .bytes'", "\n".join(sums)),
        (f"outrider sessions show {session[:8]} | grep -v settings", "\n".join(lines)),
    )


def shown(seen: Seen, call: str) -> str:
    """The text that stands in a call now."""
    content = seen.calls.get(call, {}).get("content", ())
    return "".join(item["content"]["text"] for item in content if item["type"] == "content")
