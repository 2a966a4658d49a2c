"""Relative paths of attachments are those of the session's folder, wherever the process runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Attachment, Session, ToolResult, tool
from outrider.conversation.messages import files_in
from outrider.testing import ScriptedModel, call
from outrider.tools.context import ToolContext


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The session's folder; a file of the same name is in the folder of the process."""
    for name, text in (("session", "the right one"), ("process", "the wrong one, and longer")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(text)
    monkeypatch.chdir(tmp_path / "process")
    return tmp_path / "session"


@tool
def by_result() -> ToolResult:
    """Return a path."""
    return ToolResult("here", ["a.txt"])


@tool
def by_attachment() -> Attachment:
    """Return an attachment."""
    return Attachment(Path("a.txt"))


@tool
def by_context(context: ToolContext) -> str:
    """Attach a path."""
    context.attach("a.txt")
    return "here"


def sizes(session: Session) -> list[int]:
    return [file.size for message in session.messages for file in files_in(message)]


async def test_a_prompt_attaches_from_the_folder_of_the_session(folder: Path) -> None:
    session = Session(Agent(model=ScriptedModel(["ok"])), cwd=folder)
    assert (await session.run(["Look.", Attachment.from_path("a.txt")])).status == "done"
    assert sizes(session) == [len("the right one")]


@pytest.mark.parametrize("used", [by_result, by_attachment, by_context])
async def test_a_tool_attaches_from_the_folder_of_the_session(folder: Path, used: Any) -> None:
    model = ScriptedModel([call(used.name), "ok"])
    session = Session(Agent(model=model, tools=[used]), cwd=folder)
    assert (await session.run("Look.")).status == "done"
    assert sizes(session) == [len("the right one")]
