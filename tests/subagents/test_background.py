"""Sub-agents in the background: the parent goes on, is told of each end once, and talks to them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from outrider import Allow, Attachment, Limits, Log, Profile, Session, ToolResult, tool
from outrider.conversation.messages import ToolUseBlock
from outrider.log.background import INTERRUPTED
from outrider.log.entries import BackgroundTask, RunStopped
from outrider.runtime.events import RunFinished, SteeringQueued, SubagentFinished, SubagentStarted, TextDelta
from outrider.runtime.record import SessionRecord
from outrider.testing import ScriptedModel, call
from tests.conversations import PNG_BYTES
from tests.subagents.teams import Team, play, reply, task

AGE = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


class Gates:
    """A tool that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.began: dict[str, asyncio.Event] = {}
        self.open: dict[str, asyncio.Event] = {}

    def of(self, kind: str, name: str) -> asyncio.Event:
        return getattr(self, kind).setdefault(name, asyncio.Event())  # type: ignore[no-any-return]

    @property
    def tool(self) -> Any:
        @tool(effect="read")
        async def hold(name: str) -> str:
            """Wait."""
            self.of("began", name).set()
            await self.of("open", name).wait()
            return "let go"

        return hold


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture(params=["a log", "no log"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log | None]:
    if request.param == "no log":
        yield None
    else:
        with Log(tmp_path / "log") as opened:
            yield opened


def behind(prompt: str) -> ToolUseBlock:
    return task(prompt, run_in_background=True)


def hold(name: str) -> ToolUseBlock:
    return call("hold", name=name)


def talk(team: Team, **given: Any) -> ToolUseBlock:
    """A Task call to the first sub-agent, whose id is known when the model is asked."""
    return call("Task", agent_id=tasks(team)[0].session[:8], **given)


def tasks(team: Team) -> list[BackgroundTask]:
    return [*team.session.background]


def reports(session: Session) -> list[str]:
    return [message.text for message in session.messages if message.text.startswith("[Sub-agent ")]


async def test_the_parent_goes_on_and_is_told_at_a_boundary(log: Log | None, gates: Gates) -> None:
    """The call returns at once. The run ends only when the child has, and its report was read."""
    model = play([[behind("a")], "Meanwhile.", "All is done."], {"a": [[hold("a")], "Found it."]})
    team = Team(model, [gates.tool], log=log)
    running = asyncio.create_task(team.run())
    await gates.of("began", "a").wait()
    while len(model.requests) < 3:  # the parent has answered meanwhile, and waits
        await asyncio.sleep(0)
    assert not running.done()
    gates.of("open", "a").set()
    result = await running
    assert (result.status, result.text) == ("done", "All is done.")
    assert "Started in the background as" in team.results[0].text
    (report,) = reports(team.session)
    assert "(Helper: do a) has finished" in report
    assert "Found it." in report
    assert [(each.status, each.report) for each in tasks(team)] == [("done", "")]
    kinds = [type(each) for each in team.events if isinstance(each, SubagentStarted | SubagentFinished | RunFinished)]
    assert kinds == [SubagentStarted, SubagentFinished, RunFinished]
    team.check()


async def test_with_a_wake_the_run_ends_and_the_next_one_begins_with_the_report(log: Log | None, gates: Gates) -> None:
    team = Team(
        play([[behind("a")], "Meanwhile.", "Thanks."], {"a": [[hold("a")], "Found it."]}), [gates.tool], log=log
    )
    woken = asyncio.Event()
    team.session.background.wake = woken.set
    assert (await team.run()).text == "Meanwhile."
    assert [each.status for each in tasks(team)] == [""]
    assert not team.session.is_unfinished
    await gates.of("began", "a").wait()
    gates.of("open", "a").set()
    await woken.wait()
    assert team.session.is_unfinished
    said = [each.event.text for each in team.nested if isinstance(each.event, TextDelta)]
    assert said == ["Found it."]  # events come between runs, too
    assert (await team.run("")).text == "Thanks."
    assert len(reports(team.session)) == 1
    team.check()


async def test_a_cancel_of_the_run_leaves_it_at_work(log: Log | None, gates: Gates) -> None:
    team = Team(
        play([[behind("a")], [hold("parent")], "Ok."], {"a": [[hold("a")], "Found it."]}), [gates.tool], log=log
    )
    running = asyncio.create_task(team.run())
    await gates.of("began", "a").wait()
    await gates.of("began", "parent").wait()
    team.session.cancel()
    assert (await running).status == "cancelled"
    assert [each.status for each in tasks(team)] == [""]
    gates.of("open", "a").set()
    await team.session.background.wait([tasks(team)[0].session])
    assert (await team.run("And?")).text == "Ok."
    assert [message.text for message in team.session.messages[-3:-1]] == [reports(team.session)[0], "And?"]
    team.check()


async def test_messages_state_waiting_and_stopping(log: Log | None, gates: Gates) -> None:
    team: Team

    def steps(request: Any) -> Any:
        said = sum(message.role == "assistant" for message in request.messages)
        if request.messages[0].text == "a":
            return [[hold("a")], "First.", "Second."][said]
        if request.messages[0].text == "b":
            return [hold("b")]
        return [
            lambda: [behind("a"), behind("b")],
            lambda: [call("begun")],
            lambda: [talk(team, action="status", prompt="How is it?"), call("Task", action="status")],
            lambda: [talk(team, prompt="Look there, too.", description="one more place")],
            lambda: [talk(team, action="wait")],
            lambda: [call("Task", agent_id=tasks(team)[1].session, action="stop")],
            lambda: [talk(team, prompt="Once more.")],
            lambda: [call("Task", agent_id="nothing", prompt="Hello?"), call("Task", action="stop")],
            lambda: "Done.",
            lambda: "Really done.",
        ][said]()

    @tool(effect="read")
    async def begun() -> str:
        """Wait until both have begun."""
        for name in ("a", "b"):
            await gates.of("began", name).wait()
        return "they have"

    team = Team(ScriptedModel(steps), [gates.tool, begun], log=log)
    opening = asyncio.create_task(_open_when_steered(gates, "a", team))
    result = await team.run()
    await opening
    assert result.status == "done"
    texts = [each.text for each in team.results]
    assert "is at work" in texts[3]
    assert texts[3].endswith("The prompt was not sent to it: with an action it is not used.")
    assert "do b" in texts[4]
    assert "gets the message" in texts[5]
    assert texts[6].startswith("Ended.")
    assert "was stopped" in texts[7]
    assert "goes on with the message" in texts[8]
    assert "There is no sub-agent 'nothing'" in texts[9]
    assert "agent_id is missing" in texts[10]
    told = reports(team.session)
    assert [text.rsplit("\n", 1)[-1] for text in told] == ["First.", "Second."]  # none of the one that it stopped
    assert [each.status for each in tasks(team)] == ["done", "cancelled"]
    team.check()


async def _open_when_steered(gates: Gates, name: str, team: Team) -> None:
    await gates.of("began", name).wait()
    while not any(isinstance(each.event, SteeringQueued) for each in team.nested):
        await asyncio.sleep(0)
    gates.of("open", name).set()


async def test_a_message_to_the_parent_ends_its_waiting(gates: Gates) -> None:
    model = play([[behind("a")], "Meanwhile.", "Yes?", "Done."], {"a": [[hold("a")], "Found it."]})
    team = Team(model, [gates.tool])
    running = asyncio.create_task(team.run())
    await gates.of("began", "a").wait()
    while len(model.requests) < 3:
        await asyncio.sleep(0)
    await team.session.steer("Hello?")
    while len(model.requests) < 4:
        await asyncio.sleep(0)
    gates.of("open", "a").set()
    assert (await running).text == "Done."


async def test_what_it_uses_counts_for_the_run_and_ends_it_with_the_budget(gates: Gates) -> None:
    children = {"a": [reply(hold("a"), tokens=600), reply(hold("b"), tokens=600), "Never."]}
    model = play([reply(behind("a"), tokens=10), "Meanwhile.", "Never."], children)
    team = Team(model, [gates.tool], limits=Limits(max_total_tokens=1000))
    gates.of("open", "a").set()
    gates.of("open", "b").set()
    result = await team.run()
    assert result.status == "max_total_tokens"
    assert result.usage.total_tokens >= 1200
    await team.session.background.wait([each.session for each in tasks(team)])
    assert [each.status for each in tasks(team)] == ["max_total_tokens"]


async def test_more_than_at_once_wait_for_the_others(gates: Gates) -> None:
    model = play([[behind("a"), behind("b")], "Fine.", "Fine.", "Fine."], {n: [[hold(n)], n] for n in ("a", "b")})
    team = Team(model, [gates.tool], at_once=1)
    running = asyncio.create_task(team.run())
    await gates.of("began", "a").wait()
    first, second = tasks(team)
    assert team.session.background.child(first)
    assert team.session.background.child(second) is None
    gates.of("open", "a").set()
    await gates.of("began", "b").wait()
    gates.of("open", "b").set()
    await running
    assert len(reports(team.session)) == 2


async def test_one_whose_session_was_closed_is_reported_and_can_go_on(tmp_path: Path, gates: Gates) -> None:
    with Log(tmp_path / "log") as log:
        team = Team(play([[behind("a")], "Meanwhile."], {"a": [[hold("a")], "Never."]}), [gates.tool], log=log)
        team.session.background.wake = lambda: None
        await team.run()
        await gates.of("began", "a").wait()
        await team.session.aclose()
        name = tasks(team)[0].session[:8]
        script = [[behind("a")], "Meanwhile.", [call("Task", agent_id=name, prompt="Go on.")], "Ok.", "Thanks."]
        later = Team(play(script, {"a": ["", "Found it."]}), [gates.tool], log=log)
        await later.session.aclose()
        session = Session.open(log, team.session.id, later.session.agent).now()
        assert session.is_unfinished
        assert [each.status for each in session.background] == ["interrupted"]
        assert (await session.run()).text == "Thanks."
        interrupted, finished = reports(session)
        assert "was interrupted: the program ended" in interrupted
        assert "Found it." in finished
        await session.aclose()


@pytest.mark.parametrize("is_data", [False, True], ids=["text", "data"])
async def test_a_child_that_had_its_answer_is_not_lost_with_its_process(tmp_path: Path, is_data: bool) -> None:
    """The process ends between the child's answer and the entry of its parent."""
    given = {"output_schema": {"type": "object"}} if is_data else {}
    answer = call("report_back", said="Found it.") if is_data else "Found it."
    with Log(tmp_path / "log") as log:
        script = [[task("a", run_in_background=True, **given)], "Meanwhile."]
        team = Team(play(script, {"a": [answer]}), log=log)
        ended = asyncio.Event()
        background = team.session.background
        background.wake = ended.set
        append = team.session._record.append

        async def crash(*entries: Any, **more: Any) -> None:
            if isinstance(entries[0], BackgroundTask) and entries[0].status:
                ended.set()
                await asyncio.Event().wait()
            await append(*entries, **more)

        team.session._record.append = crash  # type: ignore[method-assign]
        await team.run()
        await ended.wait()
        await team.session.aclose()
        session = Session.open(log, team.session.id, team.session.agent).now()
        assert [each.status for each in session.background] == ["done"]
        assert "Found it." in session._record.state.reports[0].report
        assert session._record.state.reports[0].structured_output == ({"said": "Found it."} if is_data else UNSET)
        await session.aclose()


@pytest.mark.parametrize("fixed", [False, True], ids=["by the call", "by the profile"])
async def test_a_child_that_still_owes_its_data_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fixed: bool
) -> None:
    """The process ends after the child said something, and before it was reminded of its report."""
    given = {} if fixed else {"output_schema": AGE}
    helper = Profile(name="Helper", description="Helps.", output=AGE if fixed else None)
    with Log(tmp_path / "log") as log:
        script = [[task("a", run_in_background=True, **given)], "Meanwhile."]
        team = Team(play(script, {"a": ["Just text."]}), profiles=[helper], log=log)
        said, own, append = asyncio.Event(), team.session._record, SessionRecord.append
        team.session.background.wake = said.set

        async def crash(self: SessionRecord, *entries: Any, **more: Any) -> None:
            if not said.is_set():
                await append(self, *entries, **more)
            if (self is not own and isinstance(entries[-1], RunStopped)) or said.is_set():
                said.set()
                await asyncio.Event().wait()

        monkeypatch.setattr(SessionRecord, "append", crash)
        await team.session.think("go")
        await asyncio.wait_for(asyncio.gather(team.session.act(), said.wait()), 20)
        monkeypatch.undo()
        await team.session.aclose()
        session = Session.open(log, team.session.id, team.session.agent).now()
        assert [each.status for each in session.background] == [INTERRUPTED]
        await session.aclose()


