"""Everyday commands that only read: with a sandbox, none of them asks."""

from __future__ import annotations

import pytest

from outrider.coding.permissions.question import MODES
from tests.coding.permissions.everyday_commands import EVERYDAY_COMMANDS
from tests.coding.permissions.workspace import Ground


@pytest.mark.parametrize("command", EVERYDAY_COMMANDS)
def test_an_everyday_command_does_not_ask_where_there_is_a_sandbox(ground: Ground, command: str) -> None:
    for mode in MODES:
        assert ground.bash(command, mode, sandboxed=True).verdict == "allow"


def test_a_question_about_a_command_in_the_sandbox_is_its_level(ground: Ground) -> None:
    asked = ground.bash("for f in *; do touch $f; done", access="write", sandboxed=True)
    assert (asked.verdict, asked.reason) == ("ask", "access write: changes files in the folder, no network")
    assert asked.always == ("Bash(for f in *; do touch $f; done) write",)


def test_there_are_at_least_sixty() -> None:
    assert len(set(EVERYDAY_COMMANDS)) >= 60
