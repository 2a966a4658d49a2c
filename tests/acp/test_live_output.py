"""The output of a command that runs, for an editor without terminals: each line comes, and as plain text."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from outrider.acp.tool_calls import fenced
from tests.acp.editor import introduced
from tests.acp.seen import Seen
from tests.acp.test_editor_terminals import Terminals
from tests.cli.asking import everywhere
from tests.modelserver import Answer, ModelServer

STEPS = 25
SLOW = f"""\
for step in $(seq {STEPS}); do
  echo "# step $step"
  until [ -e "seen.$step" ]; do sleep 0.02; done
done
"""
"""Each step waits until somebody has seen the one before: what is only shown at the end would never come."""


@pytest.mark.parametrize("kind", ["replaced", "whole updates", "appended"])
async def test_each_line_of_a_slow_command_is_seen_before_the_next_one(tmp_path: Path, kind: str) -> None:
    flags = ("--full-updates",) if kind == "whole updates" else ()
    capabilities = {"_meta": {"terminal_output": True}} if kind == "appended" else {}
    (tmp_path / "slow.sh").write_text(SLOW)
    replies = [Answer("", (("b", "Bash", {"command": "sh slow.sh"}),)), Answer("Done.")]
    async with (
        ModelServer(replies) as server,
        introduced("--permissions", "all", *flags, capabilities=capabilities, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        request = editor.say(session, "Run it")
        seen = editor.seen(session)

        def shown() -> str:
            if kind == "appended":
                return fenced(seen.terminals["b"]) if "b" in seen.terminals else ""
            content = seen.calls.get("b", {}).get("content", ())
            return content[0]["content"]["text"] if content else ""

        for step in range(1, STEPS + 1):
            await editor.until(lambda: f"# step {step}\n" in shown(), f"step {step}")  # noqa: B023
            assert seen.calls["b"]["status"] == "in_progress"
            assert shown() == "```\n" + "".join(f"# step {each}\n" for each in range(1, step + 1)) + "```"
            (tmp_path / f"seen.{step}").touch()
        assert await editor.answer(request) == {"stopReason": "end_turn"}
        assert f"# step {STEPS}\n```" in shown()


LINES = 10
EACH_SECOND = f"for line in $(seq {LINES}); do echo line $line; date +%s.%N >> printed; sleep 1; done"
WITHIN = 0.5
"""Seconds from the moment when a line is printed to that when an editor has it."""
MOST_LATE = 2
"""Lines that may come later: a busy machine may stop a process for longer than that."""
CAPABILITIES: dict[str, dict[str, Any]] = {
    "appended": {"_meta": {"terminal_output": True}},
    "in a terminal": {"terminal": True},
}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["replaced", "whole updates", "appended", "in a terminal"])
async def test_a_line_a_second_is_seen_within_half_a_second(tmp_path: Path, kind: str) -> None:
    flags = ("--permissions", "all", *(("--full-updates",) if kind == "whole updates" else ()))
    replies = [Answer("", (("b", "Bash", {"command": EACH_SECOND}),)), Answer("Done.")]
    terminals = Terminals()
    came: list[float] = []
    options = {"capabilities": CAPABILITIES.get(kind, {}), "handlers": terminals.handlers()}
    async with (
        ModelServer(replies) as server,
        introduced(*flags, **options, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        request = editor.say(session, "Run it")
        seen = editor.seen(session)
        for line in range(1, LINES + 1):
            await editor.until(lambda: f"line {line}\n" in _shown(seen, terminals))  # noqa: B023
            came.append(time.time())
            assert seen.calls["b"]["status"] == "in_progress"
        assert await editor.answer(request) == {"stopReason": "end_turn"}
        await terminals.close()
    printed = [float(each) for each in (tmp_path / "printed").read_text().split()]
    late = [seconds for seconds in map(float.__sub__, came, printed) if seconds > WITHIN]
    assert len(late) <= MOST_LATE, late
    assert bool(terminals.created) == (kind == "in a terminal")


def _shown(seen: Seen, terminals: Terminals) -> str:
    """What a person can read of the call: its text, what was appended, and the terminals that it names."""
    call = seen.calls.get("b", {})
    named = [each["terminalId"] for each in call.get("content", ()) if each["type"] == "terminal"]
    in_terminals = (terminals.output[name].decode() for name in named if name in terminals.output)
    return "".join((_text(call), seen.terminals.get("b", ""), *in_terminals))


def _text(call: dict[str, Any]) -> str:
    return "".join(each["content"]["text"] for each in call.get("content", ()) if each["type"] == "content")


async def test_what_was_said_for_a_question_is_not_sent_with_each_line(tmp_path: Path) -> None:
    (tmp_path / "slow.sh").write_text(SLOW)
    command = "true '" + "a long command\n" * 300 + "'; sh slow.sh"
    replies = [Answer("", (("b", "Bash", {"command": command}),)), Answer("Done.")]
    for step in range(1, STEPS + 1):
        (tmp_path / f"seen.{step}").touch()

    def permit(params: dict[str, object]) -> dict[str, object]:
        assert "a long command\na long command" in str(params["toolCall"]).replace("\\n", "\n")
        return {"outcome": {"outcome": "selected", "optionId": "once"}}

    async with (
        ModelServer(replies) as server,
        introduced(handlers={"session/request_permission": permit}, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Run it")
        updates = editor.seen(session).of_call("b")
    with_output = [update for update in updates if "# step" in str(update.get("content"))]
    assert with_output
    assert not any("a long command" in str(update["content"]) for update in with_output)


FLOOD = Answer("", (("b", "Bash", {"command": "for n in $(seq 2000); do printf '%080d\\n' $n; done"}),))


@pytest.mark.parametrize("kind", ["replaced", "appended"])
async def test_a_flood_of_lines_costs_at_most_twice_its_bytes(tmp_path: Path, kind: str) -> None:
    capabilities = {"_meta": {"terminal_output": True}} if kind == "appended" else {}
    async with (
        ModelServer([FLOOD, Answer("Done.")]) as server,
        introduced("--permissions", "all", capabilities=capabilities, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        started = time.monotonic()
        await editor.prompt(session, "Run it")
        seconds = time.monotonic() - started
        sent = sum(len(line) for line in editor.lines if b'"toolCallId":"b"' in line)
        seen = editor.seen(session)
    printed, live = 2_000 * 81, 0 if kind == "appended" else int(8_000 * (seconds + 1))
    assert sent <= 2 * printed + live
    assert f"{2_000:080}" in (seen.terminals["b"] if kind == "appended" else str(seen.calls["b"]["content"]))
