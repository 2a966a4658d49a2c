"""Story 4: four sub-agents run in parallel, three return data, and the data is the same everywhere."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from outrider.log.entries import CallResult as Answered
from outrider.log.log import Log
from outrider.runtime.events import ToolFinished
from outrider.sync import default_log
from outrider.text import dollars
from tests.cli.asking import ask, streamed
from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with
from tests.cli.program import outrider
from tests.modelserver import Held, ModelServer, Recorded, Step
from tests.stories.picture import take_picture
from tests.stories.shell_picture import take_picture_of_shell
from tests.streams import Answer

PAGE = Path(__file__).parents[2] / "docs" / "stories" / "4-a-typed-report.md"
PROMPT = "Is the shop ready?"
LINES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"file": {"type": "string"}, "lines": {"type": "integer"}},
        "required": ["file", "lines"],
    },
}
TODO = {
    "type": "object",
    "properties": {"file": {"type": "string"}, "line": {"type": "integer"}, "text": {"type": "string"}},
    "required": ["file", "line", "text"],
    "additionalProperties": False,
}
TODOS = {"type": "object", "properties": {"todos": {"type": "array", "items": TODO}}, "required": ["todos"]}
LICENCE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "year": {"type": "integer", "minimum": 1970}},
    "required": ["name", "year"],
}
REPORTS: dict[str, Any] = {
    "lines": [{"file": "cart.py", "lines": 2}, {"file": "shop.py", "lines": 3}],
    "todos": {"todos": [{"file": "shop.py", "line": 2, "text": "take the tax from a table"}]},
    "licence": {"name": "MIT", "year": 2026},
}
NONSENSE = {"todos": [{"file": "shop.py", "line": "two", "todo": "tax"}]}
SUMMARY = "A shop with a cart and a tax."
FOUND = REPORTS | {"readme": SUMMARY}
TASKS = {
    "lines": ("Count the lines", "Count the lines of each Python file.", LINES),
    "todos": ("Find the TODOs", "Find what is still to do.", TODOS),
    "licence": ("Look at the licence", "Under which licence is it?", LICENCE),
    "readme": ("Sum up the README", "Sum up the README in a sentence.", None),
}
STEPS: dict[str, list[Answer]] = {
    "lines": [
        Answer("", (("glob", "Glob", {"pattern": "*.py"}),)),
        Answer("", (("cart", "Read", {"file_path": "cart.py"}), ("shop", "Read", {"file_path": "shop.py"}))),
        Answer("I have both.", (("report", "report_back", {"result": REPORTS["lines"]}),)),
    ],
    "todos": [
        Answer("", (("grep", "Grep", {"pattern": "TODO", "output_mode": "content"}),)),
        Answer("", (("report", "report_back", NONSENSE),)),
        Answer("I put it right.", (("again", "report_back", REPORTS["todos"]),)),
    ],
    "licence": [
        Answer("", (("read", "Read", {"file_path": "LICENSE"}),)),
        Answer("That is clear.", (("report", "report_back", REPORTS["licence"]),)),
    ],
    "readme": [Answer("", (("read", "Read", {"file_path": "README.md"}),)), Answer(SUMMARY)],
}
RELEASE = {
    "type": "object",
    "properties": {"lines": LINES, "todos": TODOS, "licence": LICENCE, "readme": {"type": "string"}},
    "required": list(TASKS),
}


class Cast(ModelServer):
    """Plays each part by what it is asked, because four ask at once and in any order.

    No sub-agent is answered before all of them have asked: if one waited for another, none would ever be.
    """

    def __init__(self, *, is_held: bool = False) -> None:
        super().__init__()
        self._is_held = is_held
        self._all = asyncio.Barrier(len(TASKS))

    async def _pieces(self, step: Step, api: str) -> AsyncIterator[bytes]:
        """As many tokens as real requests have, so that they cost something."""
        async for piece in super()._pieces(step, api):
            yield piece.replace(b'"input_tokens":11,', b'"input_tokens":11000,')

    async def _play(self, step: Step, request: Recorded, *streams: Any) -> bool:
        part, said = part_of(request.json)
        if not part:
            return await super()._play(sender(request.json), request, *streams)
        if not said:
            await self._all.wait()
        answer = STEPS[part][said]
        return await super()._play(Held(answer) if self._is_held and answer.text else answer, request, *streams)


@pytest.fixture(autouse=True)
def api_without_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model reports with the tool, as it does where the API enforces no schema."""
    capabilities = tmp_path / "capabilities.json"
    capabilities.write_text('{"*": {"structured_output": "no"}}')
    monkeypatch.setenv("OUTRIDER_CAPABILITIES", str(capabilities))


def part_of(body: dict[str, Any]) -> tuple[str, int]:
    """Which task a request belongs to, none for the sender's own, and how often its model has answered so far."""
    first = json.dumps(body["messages"][0])
    said = sum(message["role"] == "assistant" for message in body["messages"])
    return next((part for part, (_, prompt, _) in TASKS.items() if prompt in first), ""), said


def sender(body: dict[str, Any]) -> Answer:
    """Sends out all of them, and then says what they came back with: what stands in the request, not what should."""
    if len(body["messages"]) == 1:
        return Answer("I send four out.", tuple(map(task, TASKS)))
    back = {result["tool_use_id"]: text_of(result) for result in body["messages"][2]["content"]}
    found: dict[str, Any] = {part: json.loads(back[part]) if TASKS[part][2] else back[part] for part in TASKS}
    if any(tool["name"] == "report_back" for tool in body["tools"]):
        return Answer("", (("report", "report_back", found),))
    return Answer(f"Not quite: {found['todos']['todos'][0]['text']} first.")


