"""The permissions of a session: who is asked, what is remembered, and what the model is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from outrider.coding.permissions.approver import PermissionApprover
from outrider.coding.permissions.question import Answer, Question
from outrider.coding.toolbox import ALL_NAMES
from outrider.conversation.messages import ToolUseBlock
from outrider.errors import ToolDefinitionError
from outrider.tools.approval import Allow, Deny
from outrider.tools.tool import Tool, tool
from tests.coding.permissions.workspace import EFFECTS, Ground


class Reasons(PermissionApprover):
    """Permissions that say why a call is denied; "" if it is allowed."""

    async def __call__(self, use: ToolUseBlock, tool: Tool) -> str:  # type: ignore[override]
        decision = await super().__call__(use, tool)
        return decision.reason if isinstance(decision, Deny) else ""


def call(name: str, **input: Any) -> tuple[ToolUseBlock, Tool]:
    @tool(name=name, effect=EFFECTS.get(name, "write"))
    def anything() -> str:
        """Do it."""
        raise ToolDefinitionError("never called here")

    return ToolUseBlock(f"call-{name}", name, input), replace(anything, built_in=name in ALL_NAMES)


class Person:
    """Answers as told, and keeps what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.questions: list[Question] = []
        self.asked_at_once = 0
        self._open = 0

    async def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        self._open += 1
        self.asked_at_once = max(self.asked_at_once, self._open)
        await asyncio.sleep(0)
        self._open -= 1
        return self._answers.pop(0)


async def test_what_is_allowed_is_not_asked_about(ground: Ground) -> None:
    person = Person()
    permissions = Reasons(ground.policy(), ask=person)
    assert await permissions(*call("Read", file_path="notes.txt")) == ""
    assert await permissions(*call("Bash", command="ls")) == ""
    assert person.questions == []


@pytest.mark.parametrize(
    ("name", "input", "by"),
    [
        ("Read", {"file_path": "notes.txt"}, "the mode ask"),
        ("Bash", {"command": "ls"}, "the mode ask"),
        ("Write", {"file_path": "src/a.py", "content": ""}, "the rule Edit(src/**)"),
        ("Bash", {"command": "npm test && git push"}, "the rule Bash(npm test), Bash(git push:*)"),
        ("WebFetch", {"url": "https://docs.python.org/3/"}, "the rule WebFetch(domain:python.org)"),
        ("publish", {}, "the rule publish"),
    ],
)
async def test_what_is_allowed_names_the_rule_that_allows_it(
    ground: Ground, name: str, input: dict[str, Any], by: str
) -> None:
    allow = ["Edit(src/**)", "Bash(npm test)", "Bash(git push:*)", "WebFetch(domain:python.org)", "publish"]
    assert await PermissionApprover(ground.policy(allow=allow))(*call(name, **input)) == Allow(by)


async def test_what_is_denied_is_not_asked_about_and_says_why(ground: Ground) -> None:
    person = Person()
    permissions = Reasons(ground.policy("all", deny=["Bash(rm:*)"]), ask=person)
    assert ".env is among the secrets" in await permissions(*call("Read", file_path=".env"))
    assert "Bash(rm:*)" in await permissions(*call("Bash", command="rm x"))
    assert person.questions == []


async def test_once_is_for_this_call_alone(ground: Ground) -> None:
    person = Person(Answer("once"), Answer("no", "use pnpm"))
    permissions = Reasons(ground.policy(), ask=person)
    assert await permissions(*call("Bash", command="npm test")) == ""
    refusal = await permissions(*call("Bash", command="npm test"))
    assert refusal == "the user does not want this: use pnpm"
    reason = "it runs `npm test`; access full: runs without a sandbox, as you"
    assert person.questions[0] == Question(
        "call-Bash",
        "Bash",
        {"command": "npm test"},
        reason,
        ("Bash(npm test) full",),
        prefix=("Bash(npm test:**) full",),
        where="in this folder",
    )


async def test_a_no_without_words(ground: Ground) -> None:
    permissions = Reasons(ground.policy(), ask=Person(Answer("no")))
    assert await permissions(*call("Bash", command="npm test")) == "the user does not want this"


async def test_always_is_remembered_and_holds_at_once(ground: Ground) -> None:
    stored: list[Sequence[str]] = []
    person = Person(Answer("always"))
    permissions = Reasons(ground.policy(), ask=person, remember=stored.append)
    assert await permissions(*call("Bash", command="npm test")) == ""
    assert await permissions(*call("Bash", command="npm  'test'")) == ""
    assert stored == [("Bash(npm test) full",)]
    assert [rule.text for rule in permissions.policy.allow] == ["Bash(npm test) full"]
    assert len(person.questions) == 1


async def test_always_allows_the_level_that_was_shown_and_no_more(ground: Ground) -> None:
    person = Person(Answer("always"), Answer("no"))
    permissions = Reasons(ground.policy(sandboxed=True), ask=person)
    assert await permissions(*call("Bash", command="npm install", access="network")) == ""
    assert person.questions[0].reason.endswith("access network: changes files in the folder and reaches the network")
    assert person.questions[0].always == ("Bash(npm install) network",)
    assert await permissions(*call("Bash", command="npm install", access="write")) == ""
    assert await permissions(*call("Bash", command="npm install", access="full")) != ""
    permissions.sandboxed = False
    assert await Reasons(permissions.policy)(*call("Bash", command="npm install")) != ""


