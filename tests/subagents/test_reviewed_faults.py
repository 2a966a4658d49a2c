"""Faults that a review of the sub-agents found, each as it was found."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from outrider import Agent, Limits, Log, Profile, Session, ToolContext, with_subagents
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Answer, Question
from outrider.coding.profiles import LONGEST_DESCRIPTION, MOST_FILES, find_profiles
from outrider.conversation.messages import ToolUseBlock
from outrider.providers.base import Request
from outrider.subagents.profile import built_in
from outrider.testing import ScriptedModel, Step, call

WORKER = Profile(name="Worker", description="Works.")


def delegate(number: int = 0) -> ToolUseBlock:
    return call("Task", description=f"work {number}", prompt="go", subagent_type="Worker")


def is_sender(request: Request) -> bool:
    return any(tool.name == "Task" for tool in request.tools)


def test_built_in_profiles_do_not_raise_the_limits_of_a_user() -> None:
    for profile in built_in():
        assert profile.limits_within(Limits(max_turns=5, max_seconds=10)).max_turns == 5
        assert profile.limits_within(Limits(max_turns=5, max_seconds=10)).max_seconds == 10


async def test_a_run_sends_out_only_so_many_sub_agents() -> None:
    def answer(request: Request) -> Step:
        if not is_sender(request):
            return "done"
        return [delegate(number) for number in range(4)] if len(request.messages) < 5 else "all back"

    team = with_subagents(Agent(model=ScriptedModel(answer), limits=Limits(max_subagents=5)), [WORKER])
    result = await Session(team).run("go")
    results = [block for message in result.conversation for block in message.tool_results]
    assert [block.is_error for block in results] == [False] * 5 + [True] * 3
    assert "has started 5 sub-agents" in results[-1].text


async def test_a_sub_agent_from_python_asks_under_its_name(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer("no")

    def change(what: str) -> str:
        """Change something."""
        return what

    def answer(request: Request) -> Step:
        if is_sender(request):
            return delegate(1) if len(request.messages) == 1 else "all back"
        return call("change", what="x") if len(request.messages) == 1 else "done"

    team = with_subagents(Agent(model=ScriptedModel(answer), tools=[change]), [WORKER])
    await Session(team, approve=PermissionApprover(Policy(folder=tmp_path), ask=ask)).run("go")
    assert [question.asker for question in asked] == ["Worker: work 1"]


async def test_a_session_that_is_closed_in_the_middle_stops_its_sub_agents(tmp_path: Path) -> None:
    begun = asyncio.Event()
    seen = 0

    async def wait(context: ToolContext) -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    def answer(request: Request) -> Step:
        nonlocal seen
        seen += 1
        if is_sender(request):
            return delegate() if len(request.messages) == 1 else "all back"
        return call("wait")

    with Log(tmp_path) as log:
        session = Session.open(
            log, agent=with_subagents(Agent(model=ScriptedModel(answer), tools=[wait]), [WORKER])
        ).now()
        run = asyncio.ensure_future(session.run("go"))
        await begun.wait()
        session.close()
        assert (await run).status in ("cancelled", "error")
        assert seen == 2
        for name in (session.id, *(child.id for child in log.children(session.id))):
            log.open(name).close()


def test_a_project_that_replaces_a_profile_is_told_of_and_cannot_fill_the_prompt(tmp_path: Path) -> None:
    folder = tmp_path / ".outrider/agents"
    folder.mkdir(parents=True)
    (folder / "Explore.md").write_text("---\ndescription: Mine.\n---\n")
    for number in range(MOST_FILES + 20):
        (folder / f"a{number}.md").write_text(f"---\ndescription: {'x' * 5000}\n---\n")
    found = find_profiles(tmp_path, [], built_in(), tools=["Read"], home=tmp_path)
    assert any(note.endswith("it replaces the profile Explore") for note in found.notes)
    assert len(found.profiles) <= MOST_FILES + len(built_in())
    assert max(len(profile.description) for profile in found.profiles) <= LONGEST_DESCRIPTION


def test_notes_on_profiles_are_plain_in_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "project/.claude/agents"
    folder.mkdir(parents=True)
    (folder / "y.md").write_text('---\nname: y\ndescription: d\ntools: "F\\x1b[31mOO"\n---\n')
    (folder / "z.md").write_text("---\nname: z\ndescription: F\x1b[31mOO\n---\n")
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "home"))
    command = [sys.executable, "-m", "outrider", "-p", "What is 2+2?", "--model", "demo"]
    ended = subprocess.run(
        command, cwd=tmp_path / "project", stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=60
    )
    assert b"unknown tools" in ended.stderr
    assert b"\x1b" not in ended.stderr


async def test_a_title_is_one_short_line(tmp_path: Path) -> None:
    def answer(request: Request) -> Step:
        if not is_sender(request):
            return "done"
        task = call("Task", description="a\nb" * 5000, prompt="go", subagent_type="Worker")
        return task if len(request.messages) == 1 else "all back"

    with Log(tmp_path) as log:
        with Session.open(log, agent=with_subagents(Agent(model=ScriptedModel(answer)), [WORKER])) as session:
            await session.run("go")
        title = log.children(session.id)[0].title
    assert len(title) <= 80
    assert "\n" not in title
