"""Hazard: a tool that attaches whatever path the model names. Where there are permissions, they hold for it too."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Allow, Attachment, Deny, Session, ToolResult, tool
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.permissions.question import Answer, Ask, Question
from outrider.coding.workbench import Workbench
from outrider.conversation.messages import ToolResultBlock, ToolUseBlock
from outrider.environment import config_file
from outrider.runtime.events import Event, Notice, SubagentEvent
from outrider.testing import ScriptedModel, call
from outrider.tools.context import ToolContext
from outrider.tools.tool import Tool
from tests.acp.editor import introduced, selecting
from tests.cli.asking import ask as ask_program
from tests.cli.asking import everywhere, messages
from tests.conversations import PNG_BYTES as PNG
from tests.modelserver import Answer as Scripted
from tests.modelserver import ModelServer
from tests.subagents.teams import bench_in, play, results_of, task

SECRET, ELSEWHERE = b"PASSWORD=correct-horse", b"the neighbour's diary"
MODES = ("ask", "edits", "all", "plan")


@tool(effect="read")
def returned(path: str) -> Attachment:
    """Give back a file."""
    return Attachment.from_path(path)


@tool(effect="read")
def among_others(path: str) -> ToolResult:
    """Give back a file with a picture."""
    return ToolResult("two", [Attachment(PNG, name="chart.png"), Attachment.from_path(path)])


@tool(effect="read")
def by_name(path: str) -> ToolResult:
    """Give back the path of a file."""
    return ToolResult("one", attachments=[path])  # type: ignore[list-item]


@tool(effect="read")
def by_context(path: str, context: ToolContext) -> str:
    """Attach a file."""
    context.attach(path)
    return "attached"


@tool(effect="read")
def as_whole(path: str) -> ToolResult:
    """Give back a part, and say where the whole is."""
    return ToolResult("a part", whole=Attachment.from_path(path))


WAYS = (returned, among_others, by_name, by_context, as_whole)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a secret, beside somebody else's file, with links to both."""
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "diary.txt").write_bytes(ELSEWHERE)
    (folder / ".env").write_bytes(SECRET)
    (folder / "notes.txt").write_bytes(b"my own notes")
    (folder / "config.txt").symlink_to(".env")
    (folder / "diary.txt").symlink_to("../diary.txt")
    (folder / "id_rsa").symlink_to("notes.txt")
    return folder


class Seen:
    """What came of one call in a session of the terminal program or an editor."""

    def __init__(self, session: Session, events: list[Event]) -> None:
        self.session = session
        self.result: ToolResultBlock = results_of(session)[0]
        self.notices = [event.text for event in events if isinstance(event, Notice)]

    @property
    def contents(self) -> list[bytes]:
        """All that the model could get to see."""
        files = [*self.result.attachments, *([self.result.whole] if self.result.whole else [])]
        return [self.session.store.read(file) for file in files]


async def attached(bench: Workbench, way: Tool, path: Path) -> Seen:
    events: list[Event] = []
    model = ScriptedModel([[call(way.name, path=str(path))], "Fine."])
    agent = bench.agent(model=model)  # type: ignore[arg-type]
    session = Session(agent, cwd=bench.folder, approve=bench.permissions, observer=events.append)
    try:
        assert (await session.run("go")).text == "Fine."  # the turn goes on
    finally:
        bench.close()
    return Seen(session, events)


def bench_of(folder: Path, mode: str = "ask", ask: Ask | None = None, **settings: Any) -> Workbench:
    return bench_in(folder, ask, own=WAYS, permissions__mode=mode, **settings)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [".env", "config.txt", "id_rsa", "../project/.env"])
async def test_secrets_stay_closed_in_every_mode_and_by_every_way(
    folder: Path, mode: str, way: Tool, name: str
) -> None:
    seen = await attached(bench_of(folder, mode), way, folder / name)
    assert all(data == PNG for data in seen.contents)
    assert "is among the secrets" in seen.result.text
    assert any("is among the secrets" in said and said.startswith(way.name) for said in seen.notices)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("name", ["diary.txt", "../diary.txt"])
