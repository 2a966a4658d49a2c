"""Doubts about the sandbox: where it cannot keep what a level promises, the user is asked, once a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.coding import Workspace, standard_tools
from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.question import Answer, Mode, Question
from outrider.coding.permissions.rules import Rule
from outrider.conversation.messages import ToolUseBlock
from outrider.tools.approval import Allow, Deny
from outrider.tools.tool import Tool

DOUBT = "the folder is too large to search"


class Asked:
    """Counts the questions, and answers all alike."""

    def __init__(self, verdict: str = "once") -> None:
        self.reasons: list[str] = []
        self._verdict = verdict

    async def __call__(self, question: Question) -> Answer:
        self.reasons.append(question.reason)
        return Answer(self._verdict)  # type: ignore[arg-type]


def bash_tool(folder: Path) -> Tool:
    return standard_tools(Workspace(folder), ["Bash"])[0]


def approver(folder: Path, asked: Asked | None, mode: Mode = "ask", *rules: str) -> PermissionApprover:
    policy = Policy(folder=folder, mode=mode, sandboxed=True, allow=tuple(map(Rule.parse, rules)))
    permissions = PermissionApprover(policy, ask=asked)
    permissions.use_doubts({"read": (DOUBT,), "write": (DOUBT,)})
    return permissions


async def verdict(permissions: PermissionApprover, command: str, access: str = "read") -> Allow | Deny:
    return await permissions(
        ToolUseBlock(command, "Bash", {"command": command, "access": access}), bash_tool(permissions.policy.folder)
    )


async def test_a_doubt_asks_once_in_a_session(tmp_path: Path) -> None:
    asked = Asked()
    permissions = approver(tmp_path, asked)
    for command in ("ls", "cat x", "ls"):
        assert isinstance(await verdict(permissions, command), Allow)
    assert len(asked.reasons) == 1
    assert DOUBT in asked.reasons[0]
    assert "for the session" in asked.reasons[0]
    assert permissions.policy.accepted_doubts("read") == (DOUBT,)
    permissions.use_doubts({"read": ("another one",)})
    await verdict(permissions, "ls")
    assert "another one" in asked.reasons[1]


async def test_a_no_is_no_consent(tmp_path: Path) -> None:
    asked = Asked("no")
    permissions = approver(tmp_path, asked)
    assert isinstance(await verdict(permissions, "ls"), Deny)
    assert isinstance(await verdict(permissions, "ls"), Deny)
    assert len(asked.reasons) == 2
    assert permissions.policy.accepted_doubts("read") == ()


async def test_without_a_person_the_call_is_denied_and_says_why(tmp_path: Path) -> None:
    denied = await verdict(approver(tmp_path, None), "ls")
    assert isinstance(denied, Deny)
    assert DOUBT in denied.reason


@pytest.mark.parametrize(("mode", "rules"), [("all", ()), ("ask", ("Bash",))])
async def test_where_every_command_may_run_there_is_no_question(
    tmp_path: Path, mode: Mode, rules: tuple[str, ...]
) -> None:
    permissions = approver(tmp_path, None, mode, *rules)
    assert isinstance(await verdict(permissions, "ls"), Allow)
    assert permissions.policy.accepted_doubts("read") is None


async def test_a_rule_for_a_command_does_not_lift_a_doubt(tmp_path: Path) -> None:
    assert isinstance(await verdict(approver(tmp_path, None, "ask", "Bash(ls)"), "ls"), Deny)
