"""`/context` and `/compact` in the chat."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with
from tests.modelserver import Held, ModelServer
from tests.streams import Answer

COMPACTED = re.compile(r"∽ Compacted: [\d,]+k? → [\d,]+k? tokens")
MESSAGES = ("My colour is vermilion.", "My number is nine.", "My town is Oslo.")


async def test_the_context_is_shown_as_a_bar_and_a_table_also_before_the_first_message(project: Path) -> None:
    async with (
        ModelServer([Answer("Hello.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "/context")
        assert re.search(r"of (200k|1M) tokens \(\d+%\)", terminal.transcript)
        assert "░░░░░" in terminal.transcript
        for part in ("system prompt", "tools", "files", "conversation", "free"):
            assert re.search(rf"[█░] {part} +[\d,.]+[kM]? +\d+\.\d%", terminal.transcript)
        assert not server.requests, "counting needs no request"
        await at_the_prompt_with(terminal, "Hello", "/context")
        assert "✗" not in terminal.transcript


async def test_a_model_without_a_known_window_has_no_bar(project: Path) -> None:
    async with Terminal("--model", "demo", cwd=project) as terminal:
        await at_the_prompt_with(terminal, "What is 2+2?", "/context")
        assert "tokens; the context window of this model is not known" in terminal.flowing
        assert "░" not in terminal.transcript


async def test_compact_makes_a_summary_with_what_the_person_wants_to_keep(project: Path) -> None:
    replies = [*(Answer(f"Noted {number}. {'I see. ' * 200}") for number in range(3)), Answer("## Goal\nTalk.")]
    async with (
        ModelServer([*replies, Answer("Vermilion.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "/compact")
        assert "There are no messages yet." in terminal.transcript
        await at_the_prompt_with(terminal, *MESSAGES, "/compact the colours")
        assert COMPACTED.search(terminal.transcript)
        asked = msgspec.json.decode(server.requests[3].body)["messages"][-1]
        assert "the colours" in str(asked)
        await at_the_prompt_with(terminal, "Which colour?")
        sent = msgspec.json.decode(server.requests[4].body)
        assert "## Goal" in str(sent["messages"][0])
        assert "Recall" in [tool["name"] for tool in sent["tools"]]


async def test_nothing_to_compact_is_said(project: Path) -> None:
    async with (
        ModelServer([Answer("Hello."), Answer("## Goal\nTalk.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Hello", "/compact", "/compact")
        assert "nothing to compact" in terminal.flowing


async def test_a_compaction_can_be_interrupted_and_changes_nothing(project: Path) -> None:
    replies = [*(Answer(f"Noted {number}. {'I see. ' * 200}") for number in range(3)), Held(Answer("## Goal"))]
    async with (
        ModelServer([*replies, Answer("Vermilion.")]) as server,
        Terminal(cwd=project, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, *MESSAGES)
        terminal.say("/compact")
        await terminal.wait_for(re.compile(r"Compacting [\d,]+k? tokens \(Esc to interrupt\)"))
        terminal.press("escape")
        await terminal.wait_for("Interrupted.")
        await terminal.wait_for_prompt()
        assert not COMPACTED.search(terminal.transcript)
        server.release.set()
        await at_the_prompt_with(terminal, "Which colour?")
        assert "My colour is vermilion." in server.requests[-1].body.decode()
