"""A run that needs an answer and has nobody to ask ends with `waiting`, and goes on with the answer, once."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outrider import (
    Agent,
    Allow,
    Attachment,
    Defer,
    Deny,
    Hooks,
    Log,
    Session,
    ToolContext,
    ToolResult,
    tool,
    with_subagents,
)
from outrider.errors import AnsweredError, ConversationError, ValidationError
from outrider.log.entries import Asked, Decided, RunStarted, RunStopped
from outrider.providers.base import Request
from outrider.runtime.hooks import BeforeTool, HookResult
from outrider.testing import ScriptedModel, call
from tests.subagents.teams import HELPER, task


class Shop:
    """Refunds, and what was done."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.asked = 0

    def tools(self) -> list[Any]:
        @tool(effect="write")
        def refund(order: int) -> str:
            """Refund an order."""
            self.paid.append(order)
            return f"refunded {order}"

        @tool(effect="read")
        def look(order: int) -> str:
            """Look at an order."""
            return f"order {order} is fine"

        return [refund, look]

    def approve(self, use: Any, tool: Any) -> bool:
        if tool.name != "refund":
            return True
        self.asked += 1
        raise Defer(f"Refund order {use.input['order']}?")


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture(params=["memory", "log"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


@asynccontextmanager
async def opened(log: Log, steps: list[Any], tools: list[Any], id: str = "case", **options: Any) -> AsyncIterator[Any]:
    agent = Agent(ScriptedModel(steps), tools=tools)
    async with Session.open(log, id, agent, create=True, **options) as session:
        yield session


async def test_an_approval_comes_while_no_process_has_the_session_open(log: Log, shop: Shop) -> None:
    steps = [[call("refund", order=17), call("look", order=17)]]
    async with opened(log, steps, shop.tools(), approve=shop.approve) as session:
        result = await session.run("Refund order 17")
    assert result.status == "waiting"
    (question,) = result.questions
    assert (question.text, question.body.title) == ("Refund order 17?", "refund(order=17)")
    assert (question.body.tool, question.body.input) == ("refund", {"order": 17})
    assert shop.paid == []
    assert [each.id for each in log.questions()] == [question.id]
    assert log.questions("case")[0].text == "Refund order 17?"

    async with opened(log, [], shop.tools(), approve=shop.approve) as session:  # nobody has answered
        again = await session.run()
        assert (again.status, again.questions[0].id, again.turns) == ("waiting", question.id, 0)
        with pytest.raises(ConversationError, match="waits for an answer"):
            await session.run("Hurry up")

    log.answer(question.id, Allow(), by="Ada, on her phone")
    assert log.questions() == []
    with pytest.raises(AnsweredError, match="answered before, by Ada, on her phone"):
        log.answer(question.id, Deny("no"), by="Bob")

    async with opened(log, ["All done."], shop.tools(), approve=shop.approve) as session:
        done = await session.run()
    assert (done.status, done.text) == ("done", "All done.")
    assert shop.paid == [17]
    assert shop.asked == 1  # the approver is not asked again once it has left the decision to others
    results = [each for message in done.messages for each in message.tool_results]
    assert [each.text for each in results] == ["refunded 17", "order 17 is fine"]
    entries = [record.entry for record in log.records("case")]
    (decided,) = [each for each in entries if isinstance(each, Decided) and each.question]
    assert (decided.allowed, decided.by, decided.question) == (True, "Ada, on her phone", question.id)
    assert 0 < decided.at <= time.time()
    assert [each.status for each in entries if isinstance(each, RunStopped)] == ["waiting", "done"]
    assert [each.continues for each in entries if isinstance(each, RunStarted)] == [False, True]


async def test_a_denial_from_outside_is_read_by_the_model(log: Log, shop: Shop) -> None:
    async with opened(log, [call("refund", order=1), "Sorry."], shop.tools(), approve=shop.approve) as session:
        (question,) = (await session.run("Refund")).questions
        await session.answer(question.id, Deny("too dear"), by="Ada")
        done = await session.run()
    assert (done.status, done.text, shop.paid) == ("done", "Sorry.", [])
    assert done.messages[2].tool_results[0].text == "refund was not run: the user does not want this: too dear"


async def test_an_answer_may_change_the_arguments(log: Log, shop: Shop) -> None:
    async with opened(log, [call("refund", order=1), "Done."], shop.tools(), approve=shop.approve) as session:
        (question,) = (await session.run("Refund")).questions
        log.answer(question.id, Allow(input={"order": 2}))
        assert (await session.run()).status == "done"
    assert shop.paid == [2]


async def test_without_a_log_the_session_waits_in_memory(shop: Shop) -> None:
    agent = Agent(ScriptedModel([call("refund", order=5), "Done."]), tools=shop.tools())
    session = Session(agent, approve=shop.approve)
    result = await session.run("Refund")
    assert result.status == "waiting"
    assert dict(result)["questions"][0]["body"]["reason"] == "Refund order 5?"
    with pytest.raises(ValidationError, match=r"Allow\(\) or Deny"):
        await session.answer(result.questions[0].id, "yes")
    with pytest.raises(AnsweredError, match="does not wait for"):
        await session.answer("nonsense", Allow())
    await session.answer(result.questions[0].id, Allow())
    with pytest.raises(AnsweredError):
        await session.answer(result.questions[0].id, Allow())
    assert (await session.run()).text == "Done."
    assert shop.paid == [5]


async def test_a_tool_can_declare_that_its_calls_are_approved_later(log: Log) -> None:
    ran: list[str] = []

    @tool(approval="later")
    def deploy(name: str) -> str:
        """Deploy."""
        ran.append(name)
        return "deployed"

    async with opened(log, [call("deploy", name="web"), "Done."], [deploy]) as session:
        (question,) = (await session.run("Deploy")).questions
        assert ran == []
        log.answer(question.id, Allow())
        assert (await session.run()).text == "Done."
    assert ran == ["web"]


async def test_nobody_answers_in_time(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def approve(use: Any, tool: Any) -> bool:
        raise Defer("Really?", seconds=60)

    shop = Shop()
    async with opened(log, [call("refund", order=1), "Too late."], shop.tools(), approve=approve) as session:
        (question,) = (await session.run("Refund")).questions
        assert question.deadline is not None
        later = time.time() + 61
        monkeypatch.setattr(time, "time", lambda: later)
        with pytest.raises(AnsweredError, match="its deadline has passed"):
            log.answer(question.id, Allow())
        done = await session.run()
    assert (done.text, shop.paid) == ("Too late.", [])
    assert done.messages[2].tool_results[0].text == "refund was not run: nobody has allowed it in time"


async def test_the_result_of_a_tool_comes_from_outside(log: Log) -> None:
    started: list[str] = []

    @tool(effect="write")
    def order_parts(context: ToolContext, part: str) -> str:
        """Order parts."""
        started.append(context.key)
        raise Defer(f"the delivery of {part}")

    async with opened(log, [call("order_parts", part="wheel"), "Thanks."], [order_parts]) as session:
        result = await session.run("Order")
    assert (result.status, result.questions[0].text) == ("waiting", "the delivery of wheel")
    picture = Attachment(b"GIF89a" + b"\0" * 40, name="wheel.gif")
    for no_result in (Allow(), Deny("too late")):  # as for a call that waits for a person
        with pytest.raises(ValidationError, match=r"'the delivery of wheel' waits for what the tool would return"):
            log.answer(result.questions[0].id, no_result)
    log.resolve(started[0], ToolResult("4 wheels", attachments=[picture], details={"n": 4}), by="the warehouse")
    with pytest.raises(AnsweredError, match="the warehouse"):
        log.resolve(started[0], "5 wheels")
    async with opened(log, ["Thanks."], [order_parts]) as session:
        done = await session.run()
        (found,) = done.messages[2].tool_results
        assert found.text == "4 wheels"
        (file,) = found.attachments
        assert session.store.read(file) == picture.source
    assert (done.text, len(started)) == ("Thanks.", 1)
    with Log(log.location) as other:
        assert other.files("case").read(file) == picture.source


async def test_a_tool_asks_and_goes_on_with_the_answer(log: Log) -> None:
    runs: list[str] = []

    @tool(effect="write")
    async def paint(context: ToolContext) -> str:
        """Paint."""
        runs.append("begin")
        colour = await context.ask("Which colour?", ["red", "blue"])
        form = await context.ask("How much?", schema={"type": "object", "properties": {"n": {"type": "integer"}}})
        runs.append(f"{colour} {form}")
        return f"painted {colour}"

    async with opened(log, [call("paint")], [paint]) as session:
        (question,) = (await session.run("Paint")).questions
        assert (question.text, [each.label for each in question.body.questions[0].choices]) == (
            "Which colour?",
            ["red", "blue"],
        )
        with pytest.raises(ValidationError):
            log.answer(question.id, "green")
    log.answer(question.id, "red")
    async with opened(log, [], [paint]) as session:
        (question,) = (await session.run()).questions
        assert question.text == "How much?"
    log.answer(question.id, {"n": 3})
    async with opened(log, ["Done."], [paint]) as session:
        assert (await session.run()).text == "Done."
    assert runs == ["begin", "begin", "begin", "red {'n': 3}"]


async def test_a_person_may_decline_to_answer(log: Log) -> None:
    @tool
    async def paint(context: ToolContext) -> str:
        """Paint."""
        return f"painted {await context.ask('Which colour?')}"

    async with opened(log, [call("paint"), "Done."], [paint]) as session:
        (question,) = (await session.run("Paint")).questions
        log.answer(question.id, Deny())
        done = await session.run()
    assert done.messages[2].tool_results[0].text == "painted None"


async def test_a_session_that_waits_can_be_cancelled_and_talked_to_again(log: Log, shop: Shop) -> None:
    async with opened(log, [call("refund", order=1), "All right."], shop.tools(), approve=shop.approve) as session:
        (question,) = (await session.run("Refund")).questions
        await session.answer(question.id, Deny())
        done = await session.run("Never mind")
    assert (done.text, shop.paid, log.questions()) == ("All right.", [], [])


async def test_an_entry_that_someone_else_wrote_allows_nothing(log: Log, shop: Shop) -> None:
    async with opened(log, [call("refund", order=1)], shop.tools(), approve=shop.approve) as session:
        (question,) = (await session.run("Refund")).questions
        asked = next(each.entry for each in log.records("case") if isinstance(each.entry, Asked))
    held = log.open("case")
    held.write_now(Decided(True, "Ada", asked.call_id, question.id, "once", signature="0" * 64))
    held.close()
    async with opened(log, [], shop.tools(), approve=shop.approve) as session:
        assert (await session.run()).status == "waiting"
    assert shop.paid == []


async def test_what_runs_is_what_was_shown_also_if_a_hook_had_changed_it(log: Log, shop: Shop) -> None:
    async def halve(event: BeforeTool) -> HookResult:
        return HookResult(input={"order": event.input["order"] // 2})

    agent = Agent(ScriptedModel([call("refund", order=8)]), tools=shop.tools(), hooks=Hooks(before_tool=halve))
    async with Session.open(log, "case", agent, create=True, approve=shop.approve) as session:
        (question,) = (await session.run("Refund")).questions
    assert question.text == "Refund order 4?"
    log.answer(question.id, Allow())
    again = Agent(ScriptedModel(["Done."]), tools=shop.tools(), hooks=Hooks(before_tool=halve))
    async with Session.open(log, "case", again, approve=shop.approve) as session:
        assert (await session.run()).text == "Done."
    assert shop.paid == [4]


async def test_a_sub_agent_waits_with_its_parent_and_both_go_on(log: Log, shop: Shop) -> None:
    def step(request: Request) -> Any:
        if any(each.name == "Task" for each in request.tools):
            return "All done." if len(request.messages) > 1 else task("refund 7")
        return "It is refunded." if len(request.messages) > 1 else call("refund", order=7)

    def team() -> Agent:
        return with_subagents(Agent(ScriptedModel(step), tools=shop.tools()), [HELPER])

    async with Session.open(log, "case", team(), create=True, approve=shop.approve) as session:
        result = await session.run("Refund order 7")
    assert (result.status, shop.paid) == ("waiting", [])
    (question,) = result.questions
    (listed,) = log.questions()
    assert (listed.id, listed.text) == (question.id, "Refund order 7?")
    assert log.inbox.root_of(listed.session) == "case"
    log.answer(question.id, Allow(), by="Ada")
    assert log.inbox.answered_sessions() == ["case"]
    async with Session.open(log, "case", team(), approve=shop.approve) as session:
        done = await session.run()
    assert (done.status, done.text, shop.paid) == ("done", "All done.", [7])
    assert done.messages[2].tool_results[0].text == "It is refunded."
    assert log.questions() == []
