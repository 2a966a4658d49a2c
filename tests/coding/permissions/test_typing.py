"""Keys for a running command: they need the level that it runs at, again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from outrider.coding.access import Access
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.permissions.decision import Call, Decision, TypedInto, decide
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Answer, Mode, Question
from outrider.coding.permissions.rules import Rule
from outrider.coding.toolbox import standard_tools
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.messages import ToolUseBlock
from outrider.tools.approval import Allow, Deny


def decided(
    keys: str, access: Access, mode: Mode = "ask", *, sandboxed: bool = True, ended: bool = False, **rules: str
) -> Decision:
    lists = {name: (Rule.parse(rule),) for name, rule in rules.items()}
    policy = Policy(folder=Path("/"), mode=mode, sandboxed=sandboxed, **lists)
    into = TypedInto("bash", access, ended)
    return decide(policy, Call("Bash", "write", {"command": keys, "session": 1}, Path("/"), True, into))


@pytest.mark.parametrize(
    ("access", "mode", "sandboxed", "verdict"),
    [
        ("read", "ask", True, "allow"),  # the sandbox holds it
        ("read", "plan", True, "allow"),
        ("read", "ask", False, "ask"),  # nothing does
        ("read", "plan", False, "deny"),
        ("write", "ask", True, "ask"),
        ("write", "edits", True, "allow"),
        ("write", "plan", True, "deny"),
        ("full", "edits", True, "ask"),
        ("full", "all", True, "allow"),
    ],
)
def test_the_level_and_the_mode_decide(access: Access, mode: Mode, sandboxed: bool, verdict: str) -> None:
    decision = decided("make install\n", access, mode, sandboxed=sandboxed)
    assert decision.verdict == verdict
    if verdict == "ask":
        assert "it types into the running command bash" in decision.reason
        assert decision.always == ()


def test_looking_interrupting_and_ending_are_not_asked_about() -> None:
    assert {decided(keys, "full").verdict for keys in ("", "C-c", "\x03", "Kill")} == {"allow"}
    assert decided("x", "full", ended=True).verdict == "allow"
    assert decided("C-d", "full").verdict == "ask"


def test_names_and_rules_for_single_commands_allow_no_keys() -> None:
    assert decided("ls\n", "full").verdict == "ask"
    assert decided("ls\n", "full", allow="Bash(ls:*) full").verdict == "ask"
    assert decided("ls\n", "full", allow="Bash full").verdict == "allow"


def test_deny_and_ask_rules_hold_for_keys() -> None:
    assert decided("git push\n", "full", "all", deny="Bash(git push:*)").verdict == "deny"
    assert decided("git push\n", "read", deny="Bash(git push:*)").verdict == "deny"
    assert decided("g=push; git $g\n", "read", ask="Bash(git push:*)").verdict == "ask"


def test_an_unknown_session_is_denied_and_the_model_told(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer("no")

    (tool,) = standard_tools(Workspace(tmp_path), ["Bash"])
    approver = PermissionApprover(Policy(folder=tmp_path, sandboxed=True), ask=ask)
    approver.command = lambda number: SimpleNamespace(  # type: ignore[assignment, return-value]
        command="python3", access="full", running=True, terminal=object() if number == 1 else None
    )

    def answer(**input: object) -> Allow | Deny:
        return asyncio.run(approver(ToolUseBlock("c", "Bash", dict(input)), tool))

    gone = answer(command="1+1\n", session=2)
    assert isinstance(gone, Deny)
    assert "there is no session 2 any more: start the command again" in gone.reason
    assert isinstance(answer(command="1+1\n", session="1"), Deny)
    assert not asked
    assert isinstance(answer(command="1+1\n", session=1), Deny)
    assert asked[0].input == {"command": "1+1\n", "session": 1}
    assert asked[0].facts == ("session: 1",)
    assert "running command python3" in asked[0].reason
    assert "access full" in asked[0].reason
