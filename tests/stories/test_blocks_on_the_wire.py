"""Blocks on the wire: three calls at once, one of which fails, and the request for each API."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.adapters import ONE_EACH
from tests.cli.asking import messages
from tests.cli.chat.terminal import MODEL, Terminal, answered_by, at_the_prompt_with
from tests.cli.program import outrider
from tests.modelserver import ModelServer
from tests.readback import items_of
from tests.stories.looking import conversation_in, leave
from tests.stories.picture import take_picture
from tests.streams import Answer, Json

QUESTION = "When do we open, what will it cost, and what is left to do?"
CALLS: tuple[tuple[str, str, Json], ...] = (
    ("call_plan", "Read", {"file_path": "plan.md"}),
    ("call_prices", "Read", {"file_path": "prices.csv"}),
    ("call_todo", "Grep", {"pattern": "TODO", "output_mode": "content"}),
)
ANSWER = "You open in May, and the key is not found yet. Shall I read prices.txt?"

PLAN = "     1\t# The bicycle shop\n     2\t\n     3\tOpen in May."
MISSING = "prices.csv does not exist. Names like it in the same folder: prices.txt."
TODO = "shop.py:2:    pass  # TODO: find the key"
ON_THE_WIRE: dict[str, list[Json]] = {
    "anthropic": [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_plan", "content": [{"type": "text", "text": PLAN}]},
                {
                    "type": "tool_result",
                    "tool_use_id": "call_prices",
                    "content": [{"type": "text", "text": MISSING}],
                    "is_error": True,
                },
                {"type": "tool_result", "tool_use_id": "call_todo", "content": [{"type": "text", "text": TODO}]},
            ],
        }
    ],
    "openai": [
        {"type": "function_call_output", "call_id": "call_plan", "output": PLAN},
        {"type": "function_call_output", "call_id": "call_prices", "output": f"[This call failed]\n{MISSING}"},
        {"type": "function_call_output", "call_id": "call_todo", "output": TODO},
    ],
    "openai-chat": [
        {"role": "tool", "tool_call_id": "call_plan", "content": PLAN},
        {"role": "tool", "tool_call_id": "call_prices", "content": f"[This call failed]\n{MISSING}"},
        {"role": "tool", "tool_call_id": "call_todo", "content": TODO},
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "Read", "response": {"output": PLAN}}},
                {"functionResponse": {"name": "Read", "response": {"error": MISSING}}},
                {"functionResponse": {"name": "Grep", "response": {"output": TODO}}},
            ],
        }
    ],
}
"""The message with the results as each API has it: those of OpenAI have one item for each result, in a row."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder in which one of the files that the model asks for is not there."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "plan.md").write_text("# The bicycle shop\n\nOpen in May.\n")
    (folder / "prices.txt").write_text("a bicycle: 400\n")
    (folder / "shop.py").write_text("def open_shop():\n    pass  # TODO: find the key\n")
    return folder


async def test_three_results_are_one_message_in_call_order_with_the_failed_one_flagged_for_all_four_apis(
    project: Path,
) -> None:
    async with ModelServer([Answer("I'll look.", CALLS), Answer(ANSWER)]) as server:
        session = await chat(server, project)
    _, sent = server.requests
    (stored,) = (message for message in messages(session) if message.tool_results)
    assert stored.role == "user"
    assert [result.is_error for result in stored.tool_results] == [False, True, False]
    for case in ONE_EACH:
        body = wired(session, case.name)
        results = [item for item in items_of(case.api, body) if item.kind == "result"]
        assert [result.failed for result in results] == [False, True, False], "these, and no others"
        assert conversation_in(body)[results[0].place : results[-1].place + 1] == ON_THE_WIRE[case.api]
        if case.api == sent.api:
            assert conversation_in(body)[:3] == conversation_in(sent.json), "what it shows is what was sent"
    await look_at_the_wire(session, project)


async def chat(server: ModelServer, project: Path) -> str:
    """Ask in a terminal, see what came of each call, and leave; the id of the session, as the farewell has it."""
    async with Terminal(
        cwd=project, columns=100, lines=30, HOME=str(project.parent), **answered_by(server)
    ) as terminal:
        await at_the_prompt_with(terminal, QUESTION)
        await terminal.wait_for(ANSWER)
        assert terminal.colour("✗") == "red"
        assert re.search(r"^✓ Read\(plan\.md\) · 3 lines$", terminal.screen, re.M)
        assert re.search(rf"^✗ Read\(prices\.csv\)\n    {re.escape(MISSING)}$", terminal.screen, re.M)
        assert re.search(r"^✓ Grep\(TODO\) · ", terminal.screen, re.M)
        session = await leave(terminal)
        take_picture("blocks-chat", terminal)
        return session


def wired(session: str, model: str) -> Json:
    """The request as `outrider wire` prints it; no key is set."""
    ended = outrider("wire", session, "--as", model)
    assert (ended.returncode, ended.stderr) == (0, "")
    body: Json = json.loads(ended.stdout)
    return body


async def look_at_the_wire(session: str, project: Path) -> None:
    """The same on a screen."""
    async with Terminal("wire", session, "--as", MODEL, cwd=project, columns=100, lines=48) as terminal:
        assert await terminal.exit_code() == 0
        assert terminal.screen.count('"type": "tool_result"') == 3
        assert terminal.screen.count('"is_error": true') == 1
        take_picture("blocks-wire", terminal)


def test_a_session_that_is_not_there_is_one_sentence_and_2() -> None:
    ended = outrider("wire", "3f2a", "--as", MODEL)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("outrider wire: there is no session '3f2a'")
    assert ended.stderr.count("\n") == 1