def task(part: str) -> tuple[str, str, dict[str, Any]]:
    description, prompt, schema = TASKS[part]
    about = {"description": description, "prompt": prompt, "subagent_type": "Explore"}
    return part, "Task", about | ({"output_schema": schema} if schema else {})


def text_of(result: dict[str, Any]) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "cart.py").write_text("class Cart:\n    items = []\n")
    (folder / "shop.py").write_text("import cart\n# TODO: take the tax from a table\nTAX = 0.19\n")
    (folder / "LICENSE").write_text("MIT License\n\nCopyright (c) 2026\n")
    (folder / "README.md").write_text("# Shop\n\nA cart and a tax.\n")
    (folder / "release.json").write_text(json.dumps(RELEASE))
    return folder


async def test_four_report_and_the_same_data_is_everywhere(shop: Path) -> None:
    question = ("-p", PROMPT, "--schema", "release.json", "--output-format")
    async with Cast() as server:
        once = await ask(server, *question, "json", cwd=shop)
        again = await ask(server, *question, "stream-json", cwd=shop)
    answer = json.loads(once.stdout)
    assert answer["status"] == "done", once.stderr
    assert answer["structured_output"] == json.loads(answer["text"]) == FOUND
    events, result = streamed(again.stdout)
    assert result | {"session": ""} == answer | {"session": ""}
    assert reported(event for event in events if isinstance(event, ToolFinished)) == FOUND
    for each in (result, answer):
        stored_is_the_same(each["session"])
        the_cost_of_the_tree_is_shown(each)


def reported(ends: Iterable[ToolFinished | Answered]) -> dict[str, Any]:
    """What each task came back with: the data, which the model reads as JSON, or its last words."""
    found = {}
    for end in ends:
        if (part := end.result.tool_use_id) in TASKS:
            assert ("structured_output" in end.details) == (part in REPORTS)
            found[part] = json.loads(end.result.text) if part in REPORTS else end.result.text
            assert found[part] == end.details.get("structured_output", SUMMARY)
    return found


def stored_is_the_same(session: str) -> None:
    """The answers of the sender's calls, and those of its sub-agents, of which one was told what was wrong."""
    with default_log() as log:
        assert reported(answers_in(log, session)) == FOUND
        children = {child.title: answers_in(log, child.id) for child in log.children(session)}
    assert children.keys() == {f"Explore: {description}" for description, _, _ in TASKS.values()}
    *_, rejected, accepted = children["Explore: Find the TODOs"]
    assert accepted.details == {"structured_output": REPORTS["todos"]}
    (nonsense,) = (end.result for ends in children.values() for end in ends if end.result.is_error)
    assert nonsense == rejected.result
    assert nonsense.text in PAGE.read_text()


def answers_in(log: Log, session: str) -> list[Answered]:
    """What the calls of a session were answered with."""
    return [record.entry for record in log.records(session) if isinstance(record.entry, Answered)]


def the_cost_of_the_tree_is_shown(answer: dict[str, Any]) -> None:
    """Each with its own, and all of them together: as much as the answer says."""
    shown = outrider("sessions", "show", answer["session"]).stdout
    with default_log() as log:
        tree = [log.session(answer["session"]), *log.children(answer["session"])]
    assert sum(each.usage.cost or 0 for each in tree) == pytest.approx(answer["cost"])
    assert min(each.usage.cost or 0 for each in tree) > 0
    for child in tree[1:]:
        assert f"{child.id[:8]}  {child.title} · {child.turns} turns, {dollars(child.usage.cost)}" in shown
    assert f"total {sum(each.turns for each in tree)} turns, {dollars(answer['cost'])}" in shown
    for data in REPORTS.values():
        assert compact(data) in shown
    take_picture_of_shell(
        "4-the-same-data",
        (f'outrider -p "{PROMPT}" --schema release.json --output-format json > answer.json', ""),
        ("jq -c '.structured_output[]' answer.json", "\n".join(map(compact, answer["structured_output"].values()))),
        (f"outrider sessions show {answer['session'][:8]} | head -n 12", "\n".join(shown.splitlines()[:12])),
    )


def compact(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


def at_home(shop: Path, server: ModelServer) -> dict[str, Any]:
    return answered_by(server) | {"HOME": str(shop.parent)}


async def test_four_at_once_are_watched_in_the_chat(shop: Path) -> None:
    async with (
        Cast(is_held=True) as server,
        Terminal(cwd=shop, columns=100, lines=30, **at_home(shop, server)) as terminal,
    ):
        await terminal.wait_for_prompt()
        terminal.say(PROMPT)
        await terminal.wait_for(lambda: terminal.screen.count("· writing") == len(TASKS))
        take_picture("4-four-at-once", terminal)
        for title, _, _ in TASKS.values():
            assert title in terminal.screen
        server.release.set()
        await terminal.wait_for("Not quite: take the tax from a table first.")
        await at_the_prompt_with(terminal, "/tree")
        take_picture("4-a-typed-report", terminal)
        for row in (*REPORTS["lines"], REPORTS["todos"], {"year": 2026}):
            assert json.dumps(row) in terminal.screen
        assert re.search(r"total 12 turns, \$0\.\d{4}", terminal.screen)
