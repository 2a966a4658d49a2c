"""The output of a command that runs, for an editor without terminals: each line comes, and as plain text."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from outrider.acp.tool_calls import fenced
from tests.acp.editor import introduced
from tests.acp.lateness import Lateness, Stamps, controlled
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


@pytest.mark.sampled(1)
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


TICKS = """\
import sys, time
for line in range(1, int(sys.argv[1]) + 1):
    print(f"line {line} at {time.monotonic():.6f} s", flush=True)
    time.sleep(1)
"""
"""Prints a line a second, with the time at which it is printed."""
WITHIN = 0.5
"""Seconds from the moment when a line is printed to that when an editor has it."""
CAPABILITIES: dict[str, dict[str, Any]] = {
    "appended": {"_meta": {"terminal_output": True}},
    "in a terminal": {"terminal": True},
}


class Line(NamedTuple):
    """One line of the command."""

    delay: float
    """Seconds from its printing to the moment when the message that shows it was read."""
    excuse: float
    """Seconds of them that the machine may have caused."""

    @property
    def is_late(self) -> bool:
        return self.delay > WITHIN + self.excuse


@pytest.mark.long
@pytest.mark.parametrize("kind", ["replaced", "whole updates", "appended", "in a terminal"])
async def test_a_line_a_second_is_seen_within_half_a_second(tmp_path: Path, kind: str) -> None:
    flags = ("--full-updates",) if kind == "whole updates" else ()
    lines = await _measured(tmp_path, 10, *flags, capabilities=CAPABILITIES.get(kind, {}))
    assert not [line for line in lines if line.is_late], lines


@pytest.mark.long
async def test_lines_that_are_held_back_for_longer_are_found_late(tmp_path: Path) -> None:
    """The test of the test above: it would see a pacer that waits for 0.6 s."""
    _, *lines = await _measured(tmp_path, 4, "--update-interval", "0.6")  # the first comes with an earlier change
    assert all(line.delay >= 0.6 for line in lines)
    if all(line.excuse >= 0.6 - WITHIN for line in lines):
        pytest.skip(f"the machine is too busy to tell: {lines}")
    assert [line for line in lines if line.is_late]


async def _measured(folder: Path, count: int, *flags: str, capabilities: dict[str, Any] | None = None) -> list[Line]:
    """Run a command that prints a line a second, in an editor with these capabilities."""
    (folder / "ticks.py").write_text(TICKS)
    command = shlex.join([sys.executable, "-S", "ticks.py", str(count)])
    replies = [Answer("", (("b", "Bash", {"command": command}),)), Answer("Done.")]
    terminals, stamps = Terminals(), Stamps()
    options = {"capabilities": capabilities, "handlers": terminals.handlers(), "tap": stamps.tap}
    async with (
        ModelServer(replies) as server,
        introduced("--permissions", "all", *flags, **options, **everywhere(server)) as editor,
    ):
        session = await editor.new(folder)
        with controlled([f"/proc/{editor.process.pid}", f"/proc/{os.getpid()}/task/{stamps.thread_id}"]) as samples:
            assert await editor.prompt(session, "Run it") == "end_turn"
        await terminals.close()
    assert bool(terminals.created) == ("terminal" in (capabilities or {}))
    printed = re.findall(r"line \d+ at (\S+) s\n", _shown(editor.seen(session), terminals))
    assert len(printed) == count
    lateness = Lateness(samples)
    shown = _shown_when(stamps.lines, terminals)
    times = [(float(when), shown[f"line {number} at {when} s\n"]) for number, when in enumerate(printed, 1)]
    # A terminal that the call names shows a line without the agent.
    return [Line(seen - when, lateness.between(when, seen)) for when, seen in ((w, max(w, s)) for w, s in times)]


def _shown_when(lines: list[tuple[float, bytes]], terminals: Terminals) -> dict[str, float]:
    """When each line of the command was first to be read, while the command ran."""
    seen, shown = Seen(), dict[str, float]()
    for when, line in lines:
        message = json.loads(line)
        if message.get("method") == "session/update":
            seen.take(message["params"]["update"])
            if seen.calls.get("b", {}).get("status") == "in_progress":
                for each in _shown(seen, terminals).splitlines(keepends=True):
                    shown.setdefault(each, when)
    return shown


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
