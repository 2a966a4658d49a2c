"""The first chat without a key offers to enter one. The offer is made once."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.chat.terminal import Terminal
from tests.cli.test_login import KEY, vendor

__all__ = ["vendor"]


async def test_a_key_is_asked_for_checked_and_not_shown(project: Path, vendor: str) -> None:
    async with Terminal(cwd=project, first_start=True, ANTHROPIC_BASE_URL=vendor) as terminal:
        await terminal.wait_for("Enter to go on without a key")
        terminal.say("anthropic")
        await terminal.wait_for("API key for anthropic")
        terminal.say("wrong-key-12345")
        await terminal.wait_for("does not accept this key")
        await terminal.wait_for(lambda: terminal.screen.count("Provider (") == 2)
        terminal.say("anthropic")
        await terminal.wait_for(lambda: terminal.screen.count("API key for anthropic") == 2)
        terminal.say(KEY)
        await terminal.wait_for("The key is valid.")
        await terminal.wait_for_prompt()
        assert "No API key is set. To enter" not in terminal.transcript
        assert KEY not in terminal.transcript


async def test_the_demo_model_can_be_chosen_by_its_name(project: Path) -> None:
    async with Terminal(cwd=project, first_start=True) as terminal:
        await terminal.wait_for("Enter to go on without a key")
        terminal.say("demo")
        await terminal.wait_for_prompt()
        terminal.say("What is 2+2?")
        await terminal.wait_for(re.compile(r"^4$", re.M))


async def test_the_offer_is_made_once(project: Path) -> None:
    async with Terminal(cwd=project, first_start=True) as terminal:
        await terminal.wait_for("Enter to go on without a key")
        terminal.press("enter")
        await terminal.wait_for_prompt()
    async with Terminal(cwd=project, first_start=True) as terminal:
        await terminal.wait_for_prompt()
        assert "Enter to go on without a key" not in terminal.transcript