async def test_what_is_outside_the_folder_needs_permission(folder: Path, way: Tool, name: str) -> None:
    seen = await attached(bench_of(folder), way, folder / name)
    assert ELSEWHERE not in seen.contents
    assert "it needs permission" in seen.result.text
    assert "--permissions all" in seen.result.text
    assert any("it needs permission" in said and said.startswith(way.name) for said in seen.notices)
    free = await attached(bench_of(folder, "all"), way, folder / name)
    assert ELSEWHERE in free.contents


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("mode", MODES)
async def test_files_of_the_folder_are_attached_in_every_mode(folder: Path, mode: str, way: Tool) -> None:
    seen = await attached(bench_of(folder, mode), way, folder / "notes.txt")
    assert b"my own notes" in seen.contents
    assert not seen.result.is_error
    assert seen.notices == []


async def test_rules_and_folders_hold_as_they_do_for_read(folder: Path, tmp_path: Path) -> None:
    denied = bench_of(folder, "all", permissions__deny=["Read(notes.txt)"])
    assert (await attached(denied, returned, folder / "notes.txt")).contents == []
    allowed = bench_of(folder, permissions__allow=[f"Read({tmp_path}/diary.txt)"])
    assert (await attached(allowed, returned, folder / "diary.txt")).contents == [ELSEWHERE]
    added = bench_of(folder, permissions__folders=[str(tmp_path)])
    assert (await attached(added, returned, folder / "diary.txt")).contents == [ELSEWHERE]


async def test_a_call_of_which_nothing_is_left_is_an_error_and_others_are_not(folder: Path) -> None:
    assert (await attached(bench_of(folder), returned, folder / ".env")).result.is_error
    for way in (among_others, by_name, by_context, as_whole):
        assert not (await attached(bench_of(folder), way, folder / ".env")).result.is_error


async def test_a_person_is_asked_about_a_file_outside_and_told_who_attaches_it(folder: Path, tmp_path: Path) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer("no" if len(asked) == 1 else "once")

    assert (await attached(bench_of(folder, ask=ask), returned, folder / "diary.txt")).contents == []
    assert (await attached(bench_of(folder, ask=ask), returned, folder / "diary.txt")).contents == [ELSEWHERE]
    assert [(each.tool, each.input) for each in asked] == [("Read", {"file_path": str(tmp_path / "diary.txt")})] * 2
    assert asked[0].asker == "returned (to attach a file)"
    assert asked[0].reason.endswith("outside the folder")
    assert asked[0].always


async def test_a_person_may_take_their_time(folder: Path) -> None:
    import asyncio

    @tool(effect="read", timeout=0.5)
    def quick(path: str) -> Attachment:
        """Give back a file."""
        return Attachment.from_path(path)

    async def ask(question: Question) -> Answer:
        await asyncio.sleep(1)
        return Answer("once")

    bench = bench_in(folder, ask, own=[quick])
    assert (await attached(bench, quick, folder / "diary.txt")).contents == [ELSEWHERE]


# Our own tools


async def test_read_is_asked_about_once_and_shows_its_picture(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "chart.png").write_bytes(PNG)
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer("once")

    bench = bench_of(folder, ask=ask)
    model = ScriptedModel([[call("Read", file_path="../chart.png")], "Fine."])
    session = Session(bench.agent(model=model), cwd=folder, approve=bench.permissions)  # type: ignore[arg-type]
    await session.run("go")
    bench.close()
    assert [file.name for file in results_of(session)[0].attachments] == ["chart.png"]
    assert len(asked) == 1


@pytest.mark.parametrize("command", ["seq 100000", "head -c 300000 /dev/zero"])
async def test_the_whole_output_of_a_command_is_stored(folder: Path, command: str) -> None:
    bench = bench_of(folder, "all")
    model = ScriptedModel([[call("Bash", command=command)], "Fine."])
    session = Session(bench.agent(model=model), cwd=folder, approve=bench.permissions)  # type: ignore[arg-type]
    await session.run("go")
    bench.close()
    (result,) = results_of(session)
    assert result.whole is not None
    assert result.whole.size > 100_000
    assert "attachment:" in result.text


