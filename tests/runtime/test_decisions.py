"""Who or what decided about a call is in the log, in the same commit as what follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Allow, Deny, Hooks, Log, Message, Session, ToolUseBlock, tool
from outrider.log.entries import CallResult, Decided, Entry, Intent, MessageEntry
from outrider.runtime.hooks import HookResult
from outrider.testing import ScriptedModel, call


@tool(effect="write")
def write(text: str) -> str:
    """Write."""
    return f"wrote {text}"


async def entries_after(folder: Path, approve: Any, **options: Any) -> list[Entry]:
    """What the log has about the one call of a run."""
    agent = Agent(ScriptedModel([call("write", text="x"), "Done."]), tools=[write], **options)
    with Log(folder) as log:
        async with Session.open(log, agent=agent, approve=approve) as session:
            assert (await session.run("Go")).status == "done"
        found = [record.entry for record in log.records(session.id)]
    return [entry for entry in found if isinstance(entry, Decided | Intent | CallResult)]


async def test_a_rule_that_allows_a_call_is_named_before_the_call_starts(tmp_path: Path) -> None:
    decided, intent, result = await entries_after(tmp_path, lambda use, tool: Allow(by="the rule Write(*)"))
    assert isinstance(intent, Intent)
    assert decided == Decided(True, "the rule Write(*)", intent.call_id)
    assert isinstance(result, CallResult)


@pytest.mark.parametrize(
    ("answer", "by", "why"),
    [
        (Deny("not on a Friday", "the calendar"), "the calendar", "not on a Friday"),
        (Deny(), "the approver", "the call was denied"),
        (False, "the approver", "the call was denied"),
        ("yes", "the approver", "the approver returned str; only Allow() or True lets a call run"),
    ],
)
async def test_a_denial_is_there_with_its_reason(tmp_path: Path, answer: Any, by: str, why: str) -> None:
    decided, result = await entries_after(tmp_path, lambda use, tool: answer)
    assert isinstance(result, CallResult)
    assert decided == Decided(False, by, result.result.tool_use_id, answer=why)
    assert result.result.text == f"write was not run: {why}"


async def test_an_approver_that_fails_denies(tmp_path: Path) -> None:
    def approve(use: Any, tool: Any) -> Allow:
        raise RuntimeError("no")

    decided, _ = await entries_after(tmp_path, approve)
    assert isinstance(decided, Decided)
    assert (decided.allowed, decided.by) == (False, "the approver")


async def test_a_hook_that_blocks_a_call_is_named(tmp_path: Path) -> None:
    async def block(event: Any) -> HookResult:
        return HookResult(block="not now")

    hooks = Hooks(before_tool=block)
    decided, result = await entries_after(tmp_path, None, hooks=hooks)
    assert isinstance(result, CallResult)
    assert decided == Decided(False, "a hook", result.result.tool_use_id, answer="a hook blocked it: not now")


async def test_without_an_approver_nothing_is_decided(tmp_path: Path) -> None:
    intent, result = await entries_after(tmp_path, None)
    assert (type(intent), type(result)) == (Intent, CallResult)


async def test_a_call_whose_arguments_are_not_valid_is_denied_by_the_tool(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel([call("write", text=7), "Done."]), tools=[write])
    with Log(tmp_path) as log:
        async with Session.open(log, agent=agent, approve=lambda use, tool: True) as session:
            await session.run("Go")
        found = [record.entry for record in log.records(session.id)]
    [decided] = [entry for entry in found if isinstance(entry, Decided)]
    assert (decided.allowed, decided.by) == (False, "the schema of the tool")
    [result] = [entry for entry in found if isinstance(entry, CallResult)]
    assert "not valid" in result.result.text


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_call_that_runs_again_after_a_kill_is_decided_again(tmp_path: Path, allowed: bool) -> None:
    ran: list[str] = []

    @tool(effect="idempotent")
    def put(text: str) -> str:
        """Put."""
        ran.append(text)
        return "put"

    use = ToolUseBlock("c1", "put", {"text": "x"})
    first = Decided(True, "the first", "c1")
    with Log(tmp_path) as log:
        journal = log.create()
        begun = Intent("c1", "put", "idempotent", "key", use.input)
        journal.write_now(MessageEntry(Message.user("Go")), MessageEntry(Message.assistant(use)), first, begun)
        journal.close()
        agent = Agent(ScriptedModel(["Done."]), tools=[put])
        decision = Allow("the second") if allowed else Deny("no", "the second")
        async with Session.open(log, journal.id, agent, approve=lambda use, tool: decision) as session:
            await session.run()
        decided = [record.entry for record in log.records(journal.id) if isinstance(record.entry, Decided)]
    assert [(each.allowed, each.by) for each in decided] == [(True, "the first"), (allowed, "the second")]
    assert ran == (["x"] if allowed else [])
