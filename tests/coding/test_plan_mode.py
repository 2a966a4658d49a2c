"""Plan mode: what the model is told and offered, that nothing is changed, and what becomes of a plan."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider import Log, Tool, tool
from outrider.coding.config.settings import PermissionSettings, Settings
from outrider.coding.front_end import FrontEnd
from outrider.coding.permissions.question import Answer, Ask, Mode, Question
from outrider.coding.plan_mode import LONGEST_PLAN, steps_of
from outrider.coding.toolbox.todo import LONGEST_STEP, MOST_STEPS
from outrider.coding.workbench import Workbench
from outrider.conversation.messages import ToolResultBlock
from outrider.mcp.servers import StdioServer
from outrider.prompts import prompt
from outrider.providers.base import Request
from outrider.runtime.events import Event, ToolFinished
from outrider.runtime.session import Session
from outrider.runtime.summary import AGREED
from outrider.testing import ScriptedModel, Step, call
from tests.coding.planner import PLAN
from tests.mcp.starting import scripted

ROOT = Path(__file__).parent.parent.parent
READING = ["Read", "Glob", "Grep", "Bash", "WebFetch", "Todo", "look", "Task", "AskUser", "ExitPlan"]


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


@tool(effect="idempotent")
def paint() -> str:
    """Paint."""
    Path("painted").touch()
    return "painted"


class Desk:
    """A workbench in plan mode, its log, and a person who gives these answers."""

    def __init__(
        self,
        folder: Path,
        *answers: Answer,
        mode: Mode = "plan",
        asks: bool = True,
        servers: Sequence[StdioServer] = (),
        tools: Sequence[Tool] = (look, paint),
    ) -> None:
        self.folder = folder / "project"
        self.folder.mkdir(exist_ok=True)
        self.answers = list(answers)
        self.asked: list[Question] = []
        self.events: list[Event] = []
        ask: Ask | None = self._ask if asks else None
        settings = Settings(permissions=PermissionSettings(mode=mode))
        self.bench = Workbench(settings, self.folder, tools=tools, servers=servers, front_end=FrontEnd(ask))
        self.log = Log(folder / "log")

    async def _ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return self.answers.pop(0) if self.answers else Answer("no")

    def open(self, model: ScriptedModel, id: str | None = None) -> Session:
        session = self.bench.open(self.log, id, model=model, observer=self.events.append)  # type: ignore[arg-type]
        session.wait_for_servers(60)
        return session

    def close(self) -> None:
        self.bench.close()
        self.log.close()


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[Any]:
    made: list[Desk] = []

    def make(*answers: Answer, **options: Any) -> Desk:
        made.append(Desk(tmp_path, *answers, **options))
        return made[-1]

    yield make
    for desk in made:
        desk.close()


def names(request: Request) -> list[str]:
    return [spec.name for spec in request.tools]


def results(session: Session) -> list[ToolResultBlock]:
    return [result for message in session.messages for result in message.tool_results]


async def test_the_model_is_told_and_gets_the_tools_that_read(desks: Any) -> None:
    desk = desks()
    model = ScriptedModel(["A plan."])
    with desk.open(model) as session:
        await session.run("Plan it.")
    assert sorted(names(model.requests[0])) == sorted(READING)
    assert model.requests[0].reminder == prompt("plan_mode")
    assert "Plan mode is on" not in model.requests[0].system
    assert "Plan mode is on" not in str(session.messages), "it is in no message: the prompt cache stays warm"


@pytest.mark.parametrize("mode", ["ask", "edits", "all"])
async def test_in_other_modes_all_is_as_without_plan_mode(desks: Any, mode: Mode) -> None:
    desk = desks(mode=mode)
    model = ScriptedModel(["Fine."])
    with desk.open(model) as session:
        await session.run("Go.")
        assert [each.name for each in session.tools] == names(model.requests[0])
    assert names(model.requests[0]) == [each.name for each in desk.bench.tools]
    assert model.requests[0].reminder == ""


async def test_a_mode_that_changes_in_a_run_holds_from_the_next_request_on(desks: Any) -> None:
    desk = desks(mode="ask")

    def switching(mode: Mode) -> Any:
        def step(_: Request) -> Step:
            desk.bench.use_mode(mode, session)
            return call("look")

        return step

    model = ScriptedModel([switching("plan"), call("look"), switching("edits"), call("look"), "Fine."])
    with desk.open(model) as session:
        await session.run("Go.")
    assert ["ExitPlan" in names(each) for each in model.requests] == [False, True, True, False, False]
    assert ["Write" in names(each) for each in model.requests] == [True, False, False, True, True]
    assert [prompt("plan_mode") in each.reminder for each in model.requests] == [False, True, True, False, False]


async def test_nothing_that_writes_runs_whatever_the_model_calls(desks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = desks()
    monkeypatch.chdir(desk.folder)
    (desk.folder / "a.txt").write_text("one\n")
    calls = [
        call("Read", file_path="a.txt"),
        call("Write", file_path="new.txt", content="x"),
        call("Edit", file_path="a.txt", old_string="one", new_string="two"),
        call("Bash", command="touch made", access="write"),
        call("Bash", command="touch made"),
        call("paint"),
        call("Task", description="d", prompt="p", subagent_type="General"),
    ]
    with desk.open(ScriptedModel([calls, "I could not."])) as session:
        await session.run("Go.")
    read, *others = results(session)
    assert not read.is_error
    assert all(each.is_error for each in others)
    assert sum("plan mode" in each.text for each in others) >= 4, "the model learns why"
    assert (desk.asked, os.listdir(desk.folder)) == ([], ["a.txt"])
    assert (desk.folder / "a.txt").read_text() == "one\n"


async def test_sub_agents_only_read(desks: Any) -> None:
    desk = desks()
    agents = desk.folder / ".claude" / "agents"
    agents.mkdir(parents=True)
    for name, tools in {"scout": "tools: Read, Bash\n", "smith": "tools: Read, Edit\n", "jack": ""}.items():
        (agents / f"{name}.md").write_text(f"---\nname: {name}\ndescription: d\n{tools}---\nGo.\n")
    model = ScriptedModel([call("look"), "Fine."])
    with desk.open(model) as session:
        await session.run("Go.")
    (task,) = (each for each in model.requests[0].tools if each.name == "Task")
    offered = task.parameters["properties"]["subagent_type"]["enum"]
    assert sorted(offered) == ["Bash", "Explore", "Plan", "scout"]


@pytest.mark.parametrize(("verdict", "mode"), [("go", "ask"), ("edits", "edits")])
async def test_an_approved_plan_is_carried_out_in_the_chosen_mode(desks: Any, verdict: Any, mode: Mode) -> None:
    desk = desks(Answer(verdict))
    model = ScriptedModel([call("ExitPlan", plan=PLAN), "Done."])
    with desk.open(model) as session:
        result = await session.run("Plan it.")
    assert (result.text, desk.bench.permissions.mode) == ("Done.", mode)
    assert (desk.asked[0].is_plan, desk.asked[0].input) == (True, {"plan": PLAN})
    assert "Write" in names(model.requests[1])
    assert f"the permission mode is {mode}" in results(session)[0].text
    (finished,) = (event for event in desk.events if isinstance(event, ToolFinished))
    assert [each["content"] for each in finished.details["todos"]] == ["Write `hello.txt`.", "Read it."]


@pytest.mark.parametrize("words", ["use two files", ""])
async def test_a_plan_that_is_to_be_changed_keeps_plan_mode_and_the_model_reads_the_words(
    desks: Any, words: str
) -> None:
    desk = desks(Answer("change", words))
    model = ScriptedModel([call("ExitPlan", plan=PLAN), "Then so."])
    with desk.open(model) as session:
        assert (await session.run("Plan it.")).text == "Then so."
    assert desk.bench.permissions.mode == "plan"
    assert (words or "Ask what to change") in results(session)[0].text
    assert "ExitPlan" in names(model.requests[1])


async def test_no_ends_the_run_in_plan_mode(desks: Any) -> None:
    desk = desks(Answer("no"))
    with ScriptedModel([call("ExitPlan", plan=PLAN), "And now?"]) as model, desk.open(model) as session:
        assert (await session.run("Plan it.")).status == "done"
        assert (len(model.requests), desk.bench.permissions.mode) == (1, "plan")
        assert (await session.run("Something else.")).text == "And now?"


@pytest.mark.parametrize("plan", ["", " \n", "x" * (LONGEST_PLAN + 1)])
async def test_a_plan_that_nobody_can_judge_is_not_shown(desks: Any, plan: str) -> None:
    desk = desks()
    with desk.open(ScriptedModel([call("ExitPlan", plan=plan), "Sorry."])) as session:
        await session.run("Plan it.")
    assert "was not shown" in results(session)[0].text
    assert desk.asked == []


async def test_with_nobody_to_ask_the_plan_is_the_answer_and_nothing_is_approved(desks: Any) -> None:
    desk = desks(asks=False)
    model = ScriptedModel([call("ExitPlan", plan=PLAN), "Never said."])
    with desk.open(model) as session:
        result = await session.run("Plan it.")
    assert (result.status, result.text, len(model.requests)) == ("done", PLAN, 1)
    assert desk.bench.permissions.mode == "plan"


def trusted(**options: Any) -> StdioServer:
    """Return a server whose hints count: its tool `echo` only reads."""
    return msgspec.structs.replace(scripted("shop", **options), trusted=True)


async def test_of_a_server_with_many_tools_the_pair_that_finds_and_calls_them_is_offered(tmp_path: Path) -> None:
    desk = Desk(tmp_path, servers=[trusted(more_tools=300)])
    reading = call("call_tool", name="mcp__shop__echo", arguments={"text": "hello"})
    writing = call("call_tool", name="mcp__shop__frobnicate_7", arguments={})
    model = ScriptedModel([[reading, writing], "Fine."], window=20_000)
    with desk.open(model) as session:
        await session.run("Go.")
    desk.close()
    assert {"search_tools", "call_tool"} <= set(names(model.requests[0]))
    read, refused = results(session)
    assert (read.text, read.is_error) == ("hello", False)
    assert "plan mode" in refused.text, "the approver knows which tool is meant"


async def test_of_a_server_the_tools_that_read_are_offered(tmp_path: Path) -> None:
    desk = Desk(tmp_path, servers=[trusted()])
    model = ScriptedModel(["Fine."])
    with desk.open(model) as session:
        await session.run("Go.")
    desk.close()
    assert [name for name in names(model.requests[0]) if name.startswith("mcp__")] == ["mcp__shop__echo"]


async def test_a_tool_of_the_user_may_have_the_name(tmp_path: Path) -> None:
    own = msgspec.structs.replace(paint, name="ExitPlan")
    desk = Desk(tmp_path, Answer("no"), mode="ask", tools=[own])
    model = ScriptedModel([call("ExitPlan"), "Fine."])
    with desk.open(model) as session:
        await session.run("Go.")
    desk.close()
    assert [(each.tool, each.is_plan) for each in desk.asked] == [("ExitPlan", False)]
    assert "ExitPlan" in names(model.requests[0])


# Compaction


async def test_the_approved_plan_outlives_compactions_and_a_refused_one_does_not(desks: Any) -> None:
    refused = "1. Delete everything."
    desk = desks(Answer("go"), Answer("change", "no!"))
    proposals: list[Step] = [call("ExitPlan", plan=PLAN), "Begun."]
    steps: list[Step] = [*proposals, call("ExitPlan", plan=refused), "Sorry.", "One.", "S one", "Two.", "S two", "End."]
    model = ScriptedModel(steps)
    with desk.open(model) as session:
        await session.run("Plan it.")
        desk.bench.use_mode("plan", session)
        await session.run("Plan more.")
        desk.bench.use_mode("ask", session)
        for _ in range(2):
            await session.run("Go on.")
            summary = (await session.compact()).summary
            assert f"{AGREED}{PLAN}" in summary
            assert refused not in summary
        await session.run("And?")
    assert f"{AGREED}{PLAN}" in model.requests[-1].messages[0].text


async def test_a_long_plan_is_shortened_in_a_small_window(desks: Any) -> None:
    desk = desks(Answer("go"))
    plan = f"1. Begin.\n\n{'word ' * 4_000}"
    model = ScriptedModel([call("ExitPlan", plan=plan), "Begun.", "One.", "S"], window=60_000)
    with desk.open(model) as session:
        await session.run("Plan it.")
        await session.run("Go on.")
        summary = (await session.compact()).summary
    assert "1. Begin." in summary
    assert len(summary) < len(plan)


# Kills


@pytest.mark.parametrize(("dies", "asks"), [("asked", 1), ("answered", 0), ("requested", 0)])
async def test_after_a_kill_a_stored_approval_holds_and_an_open_question_is_asked_again(
    dies: str, asks: int, desks: Any
) -> None:
    desk = desks(Answer("go"), mode="ask")
    command = [sys.executable, "-m", "tests.coding.planner", str(desk.folder), str(desk.log.folder), dies]
    killed = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    assert await asyncio.wait_for(killed.wait(), 120) == -signal.SIGKILL
    assert desk.bench.restore_mode(desk.log, "plan-1") == ""
    model = ScriptedModel(["Done."])
    with desk.open(model, "plan-1") as session:
        assert (await session.run()).text == "Done."
    assert len(desk.asked) == asks
    assert "The plan is approved" in results(session)[0].text
    assert ("Write" in names(model.requests[0]), desk.bench.permissions.mode) == (True, "ask")


@pytest.mark.parametrize("asks", [True, False])
async def test_out_of_plan_mode_a_plan_is_approved_by_nobody_but_the_user(asks: bool, desks: Any) -> None:
    desk = desks(Answer("no"), mode="edits", asks=asks)
    with desk.open(ScriptedModel([call("ExitPlan", plan=PLAN), "Fine."])) as session:
        await session.run("Go.")
    assert (results(session)[0].is_error, len(desk.asked)) == (True, asks)
    assert desk.bench.permissions.mode == "edits"


async def test_a_stored_mode_of_an_approval_does_not_widen_what_the_settings_allow(desks: Any) -> None:
    desk = desks(Answer("edits"))
    with desk.open(ScriptedModel([call("ExitPlan", plan=PLAN), "Done."])) as session:
        await session.run("Plan it.")
        desk.bench.use_mode(desk.bench.permissions.mode, session)
    again = desks(mode="ask")
    assert "allow no more" in again.bench.restore_mode(again.log, session.id)
    assert again.bench.permissions.mode == "ask"


# The steps of a plan


@pytest.mark.parametrize(
    ("plan", "steps"),
    [
        ("Just do it.", []),
        ("- one\n* two\n+ three", ["one", "two", "three"]),
        ("1. one\n2) two\n- no step", ["one", "two"]),
        ("1. one\n   1. inner\n\n2. two", ["one", "two"]),
        ("```\n1. code\n```\n1. one", ["one"]),
        ("1.\n1) ", []),
        ("---\n**bold**\n-no list", []),
    ],
)
def test_the_steps_are_the_items_of_the_lists(plan: str, steps: list[str]) -> None:
    assert steps_of(plan) == steps


def test_the_steps_are_bounded() -> None:
    assert [len(step) for step in steps_of(f"1. {'x' * 3_000}\n" * 200)] == [LONGEST_STEP] * MOST_STEPS


@given(st.text(alphabet=st.sampled_from("1.-*) \n`~a\r\u2028"), max_size=300))
def test_any_text_has_a_few_steps_in_one_line_each(plan: str) -> None:
    steps = steps_of(plan)
    assert len(steps) <= MOST_STEPS
    assert all(step == step.strip() and 0 < len(step) <= LONGEST_STEP and "\n" not in step for step in steps)
