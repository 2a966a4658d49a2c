"""Story 2: a tool returns a chart and a PDF, and each API receives them in its own form."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.sync import default_log
from tests.adapters import ONE_EACH, Case
from tests.cli.asking import ask, everywhere
from tests.cli.chat.terminal import Terminal
from tests.modelserver import ModelServer, Recorded
from tests.oracles import problems
from tests.readback import items_of
from tests.stories.looking import conversation_in, leave
from tests.stories.picture import take_picture
from tests.streams import Answer, Json

PAGE = Path(__file__).parents[2] / "docs" / "stories" / "2-a-picture-from-a-tool.md"
RIDERS = {"Ulm": 90, "Bonn": 140, "Kiel": 60}
CALL = ("call_draw", "draw_riders", {"riders": RIDERS})
ANSWERS = ("Bonn has the most: 140.", "Bonn.", "Bonn, by the tallest bar.", "It is Bonn, with 140 riders.")
"""What each of the models says."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the tool that the page of the story shows."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (tool,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    (folder / "riders.py").write_text(tool)
    return folder


@pytest.mark.long
async def test_files_of_a_tool_reach_each_api_in_its_own_form_and_are_no_part_of_the_history_on_disk(
    project: Path, own_data_folder: Path
) -> None:
    replies = [Answer("I'll draw them.", (CALL,)), *map(Answer, ANSWERS)]
    async with ModelServer(replies) as server:
        session = await draw_in_a_chat(server, project)
        for case, answer in zip(ONE_EACH[1:], ANSWERS[1:], strict=True):
            goes_on = ("--resume", session, "-p", "Who has the most?", "--model", case.name, "--tools", "riders.py")
            ended = await ask(server, *goes_on, cwd=project)
            assert (ended.returncode, ended.stdout) == (0, f"{answer}\n")
    chart, page = (project / "riders.png").read_bytes(), (project / "riders.pdf").read_bytes()
    assert chart.startswith(b"\x89PNG")
    assert page.startswith(b"%PDF")
    for case, request in zip(ONE_EACH, server.requests[1:], strict=True):
        check_request(case, request, session, chart, page)
    check_disk(own_data_folder, chart, page)
    await look_at_the_session(session, project)


async def draw_in_a_chat(server: ModelServer, project: Path) -> str:
    """Ask for the chart with the first model, agree to the call, see the files named, and leave."""
    given, home = everywhere(server), str(project.parent)
    async with Terminal(
        "--tools", "riders.py", cwd=project, columns=100, lines=30, **given | {"HOME": home}
    ) as terminal:
        await terminal.wait_for_prompt()
        terminal.say("Draw the riders: Ulm 90, Bonn 140, Kiel 60. Who has the most?")
        await terminal.wait_for("esc cancel")
        terminal.press("y")
        await terminal.wait_for(ANSWERS[0])
        await terminal.wait_for_prompt()
        assert re.search(r"^    ▣ riders\.png, PNG, 210 × 220, ", terminal.screen, re.M)
        assert re.search(r"^    ▣ riders\.pdf, PDF, ", terminal.screen, re.M)
        session = await leave(terminal)
        take_picture("2-chat", terminal)
        return session


def check_request(case: Case, request: Recorded, session: str, chart: bytes, page: bytes) -> None:
    """The very bytes, in the place and the form that the API has for them, and nothing else wrong with the request."""
    assert request.api == case.api
    with default_log() as log:
        said = log.messages(session)[: 3 + 2 * ONE_EACH.index(case)]
        assert problems(case, request.json, said, log.files(session)) == []
    items = items_of(case.api, request.json)
    files = [item for item in items if item.kind == "file"]
    assert [base64.b64decode(file.data) for file in files] == [chart, page]
    (result,) = (item for item in items if item.kind == "result")
    shown = conversation_in(request.json)[result.place : files[-1].place + 1]
    assert shown == in_its_own_form(case.api, *(base64.b64encode(data).decode() for data in (chart, page)))


def in_its_own_form(api: str, chart: str, page: str) -> list[Json]:
    """The result of the call with its files, from base64."""
    image_url, file_data = f"data:image/png;base64,{chart}", f"data:application/pdf;base64,{page}"
    if api == "anthropic":
        picture = {"type": "base64", "media_type": "image/png", "data": chart}
        document = {"type": "base64", "media_type": "application/pdf", "data": page}
        content = [
            {"type": "text", "text": "Drawn."},
            {"type": "text", "text": "riders.png:"},
            {"type": "image", "source": picture},
            {"type": "document", "title": "riders.pdf", "source": document},
        ]
        return [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_draw", "content": content}]}]
    if api == "openai":
        output = [
            {"type": "input_text", "text": "Drawn."},
            {"type": "input_text", "text": "riders.png:"},
            {"type": "input_image", "detail": "auto", "image_url": image_url},
            {"type": "input_file", "filename": "riders.pdf", "file_data": file_data},
        ]
        return [{"type": "function_call_output", "call_id": "call_draw", "output": output}]
    if api == "openai-chat":
        notes = "[riders.png is shown after the tool results]\n[riders.pdf is shown after the tool results]"
        moved = [
            {"type": "text", "text": "[Files of the tool results above, added by the runtime]"},
            {"type": "text", "text": "riders.png, from draw_riders (call call_draw):"},
            {"type": "image_url", "image_url": {"url": image_url}},
            {"type": "text", "text": "riders.pdf, from draw_riders (call call_draw):"},
            {"type": "file", "file": {"filename": "riders.pdf", "file_data": file_data}},
        ]
        result = {"role": "tool", "tool_call_id": "call_draw", "content": f"Drawn.\n{notes}"}
        return [result, {"role": "user", "content": moved}]
    said = {"output": "Drawn.\nriders.png:\n[attached as file 1]\nriders.pdf:\n[attached as file 2]"}
    parts = [
        {"inlineData": {"mimeType": "image/png", "data": chart}},
        {"inlineData": {"mimeType": "application/pdf", "data": page}},
    ]
    response = {"name": "draw_riders", "response": said, "parts": parts}
    return [{"role": "user", "parts": [{"functionResponse": response}]}]


def check_disk(folder: Path, *files: bytes) -> None:
    """The store has each file once, under its hash; what else is on disk has no piece of them, raw or in base64.

    Snapshots of the working folder are copies of its files, and no part of the history.
    """
    paths = [path for path in folder.rglob("*") if path.is_file() and "snapshots" not in path.parts]
    stored = [path for path in paths if "attachments" in path.parts]
    assert sorted(path.read_bytes() for path in stored) == sorted(files)
    others = [path for path in paths if path not in stored]
    assert folder / "sessions" / "log.db" in others
    for path in others:
        content = path.read_bytes()
        assert not [piece for data in files for piece in pieces_of(data) if piece in content], path


def pieces_of(data: bytes) -> Iterator[bytes]:
    """Pieces of a file that are its own, as they are and in base64; a stretch of zeros may stand anywhere."""
    for start in range(0, len(data) - 30, 30):
        piece = data[start : start + 30]
        if len(set(piece)) > 10:
            yield from (piece, base64.b64encode(piece))


async def look_at_the_session(session: str, project: Path) -> None:
    """The history as the program tells it: one conversation, four models, files by name."""
    async with Terminal("sessions", "show", session, cwd=project, columns=100, lines=40) as terminal:
        assert await terminal.exit_code() == 0
        assert terminal.screen.count("riders.png, image/png, ") == 2, "it came, and a result has it"
        assert all(case.name in terminal.transcript for case in ONE_EACH)
        take_picture("2-session", terminal)
