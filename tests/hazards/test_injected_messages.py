"""Messages of the runtime, with files that a result cannot hold or a reminder, are not in the conversation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider import Agent, Attachment, Limits, Log, Session, ToolResult, dumps
from outrider.log.entries import Requested
from outrider.providers.rendering.render import MOVED
from outrider.runtime.events import Event
from outrider.testing import ScriptedModel
from tests.acp.editor import introduced
from tests.adapters import Case, each
from tests.cli.chat.terminal import Terminal, at_the_prompt_with
from tests.cli.program import outrider
from tests.conversations import PNG_BYTES
from tests.modelserver import ModelServer
from tests.streams import Answer

LOOKING = [Answer(calls=(("c1", "Read", {"file_path": "chart.png"}),)), Answer("A red square.")]
FINAL_TURN = "This is your FINAL turn"
WHERE = "is shown after the tool results"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "chart.png").write_bytes(PNG_BYTES)
    return folder


def answered_by(server: ModelServer) -> dict[str, Any]:
    """An environment in which the server is a model that takes no pictures in results."""
    return {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.url, "OUTRIDER_MODEL": "openai-chat/gpt-5.6"}


def check_private(shown: str) -> None:
    """The file is there, and nothing that the runtime says to the model about it."""
    assert "chart.png" in shown
    assert MOVED not in shown
    assert WHERE not in shown


@each(Case("openai-chat", "gpt-5.6"), Case("gemini", "gemini-2.5-pro"))
async def test_they_are_marked_in_the_request_and_are_in_no_event_no_history_and_no_log(
    tmp_path: Path, case: Case
) -> None:
    async def chart() -> ToolResult:
        return ToolResult("Here.", attachments=[Attachment(PNG_BYTES, name="chart.png")])

    events: list[Event] = []
    async with ModelServer([Answer(calls=(("c1", "chart", {}),)), Answer("A red square.")]) as server:
        agent = Agent(model=case.adapter(server.url, key="k"), tools=[chart])
        with Log(tmp_path) as log, Session.open(log, agent=agent, observer=events.append) as session:
            conversation = (await session.run("Draw it.")).conversation
            recorded = [record.entry for record in log.records(session.id)]
    body = server.requests[1].body.decode()
    assert MOVED in body
    assert f"chart.png {WHERE}" in body
    for shown in (dumps(conversation), msgspec.json.encode(events).decode(), msgspec.json.encode(recorded).decode()):
        check_private(shown)
    assert [message.role for message in conversation] == ["user", "assistant", "user", "assistant"]


async def test_a_reminder_is_in_no_event_and_no_history_and_the_log_has_it_with_the_request(tmp_path: Path) -> None:
    events: list[Event] = []
    model = ScriptedModel(["Hello."])
    with Log(tmp_path) as log, Session.open(log, agent=Agent(model), observer=events.append) as session:
        conversation = (await session.run("Hi.", limits=Limits(max_turns=1))).conversation
        recorded = [record.entry for record in log.records(session.id)]
    assert FINAL_TURN in model.requests[0].reminder
    for shown in (dumps(conversation), msgspec.json.encode(events).decode()):
        assert "Hello." in shown
        assert FINAL_TURN not in shown
    holders = [entry for entry in recorded if FINAL_TURN in msgspec.json.encode(entry).decode()]
    assert [type(entry) for entry in holders] == [Requested]


@pytest.mark.long
async def test_the_chat_shows_the_file_and_the_wire_shows_everything(folder: Path) -> None:
    async with ModelServer(LOOKING) as server, Terminal(cwd=folder, **answered_by(server)) as terminal:
        await at_the_prompt_with(terminal, "Look at it.")
        check_private(terminal.flowing)
        assert MOVED in server.requests[1].body.decode()
    (session,) = json.loads(outrider("sessions", "--json", cwd=folder).stdout)
    seen = outrider("wire", session["id"], "--as", "openai-chat/gpt-5.6", cwd=folder)
    assert MOVED in seen.stdout
    assert f"chart.png {WHERE}" in seen.stdout
    assert "data:image/png;base64,iVBOR" in seen.stdout


async def test_an_editor_shows_the_file(folder: Path) -> None:
    async with ModelServer(LOOKING) as server, introduced(**answered_by(server)) as editor:
        session = await editor.new(folder)
        assert await editor.prompt(session, "Look at it.") == "end_turn"
        assert MOVED in server.requests[1].body.decode()
        check_private(json.dumps(editor.received))
        kinds = [item["content"]["type"] for item in editor.seen(session).call("Read")["content"]]
        assert "image" in kinds