@pytest.mark.parametrize("answered", [True, False])
async def test_one_that_waits_for_a_person_goes_on_with_the_next_message(tmp_path: Path, answered: bool) -> None:
    paid: list[int] = []

    @tool(approval="later")
    def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    team: Team
    children = {"a": [[call("pay", amount=7)], "It is paid.", "Anything else?"]}
    script = [[behind("a")], [call("Task", action="wait")], "It waits.", lambda _: [talk(team, prompt="Well?")]]
    script += [[call("Task", action="wait")], "Done."]
    with Log(tmp_path / "log") as log:
        team = Team(play(script, children), [pay], log=log)
        await team.run()
        (question,) = log.questions()
        assert "It waits for an answer of a person: pay(amount=7)" in reports(team.session)[0]
        if answered:
            log.answer(question.id, Allow())
        await team.run("And now?")
        assert paid == [7] * answered
        assert ("Anything else?" if answered else "pay(amount=7)") in reports(team.session)[-1]
        await team.session.aclose()


AGE_AND_NAME = {
    "type": "object",
    "properties": {"age": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["age"],
}


class Enforcing(ScriptedModel):
    """A model whose API enforces each schema."""

    def enforces(self, schema: Any, *, with_tools: bool) -> bool:
        return True


@pytest.mark.parametrize("fixed", [False, True], ids=["by the call", "by the profile"])
async def test_data_are_asked_for_again_with_the_next_message(log: Log | None, fixed: bool) -> None:
    team: Team

    def steps(request: Any) -> Any:
        said = sum(message.role == "assistant" for message in request.messages)
        if request.messages[0].text == "a":
            can_report = any(each.name == "report_back" for each in request.tools)
            return call("report_back", age=said) if can_report else "Just text."
        given = {} if fixed else {"output_schema": AGE}
        return [
            lambda: [task("a", run_in_background=True, **given)],
            lambda: [call("Task", action="wait")],
            lambda: [talk(team, prompt="And a year later?")],
            lambda: [call("Task", action="wait")],
            lambda: "Done.",
            lambda: "Done.",
        ][said]()

    helper = Profile(name="Helper", description="Helps.", output=AGE if fixed else None)
    team = Team(ScriptedModel(steps), profiles=[helper], log=log)
    await team.run()
    finished = [event for event in team.events if isinstance(event, SubagentFinished)]
    assert [json.loads(text.split("\n\n")[1]) for text in reports(team.session)] == [
        event.structured_output for event in finished
    ]
    assert [event.has_structured_output for event in finished] == [True, True]
    assert tasks(team)[0].structured_output is UNSET, "told, and so no longer stored with each reply"


@pytest.mark.parametrize("is_data", [False, True], ids=["text", "data"])
async def test_a_long_answer_can_be_read_whole(log: Log | None, is_data: bool) -> None:
    team: Team
    long = "x" * 60_000  # longer than any result

    def steps(request: Any) -> Any:
        said = sum(message.role == "assistant" for message in request.messages)
        if request.messages[0].text == "a":
            return call("report_back", who=long) if is_data else long
        given = {"output_schema": {"type": "object", "properties": {"who": {"type": "string"}}}} if is_data else {}
        return [
            lambda: [task("a", run_in_background=True, **given)],
            lambda: [call("Task", action="wait")],
            lambda: [talk(team, action="status")],
            lambda: "Done.",
            lambda: "Done.",
        ][said]()

    team = Team(ScriptedModel(steps), log=log)
    await team.run()
    (report,) = reports(team.session)
    assert len(report) < 11_000
    assert "Task with agent_id and the action status shows the whole" in report
    if is_data:
        json.loads(report.split("\n\n", 1)[1])
    answer = team.results[-1]
    assert answer.whole is not None, "cut like any result, and stored whole"
    whole = team.session.store.read(answer.whole).decode()
    assert long in whole
    if is_data:
        assert json.loads(whole) == {"who": long}


async def test_files_of_an_answer_are_named() -> None:
    @tool
    def draw() -> ToolResult:
        """Draw a chart."""
        return ToolResult("Here.", [Attachment(PNG_BYTES, name="chart.png")], final=True)

    team = Team(play([[behind("a")], [call("Task", action="wait")], "Done."], {"a": [[call("draw")]]}), [draw])
    await team.run()
    assert "Files of its answer, which stay in its session: chart.png" in reports(team.session)[0]


async def test_data_that_the_api_has_enforced_are_the_answer() -> None:
    """The model fills in an optional property with null, which its schema forbids, and says something before."""
    team: Team

    def steps(request: Any) -> Any:
        said = sum(message.role == "assistant" for message in request.messages)
        if request.messages[0].text == "a":
            return '{"age": 7, "name": null}'
        return [
            lambda: [task("a", run_in_background=True, output_schema=AGE_AND_NAME)],
            lambda: [call("Task", action="wait")],
            lambda: [talk(team, action="status")],
            lambda: "Done.",
            lambda: "Done.",
        ][said]()

    team = Team(Enforcing(steps))
    await team.run()
    assert json.loads(team.results[-1].text.split("\n\n")[0]) == {"age": 7}


async def test_what_a_stored_session_says_of_a_sub_agent_is_not_trusted(log: Log | None) -> None:
    team: Team

    def tampered(**fields: Any) -> ToolUseBlock:
        team.session._record.write_now(msgspec.structs.replace(tasks(team)[0], **fields))
        return talk(team, prompt="Go on.")

    def steps(request: Any) -> Any:
        said = sum(message.role == "assistant" for message in request.messages)
        if request.messages[0].text == "a":
            return "First." if not said else "Second."
        return [
            lambda: [behind("a")],
            lambda: [call("Task", action="wait")],
            lambda: [tampered(output_schema={"type": "nonsense"})],
            lambda: [tampered(output_schema=None, tier="http://127.0.0.1:9/v1#other")],
            lambda: [call("Task", action="wait")],
            lambda: "Done.",
            lambda: "Done.",
        ][said]()

    team = Team(ScriptedModel(steps), log=log)
    await team.run()
    assert "cannot go on: its output_schema cannot be used" in team.results[2].text
    assert reports(team.session)[-1].endswith("Second."), "it was sent to the parent's model, and to no other server"