async def test_a_users_tool_is_not_harmless_by_its_name(ground: Ground) -> None:
    permissions = Reasons(ground.policy("plan"))
    for name in ("Todo", "Task", "Read", "Bash", "Grep"):
        use, built_in = call(name, file_path="notes.txt", command="ls", pattern="x", path="src")
        assert await permissions(use, built_in) == ""
        assert "plan mode" in await permissions(use, replace(built_in, built_in=False, effect="write"))


@pytest.mark.parametrize("verdict", ["once", "always"])
@pytest.mark.parametrize(
    ("target", "call_of"),
    [
        ("../outside", ("Write", {"file_path": "build/new.txt"})),  # asked before, and for another place now
        (".git", ("Write", {"file_path": "build/new.txt"})),  # denied now
        ("../outside", ("Bash", {"command": "npm test > build/log"})),
        ("../outside/sub", ("Read", {"file_path": "away/other.txt"})),
        ("../outside/sub", ("Bash", {"command": "cat away/other.txt"})),
    ],
    ids=str,
)
async def test_what_changes_while_the_person_thinks_is_not_done(
    own_ground: Ground, verdict: Literal["once", "always"], target: str, call_of: tuple[str, dict[str, str]]
) -> None:
    build, away = own_ground.work / "build", own_ground.work / "away"
    build.mkdir()
    away.symlink_to(own_ground.outside)
    stored: list[Sequence[str]] = []

    async def think(question: Question) -> Answer:
        build.rmdir()
        away.unlink()
        build.symlink_to(target)
        away.symlink_to(target)
        return Answer(verdict)

    permissions = Reasons(own_ground.policy(), ask=think, remember=stored.append)
    name, arguments = call_of
    assert "it changed while the user was asked" in await permissions(*call(name, **arguments))
    assert stored == []
    assert permissions.policy.allow == ()


async def test_what_is_allowed_by_the_time_of_the_answer_is_done(ground: Ground) -> None:
    async def relent(question: Question) -> Answer:
        permissions.mode = "all"
        return Answer("once")

    permissions = Reasons(ground.policy(), ask=relent)
    assert await permissions(*call("Write", file_path="x.md")) == ""


async def test_always_for_what_no_rule_can_allow_is_once(ground: Ground) -> None:
    stored: list[Sequence[str]] = []
    permissions = Reasons(
        ground.policy(ask=["Bash(make:*)"]), ask=Person(Answer("always"), Answer("no")), remember=stored.append
    )
    assert await permissions(*call("Bash", command="make x")) == ""
    assert await permissions(*call("Bash", command="make x")) != ""
    assert stored == []


async def test_questions_come_one_at_a_time_and_an_answer_settles_those_that_wait(ground: Ground) -> None:
    person = Person(Answer("always"), Answer("once"))
    permissions = Reasons(ground.policy(), ask=person)
    calls = [call("Bash", command="npm test"), call("Bash", command="npm  test"), call("Bash", command="foo")]
    assert await asyncio.gather(*(permissions(*each) for each in calls)) == ["", "", ""]
    assert [question.input["command"] for question in person.questions] == ["npm test", "foo"]
    assert person.asked_at_once == 1


async def test_a_cancelled_question_is_a_cancel_and_the_next_can_be_asked(ground: Ground) -> None:
    begun = asyncio.Event()
    answers: list[Answer | None] = [None, Answer("once")]

    async def ask(question: Question) -> Answer:
        answer = answers.pop(0)
        if answer is None:
            begun.set()
            await asyncio.Event().wait()
        assert answer is not None
        return answer

    permissions = Reasons(ground.policy(), ask=ask)
    waiting = asyncio.create_task(permissions(*call("Bash", command="foo")))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await permissions(*call("Bash", command="foo")) == ""


@pytest.mark.parametrize(
    ("name", "input", "told"),
    [
        ("Write", {"file_path": "x.md"}, '--permissions edits (or all), or allow it with the rule "Edit(./x.md)"'),
        ("Bash", {"command": "npm test"}, '--permissions all, or allow it with the rule "Bash(npm test) full"'),
        ("Bash", {"command": "npm test && foo"}, 'the rule "Bash(npm test && foo) full"'),
        ("WebFetch", {"url": "http://a.net/"}, '"WebFetch(domain:a.net)" in the configuration'),
        ("Write", {"file_path": "../x.md"}, "run again with --permissions all,"),
    ],
)
async def test_without_a_terminal_the_refusal_names_the_flag(ground: Ground, name: str, input: Any, told: str) -> None:
    refusal = await Reasons(ground.policy())(*call(name, **input))
    assert refusal.startswith("it needs permission (")
    assert "there is no terminal to ask: run again with" in refusal
    assert told in refusal


async def test_a_mode_that_would_not_help_is_not_named(ground: Ground) -> None:
    refusal = await Reasons(ground.policy(ask=["Bash(make:*)"]))(*call("Bash", command="make x"))
    assert "--permissions" not in refusal
    assert refusal.endswith("there is no terminal to ask; run it in a terminal")


async def test_the_mode_can_be_changed(ground: Ground) -> None:
    permissions = Reasons(ground.policy())
    assert permissions.mode == "ask"
    assert await permissions(*call("Write", file_path="x")) != ""
    permissions.mode = "edits"
    assert (permissions.mode, permissions.policy.mode) == ("edits", "edits")
    assert await permissions(*call("Write", file_path="x")) == ""


async def test_relative_paths_in_commands_begin_where_the_shell_stands(ground: Ground) -> None:
    standing: list[Path] = [ground.work / "src"]
    permissions = Reasons(ground.policy(), cwd=lambda: standing[0])
    assert await permissions(*call("Bash", command="cat main.py ../notes.txt")) == ""
    standing[0] = ground.work
    assert await permissions(*call("Bash", command="cat ../notes.txt")) != ""
