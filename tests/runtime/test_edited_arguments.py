"""An approver may change the arguments of a call: checked, shown, stored, and told to the model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Allow, Log, Session, ToolUseBlock, tool
from outrider.events import Event, ToolStarted
from outrider.log.entries import Decided, Intent
from outrider.runtime.hooks import BeforeTool, HookResult, Hooks
from outrider.testing import ScriptedModel, call
from outrider.tools.approval import Approver
from outrider.tools.tool import Tool

ran: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    ran.append((to, amount))
    return "paid"


def paying(**more: Any) -> Agent:
    return Agent(ScriptedModel([call("pay", to="Ada", amount=900), "Done."]), tools=[pay], **more)


def giving(input: Any) -> Approver:
    return lambda use, tool: Allow(by="Grace", input=input)


async def test_the_call_runs_with_them_and_the_model_is_told() -> None:
    seen: list[Event] = []
    session = Session(paying(), approve=giving({"to": "Ada", "amount": 9}), observer=seen.append)
    assert (await session.run("Pay Ada 900.")).status == "done"
    assert ran == [("Ada", 9)]
    assert [event.input for event in seen if isinstance(event, ToolStarted)] == [{"to": "Ada", "amount": 9}]
    [result] = session.messages[2].tool_results
    assert not result.is_error
    assert result.text == (
        'paid\n[The arguments of this call were changed when it was approved. It ran with: {"to":"Ada","amount":9}]'
    )
    assert session.messages[1].tool_calls[0].input == {"to": "Ada", "amount": 900}, "what the model said stays"


async def test_the_log_has_them(tmp_path: Path) -> None:
    with Log(tmp_path / "log.db") as log:
        async with Session.open(log, agent=paying(), approve=giving({"to": "Ada", "amount": 9})) as session:
            await session.run("Pay Ada 900.")
        entries = [record.entry for record in log.records(session.id)]
    [decided] = [each for each in entries if isinstance(each, Decided)]
    [intent] = [each for each in entries if isinstance(each, Intent)]
    assert (decided.allowed, decided.by, decided.input) == (True, "Grace", {"to": "Ada", "amount": 9})
    assert (intent.input, intent.is_edited) == ({"to": "Ada", "amount": 9}, True)


@pytest.mark.parametrize("same", [None, {"amount": 900, "to": "Ada"}])
async def test_the_same_arguments_are_no_change(same: Any) -> None:
    session = Session(paying(), approve=giving(same))
    await session.run("Pay Ada 900.")
    assert ran == [("Ada", 900)]
    assert session.messages[2].tool_results[0].text == "paid"


@pytest.mark.parametrize(
    ("input", "says"),
    [
        ({"to": "Ada"}, "amount"),
        ({"to": "Ada", "amount": "nine"}, "amount"),
        ({"to": "Ada", "amount": True}, "amount"),
        ({"to": "Ada", "amount": 9, "more": 1}, "more"),
        ("to Ada", "they must be a mapping, not str"),
        ({"to": object(), "amount": 9}, "not JSON"),
    ],
)
async def test_arguments_that_the_tool_does_not_take_deny_the_call(input: Any, says: str) -> None:
    session = Session(paying(), approve=giving(input))
    await session.run("Pay Ada 900.")
    assert ran == []
    [result] = session.messages[2].tool_results
    assert result.is_error
    assert result.text.startswith("pay was not run: the approver's own arguments are not valid: ")
    assert says in result.text


async def test_what_the_approver_keeps_cannot_change_the_call_later() -> None:
    given: dict[str, Any] = {"to": "Ada", "amount": 9}

    async def approve(use: ToolUseBlock, tool: Tool) -> Allow:
        return Allow(input=given)

    async def late(event: BeforeTool) -> HookResult | None:
        given["amount"] = 8
        return None

    await Session(paying(hooks=Hooks(before_tool=late)), approve=approve).run("Pay Ada 900.")
    given["amount"] = 7
    assert ran == [("Ada", 8)]


KILLED = """
import asyncio, os, signal, sys
from outrider import Agent, Allow, Log, Session, tool
from outrider.testing import ScriptedModel
from outrider.testing import call

@tool(effect=sys.argv[2])
def pay(to: str, amount: int) -> str:
    "Pay somebody."
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    agent = Agent(ScriptedModel([call("pay", to="Ada", amount=900)]), tools=[pay])
    approve = lambda use, tool: Allow(input={"to": "Ada", "amount": 9})
    async with Session.open(Log(sys.argv[1]), agent=agent, approve=approve) as session:
        await session.run("Pay Ada 900.")

asyncio.run(main())
"""


def killed(place: Path, effect: str) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(place), effect], timeout=60, env=os.environ)
    assert ended.returncode == -signal.SIGKILL


async def test_a_call_that_may_be_repeated_after_a_kill_runs_as_it_was_approved(tmp_path: Path) -> None:
    killed(tmp_path / "log.db", "idempotent")

    @tool(effect="idempotent", name="pay")
    def again(to: str, amount: int) -> str:
        """Pay somebody."""
        ran.append((to, amount))
        return "paid"

    asked: list[dict[str, Any]] = []

    def approve(use: ToolUseBlock, tool: Tool) -> bool:
        asked.append(dict(use.input))
        return True

    with Log(tmp_path / "log.db") as log:
        [summary] = log.sessions()
        agent = Agent(ScriptedModel(["Done."]), tools=[again])
        async with Session.open(log, summary.id, agent, approve=approve) as session:
            assert (await session.run()).status == "done"
    assert ran == [("Ada", 9)]
    assert asked == [{"to": "Ada", "amount": 9}]
    assert "were changed when it was approved" in session.messages[2].tool_results[0].text


async def test_after_a_kill_an_unknown_outcome_names_the_arguments_that_ran(tmp_path: Path) -> None:
    killed(tmp_path / "log.db", "write")
    with Log(tmp_path / "log.db") as log:
        [summary] = log.sessions()
        async with Session.open(log, summary.id, Agent(ScriptedModel(["Done."]), tools=[pay])) as session:
            await session.run()
    [result] = session.messages[2].tool_results
    assert ran == []
    assert result.is_unknown
    assert '{"to":"Ada","amount":9}. They are not those of the call: they were changed' in result.text
