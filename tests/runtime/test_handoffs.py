"""Handoffs: another agent goes on with the whole conversation, also after a kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Limits, Log, Session, ToolContext, Usage, tool
from outrider.errors import ProviderError, ToolDefinitionError, UnavailableError, UnknownModelError
from outrider.log.entries import CallResult, SessionSettings
from outrider.runtime.entry_events import EntryEvents
from outrider.runtime.events import Event, HandedOff, Notice
from outrider.testing import Delay, ScriptedModel, Step, call
from outrider.tools.approval import Deny
from outrider.tools.result import ToolResult


def model(name: str, *steps: Step, **options: Any) -> ScriptedModel:
    made = ScriptedModel(steps, **options)
    made.name = name
    return made


@tool(effect="read")
def look(at: str = "it") -> str:
    """Look."""
    return f"seen {at}"


@tool(effect="read")
def pay(amount: int = 1) -> str:
    """Pay."""
    return f"paid {amount}"


TO_BILLING = call("handoff", to="billing")


def billing(*steps: Step, **fields: Any) -> Agent:
    given: dict[str, Any] = {"system": "You bill.", "tools": [pay], "description": "Knows about bills."} | fields
    return Agent(model("of billing", *steps), name="billing", **given)


def triage(other: Agent, *steps: Step, **fields: Any) -> Agent:
    given: dict[str, Any] = {"system": "You sort.", "tools": [look], "name": "triage", "handoffs": [other]} | fields
    return Agent(model("of triage", *(steps or [TO_BILLING])), **given)


def handed(events: list[Event]) -> list[HandedOff]:
    return [event for event in events if isinstance(event, HandedOff)]


async def test_the_other_agent_goes_on_with_its_prompt_tools_and_model_and_the_whole_conversation() -> None:
    events: list[Event] = []
    other = billing([call("pay", amount=3)], "It is paid.")
    first = triage(other, ["I look.", call("look")], [TO_BILLING])
    result = await first.run("Pay 3 please", observer=events.append)
    assert (result.status, result.text, result.turns, result.agent) == ("done", "It is paid.", 4, "billing")
    assert handed(events) == [HandedOff("triage", "billing")]
    one: Any = first.provider
    two: Any = other.provider
    assert [tool.name for tool in one.requests[0].tools] == ["look", "handoff"]
    assert "- billing: Knows about bills." in one.requests[0].tools[1].description
    assert [tool.name for tool in two.requests[0].tools] == ["pay"]
    assert (one.requests[1].system, two.requests[0].system) == ("You sort.", "You bill.")
    assert two.requests[0].messages[0].text == "Pay 3 please"
    assert "seen it" in str(two.requests[0].messages)
    assert "handed over to billing" in two.requests[0].messages[-1].tool_results[0].text


async def test_the_next_run_of_the_session_begins_with_the_agent_that_has_the_conversation() -> None:
    session = Session(triage(billing("One.", "Two.")))
    assert (await session.run("1")).agent == "billing"
    assert (await session.run("2")).text == "Two."
    assert session.agent.name == "billing"


async def test_agents_hand_back_by_name() -> None:
    events: list[Event] = []
    back = billing([call("handoff", to="triage")], "Paid at last.", handoffs=["triage"])
    first = triage(back, [TO_BILLING], [TO_BILLING])
    result = await first.run("Pay", observer=events.append)
    assert (result.text, result.agent) == ("Paid at last.", "billing")
    assert handed(events) == [
        HandedOff("triage", "billing"),
        HandedOff("billing", "triage"),
        HandedOff("triage", "billing"),
    ]


async def test_the_other_calls_of_the_reply_run_and_one_handoff_counts() -> None:
    refunds = Agent(model("r", "no"), name="refunds")
    calls = [call("look", at="a"), TO_BILLING, call("handoff", to="refunds"), call("look", at="b")]
    first = triage(billing("Done."), calls, handoffs=[billing("Done."), refunds])
    session = first.session()
    result = await session.run("Go")
    assert (result.text, result.agent) == ("Done.", "billing")
    said = [each.text for each in session.messages[2].tool_results]
    assert (said[0], said[3]) == ("seen a", "seen b")
    assert "handed over to billing" in said[1]
    assert "its first handoff counts" in said[2]
    assert session.messages[2].tool_results[2].is_error


async def test_a_call_for_nobody_is_an_error_that_the_model_reads() -> None:
    first = triage(billing(), [call("handoff", to="nobody")], "I stay.")
    result = await first.run("Go")
    assert (result.text, result.agent) == ("I stay.", "triage")
    assert result.messages[2].tool_results[0].is_error


async def test_an_approver_may_deny_a_handoff() -> None:
    def approve(use: Any, tool: Any) -> Any:
        return Deny("stay here") if use.name == "handoff" else None

    result = await triage(billing(), [TO_BILLING], "I stay.").run("Go", approve=approve)
    assert (result.text, result.agent) == ("I stay.", "triage")


async def test_the_limits_are_those_of_the_agent_that_has_the_conversation() -> None:
    other = billing([call("pay", amount=1)], [call("pay", amount=2)], "Done.", limits=Limits(max_turns=3))
    result = await triage(other, limits=Limits(max_turns=1)).run("Go")
    assert (result.status, result.turns, result.agent) == ("max_turns", 3, "billing")
    result = await triage(billing("Done."), limits=Limits(max_turns=1)).run("Go", limits=Limits(max_turns=1))
    assert (result.status, result.agent) == ("max_turns", "billing"), "limits of the run hold for all agents"
    slow = billing(Delay(30, "late"), limits=Limits(max_seconds=0.2))
    assert (await triage(slow).run("Go")).status == "max_seconds"
    patient = billing(Delay(0.3, "in time"))
    assert (await triage(patient, limits=Limits(max_seconds=0.2)).run("Go")).status == "done"


async def test_typed_output_comes_from_the_agent_that_ends_the_run() -> None:
    other = billing([call("report_back", result=4)])
    result = await triage(other).run("2+2?", output=int)
    assert (result.output, result.agent) == (4, "billing")


async def test_the_system_prompt_of_the_other_agent_may_be_a_function() -> None:
    async def system(_: Any) -> str:
        return "You bill today."

    other = billing("Done.", system=system)
    assert (await triage(other).run("Go")).status == "done"
    asked: Any = other.provider
    assert asked.requests[0].system == "You bill today."


async def test_the_session_has_deps_for_all_agents() -> None:
    class Shop:
        name = "Corner"

    @tool(effect="read")
    def shop(context: ToolContext[Shop]) -> str:
        """Name the shop."""
        return context.deps.name

    other = billing([call("shop")], "Done.", tools=[shop], deps_type=Shop)
    session = triage(other, deps_type=Shop).session(deps=Shop())
    await session.run("Go")
    assert session.messages[-2].tool_results[0].text == "Corner"
    with pytest.raises(TypeError, match="deps_type of billing does not fit that of triage"):
        triage(other)
    with pytest.raises(TypeError, match="deps_type of billing does not fit that of triage"):
        triage(other, deps_type=int)


def test_wrong_handoffs_are_refused_early() -> None:
    with pytest.raises(TypeError, match="not int"):
        Agent("demo", handoffs=[3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="two agents are called 'billing'"):
        Agent("demo", handoffs=[billing(), billing()])
    with pytest.raises(ValueError, match="no agent is called 'nobody'; the agents are triage, billing"):
        Session(triage(billing(handoffs=["nobody"])))
    with pytest.raises(UnknownModelError):
        Session(triage(Agent("nonsense", name="billing")))

    def handoff() -> str:
        """Mine."""
        return ""

    with pytest.raises(ToolDefinitionError, match="called handoff"):
        triage(billing(), tools=[handoff])


async def test_an_own_tool_called_handoff_is_an_own_tool() -> None:
    @tool(name="handoff", effect="read")
    def mine(to: str) -> str:
        """Mine."""
        return f"to {to}"

    session = Agent(model("m", [call("handoff", to="a"), call("handoff", to="b")], "Done."), tools=[mine]).session()
    await session.run("Go")
    assert [each.text for each in session.messages[2].tool_results] == ["to a", "to b"]


async def test_a_tool_may_hand_over_and_an_unknown_agent_is_a_notice() -> None:
    events: list[Event] = []

    @tool(effect="read")
    def escalate(to: str) -> ToolResult:
        """Escalate."""
        return ToolResult("Escalated.", handoff=to)

    first = triage(billing("Mine now."), [call("escalate", to="nobody")], [call("escalate", to="billing")])
    result = await first.replace(tools=[escalate]).run("Go", observer=events.append)
    assert (result.text, result.agent) == ("Mine now.", "billing")
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "there is no agent 'nobody' to hand over to; triage goes on"
    ]


async def test_one_step_at_a_time_hands_over_too() -> None:
    session = triage(billing("Done.")).session()
    await session.think("Go")
    await session.act()
    assert session.agent.name == "billing"
    assert (await session.think()).text == "Done."


async def test_each_agent_keeps_the_model_that_it_fell_back_to() -> None:
    one = model("one", UnavailableError("down"))
    two = model("two", [TO_BILLING], "Back at two.")
    back = billing([call("handoff", to="triage")], handoffs=["triage"])
    result = await triage(back).replace(model=[one, two]).run("Go")
    assert (result.text, len(one.requests)) == ("Back at two.", 1)


async def test_usage_counts_for_the_models_of_all_agents() -> None:
    other = Agent(model("of billing", "Done.", usage=Usage(3)), name="billing")
    first = Agent(model("of triage", [TO_BILLING], usage=Usage(5)), name="triage", handoffs=[other])
    assert (await first.run("Go")).usage_by_model == {"of triage": Usage(5), "of billing": Usage(3)}


# In the log


async def test_a_resumed_session_goes_on_with_the_active_agent(tmp_path: Path) -> None:
    with Log(tmp_path / "log.db") as log:
        async with Session.open(log, agent=triage(billing("One."))) as session:
            await session.run("1")
        async with Session.open(log, session.id, triage(billing("Two."))) as session:
            assert session.agent.name == "billing"
            assert (await session.run("2")).text == "Two."
        entries = [record.entry for record in log.records(session.id)]
        [change] = [each for each in entries if isinstance(each, SessionSettings) and each.former]
        assert (change.agent, change.former, change.model, change.system) == (
            *("billing", "triage", "of billing", "You bill."),
        )
        assert [each.handoff for each in entries if isinstance(each, CallResult)] == ["billing"]
        stored = EntryEvents()
        assert handed([event for entry in entries for event in stored.of(entry)]) == [HandedOff("triage", "billing")]


async def test_an_agent_that_is_gone_is_a_notice_and_the_first_one_goes_on(tmp_path: Path) -> None:
    events: list[Event] = []
    with Log(tmp_path / "log.db") as log:
        async with Session.open(log, agent=triage(billing("One."))) as session:
            await session.run("1")
        alone = Agent(model("of triage", "I am here."), name="triage")
        async with Session.open(log, session.id, alone, observer=events.append) as session:
            result = await session.run("2")
        assert (result.text, result.agent) == ("I am here.", "triage")
        [notice] = [event.text for event in events if isinstance(event, Notice)]
        assert notice == "this session was handed over to 'billing', an agent that is not there now; triage goes on"
        events.clear()
        async with Session.open(log, session.id, triage(billing()), observer=events.append) as session:
            assert (session.agent.name, events) == ("triage", [])


async def test_assigning_an_agent_takes_the_conversation_back(tmp_path: Path) -> None:
    first = triage(billing("One."))
    with Log(tmp_path / "log.db") as log:
        async with Session.open(log, agent=first) as session:
            await session.run("1")
            session.agent = first
        async with Session.open(log, session.id, first) as session:
            assert session.agent.name == "triage"


SCRIPT = """
import asyncio, sys
from outrider import Agent, Log, Session, tool
from outrider.log.entries import SessionSettings
from outrider.runtime.record import SessionRecord
from outrider.testing import Delay, ScriptedModel, call