# Between the judgement and the reading


class Swapping(PermissionApprover):
    """Permissions while somebody else changes a link."""

    before: Callable[[], None] = staticmethod(lambda: None)  # type: ignore[assignment]
    after: Callable[[], None] = staticmethod(lambda: None)  # type: ignore[assignment]

    async def attach(self, use: ToolUseBlock, given: str, real: str) -> str:
        self.before()
        try:
            return await super().attach(use, given, real)
        finally:
            self.after()


def pointing(link: Path, target: str) -> Callable[[], None]:
    def swap() -> None:
        link.unlink()
        link.symlink_to(target)

    return swap


@pytest.mark.parametrize("says", [True, False], ids=["the system says where a file is", "it does not"])
@pytest.mark.parametrize("first", [".env", "notes.txt"])
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_link_that_changes_meanwhile_does_not_open_a_secret(
    folder: Path, first: str, moment: str, says: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not says:
        monkeypatch.setattr("outrider.conversation.attachments.real_path", lambda handle: "")
    link = folder / "link.txt"
    link.symlink_to(first)
    permissions = Swapping(bench_of(folder, "all").permissions.policy)
    other = "notes.txt" if first == ".env" else ".env"
    setattr(permissions, moment, pointing(link, other))
    model = ScriptedModel([[call("returned", path=str(link))], "Fine."])
    session = Session(Agent(model=model, tools=[returned]), approve=permissions)
    await session.run("go")
    contents = [session.store.read(file) for file in results_of(session)[0].attachments]
    assert SECRET not in contents
    if (first, moment) == ("notes.txt", "after"):
        assert contents == [b"my own notes"], "what was judged is what is read"


@pytest.mark.parametrize("says", [True, False], ids=["the system says where a file is", "it does not"])
async def test_a_link_that_changes_as_it_is_opened_does_not_hide_a_secret(
    folder: Path, says: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not says:
        monkeypatch.setattr("outrider.conversation.attachments.real_path", lambda handle: "")
    link = folder / "link.txt"
    link.symlink_to(".env")
    opened = os.open

    def swapping(path: Any, *args: Any, **kwargs: Any) -> int:
        handle = opened(path, *args, **kwargs)
        if str(path).endswith("link.txt"):
            pointing(link, "notes.txt")()
        return handle

    monkeypatch.setattr("outrider.conversation.attachments.os.open", swapping)
    seen = await attached(bench_of(folder, "all"), returned, link)
    assert seen.contents == []
    assert ("is among the secrets" if says else "changed while it was opened") in seen.result.text


async def test_a_file_that_is_gone_again_is_not_attached(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanishing(path: Any, *args: Any, **kwargs: Any) -> int:
        handle = opened(path, *args, **kwargs)
        if str(path).endswith("gone.txt"):
            os.unlink(path)
        return handle

    opened = os.open
    (folder / "gone.txt").write_text("x")
    monkeypatch.setattr("outrider.conversation.attachments.os.open", vanishing)
    seen = await attached(bench_of(folder), returned, folder / "gone.txt")
    assert "was removed while it was opened" in seen.result.text


# Every door


async def test_a_sub_agent_attaches_no_more_than_its_sender(folder: Path) -> None:
    bench = bench_of(folder, "all")
    model = play([[task("a", "General")], "Done."], {"a": [[call("returned", path=str(folder / ".env"))], "Fine."]})
    events: list[Event] = []
    session = Session(bench.agent(model=model), cwd=folder, approve=bench.permissions, observer=events.append)  # type: ignore[arg-type]
    await session.run("go")
    bench.close()
    inside = [event.event for event in events if isinstance(event, SubagentEvent)]
    assert any("is among the secrets" in event.text for event in inside if isinstance(event, Notice))
    results = [result for request in model.requests for message in request.messages for result in message.tool_results]
    assert all(not result.attachments for result in results)


GIVER = '''
from outrider import Attachment, tool

@tool(effect="read")
def give(path: str) -> Attachment:
    """Give back a file."""
    return Attachment.from_path(path)
'''


@pytest.mark.long
async def test_the_terminal_program_does_not_send_the_secret(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "giver.py").write_text(GIVER)
    calls = tuple((f"c{n}", "give", {"path": name}) for n, name in enumerate([".env", "diary.txt", "notes.txt"]))
    async with ModelServer([Scripted("", calls), Scripted("Done.")]) as server:
        flags = ("-p", "Go.", "--tools", str(tmp_path / "giver.py"))
        ended = await ask_program(server, *flags, cwd=folder)
        assert ended.returncode == 0, ended.stderr
        sent = str(server.requests[-1].body)
    assert "correct-horse" not in sent
    assert "neighbour" not in sent
    assert "my own notes" in sent
    assert [result.is_error for message in messages() for result in message.tool_results] == [True, True, False]


async def test_the_editor_is_asked_and_a_no_keeps_the_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "giver.py").write_text(GIVER)
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(f'tool_files = ["{tmp_path}/giver.py"]\n')
    calls = (("c0", "give", {"path": str(folder / "diary.txt")}),)
    async with ModelServer([Scripted("", calls), Scripted("Done.")]) as server:
        handlers = {"session/request_permission": selecting("no")}
        async with introduced(handlers=handlers, **everywhere(server)) as editor:
            session = await editor.new(folder)
            assert await editor.prompt(session, "Go.") == "cancelled"
            (asked,) = editor.asked_for("session/request_permission")
            assert asked["toolCall"]["rawInput"] == {"file_path": str(tmp_path / "diary.txt")}
            assert asked["toolCall"]["title"].startswith("give (to attach a file): Read(")
            assert [shown["status"] for shown in editor.seen(session).calls.values()] == ["failed", "failed"]


# Where it does not hold


async def test_in_a_program_of_ones_own_a_tool_attaches_what_it_likes(folder: Path) -> None:
    async def anything(use: ToolUseBlock, tool: Tool) -> bool:
        return True

    for approve in (None, anything):
        model = ScriptedModel([[call("returned", path=str(folder / ".env"))], "Fine."])
        session = Session(Agent(model=model, tools=[returned]), approve=approve)
        await session.run("go")
        (file,) = results_of(session)[0].attachments
        assert session.store.read(file) == SECRET


async def test_an_approver_of_ones_own_may_judge_files_too(folder: Path) -> None:
    class Own:
        async def __call__(self, use: ToolUseBlock, tool: Tool) -> bool:
            return True

        async def attach(self, use: ToolUseBlock, given: str, real: str) -> Allow | Deny:
            return Allow() if real.endswith(".txt") else Deny("only text is attached here")

    for name, is_error in ((".env", True), ("notes.txt", False)):
        model = ScriptedModel([[call("returned", path=str(folder / name))], "Fine."])
        session = Session(Agent(model=model, tools=[returned]), approve=Own())
        await session.run("go")
        assert results_of(session)[0].is_error is is_error


async def test_the_person_attaches_what_they_name(folder: Path) -> None:
    bench = bench_of(folder)
    session = Session(bench.agent(model=ScriptedModel(["Fine."])), cwd=folder, approve=bench.permissions)  # type: ignore[arg-type]
    await session.run(["Look:", Attachment.from_path(folder / ".env"), Attachment.from_path(folder / "diary.txt")])
    bench.close()
    files = [block for block in session.messages[0].content if hasattr(block, "sha256")]
    assert [session.store.read(file) for file in files] == [SECRET, ELSEWHERE]  # type: ignore[arg-type]


async def test_a_file_named_with_attach_is_sent_whatever_it_is(folder: Path) -> None:
    async with ModelServer([Scripted("Done.")]) as server:
        ended = await ask_program(server, "-p", "Go.", "--attach", ".env", cwd=folder)
        assert ended.returncode == 0, ended.stderr
        sent = str(server.requests[-1].body)
    assert "correct-horse" in sent