async def hold():
    print("here", flush=True)
    await asyncio.sleep(60)

@tool(effect="read")
async def pay() -> str:
    "Pay."
    await hold()

billing = Agent(ScriptedModel([[call("pay")]]), name="billing", tools=[pay])
triage = Agent(ScriptedModel([[call("handoff", to="billing")]]), name="triage", handoffs=[billing])
append = SessionRecord.append

async def holding(self, *entries, **more):
    if any(isinstance(entry, SessionSettings) for entry in entries):
        await hold()
    await append(self, *entries, **more)

if sys.argv[2] == "before":
    SessionRecord.append = holding

async def main():
    with Log(sys.argv[1]) as log:
        async with Session.open(log, "5" * 32, triage, create=True) as session:
            await session.run("Pay")

asyncio.run(main())
"""


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_run_that_is_killed_around_the_handoff_goes_on_with_the_other_agent(tmp_path: Path, point: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", SCRIPT, tmp_path / "log.db", point], stdout=subprocess.PIPE)
    assert child.stdout
    assert child.stdout.readline() == b"here\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    steps: list[Step] = [[call("pay")], "Done."] if point == "before" else ["Done."]
    first = triage(billing(*steps), ProviderError("not asked again"))
    with Log(tmp_path / "log.db") as log, Session.open(log, "5" * 32, first) as session:
        result = asyncio.run(session.run())
    assert (result.status, result.text, result.agent, result.turns) == ("done", "Done.", "billing", 3)
