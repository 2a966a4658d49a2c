"""Agents on small and local models: what they write as text, forget, misspell, and what their window holds."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from outrider.coding import Workspace, standard_tools
from outrider.providers.adapters import model_lookup
from outrider.providers.catalogue.windows import window_of
from outrider.runtime.agent import Agent
from outrider.runtime.limits import Limits
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from tests.smallmodel import SmallModel, running

FENCED = '```json\n{"name": "look", "arguments": {"path": "a.txt"}}\n```'


@pytest.fixture(autouse=True)
def lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(model_lookup.SWITCH, "on")


def look(path: str) -> str:
    """Look at a file."""
    return f"{path} says hello."


def results(run: RunResult) -> list[str]:
    return [result.text for message in run.conversation for result in message.tool_results]


@pytest.mark.parametrize(
    "written",
    [
        FENCED,
        '{"name": "look", "arguments": {"path": "a.txt"}}',
        '<tool_call>\n{"name": "look", "arguments": {"path": "a.txt"}}\n</tool_call>\nIt says goodbye.',
        "<function=look>\n<parameter=path>\na.txt\n</parameter>\n</function>",
    ],
)
async def test_a_written_call_runs_and_its_result_is_answered(written: str) -> None:
    async with running(SmallModel([written, "It says hello."])) as model:
        run = await Session(Agent(model.url, tools=[look])).run("What does a.txt say?")
    assert (run.status, run.text) == ("done", "It says hello.")
    assert results(run) == ["a.txt says hello."]


async def test_a_misspelt_name_is_told_to_the_model() -> None:
    async with running(SmallModel([FENCED.replace("look", "look_file"), FENCED, "It says hello."])) as model:
        run = await Session(Agent(model.url, tools=[look])).run("What does a.txt say?")
    assert run.text == "It says hello."
    assert results(run)[0] == "There is no tool named 'look_file'. Did you mean look? The tools are: look."


async def test_an_empty_reply_after_a_failed_call_is_asked_for_again() -> None:
    async with running(SmallModel([FENCED.replace("look", "lok"), "", "I cannot look."])) as model:
        run = await Session(Agent(model.url, tools=[look])).run("What does a.txt say?")
    assert (run.status, run.text) == ("done", "I cannot look.")


class Size(msgspec.Struct):
    lines: int
    name: str


async def test_a_typed_question_is_decoded_by_its_schema() -> None:
    async with running(SmallModel(["I do not know."], decoded={"lines": 3, "name": "a"})) as model:
        assert await Agent(model.url).ask("How long is a?", output=Size) == Size(3, "a")
    (request,) = model.requests
    schema = request["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["lines", "name"]
    assert "tools" not in request, "servers refuse tools beside a schema"
    assert '"lines"' in request["messages"][-1]["content"], "the model sees the schema"
    assert "report_back" not in str(request["messages"]), "the reply is the answer, not a call"
    assert request["temperature"] == 0


async def test_a_report_after_other_tools_is_decoded_as_the_last_step() -> None:
    replies = [FENCED, "It has three lines.", "?"]
    async with running(SmallModel(replies, decoded={"lines": 3, "name": "a"})) as model:
        assert await Agent(model.url, tools=[look]).ask("How long is a.txt?", output=Size) == Size(3, "a")
    assert ["response_format" in request for request in model.requests] == [False, False, True]


async def test_a_server_without_schemas_gets_the_tool() -> None:
    called = '<tool_call>{"name": "report_back", "arguments": {"lines": 3, "name": "a"}}</tool_call>'
    async with running(SmallModel(["", called, called])) as model:
        assert await Agent(model.url).ask("How long is a?", output=Size) == Size(3, "a")
    assert "tools" in model.requests[1]


@pytest.mark.parametrize(("window", "tokens"), [(8192, 2048), (16384, 4096)])
async def test_a_reply_has_a_length_limit_from_the_window(window: int, tokens: int) -> None:
    async with running(SmallModel(["Hello.", "Hello.", "Hello."], window=window)) as model:
        await Session(Agent(model.url)).run("Hello")
        await Session(Agent(model.url, max_tokens=77)).run("Hello")
        await Session(Agent(model.url)).run("Hello " * (window * 5 // 12))
    first, own, long = (request["max_tokens"] for request in model.requests)
    assert (first, own) == (tokens, 77), "what the agent says wins"
    assert long < tokens, "a reply that may not fit is refused by some servers"


def long_log() -> str:
    """Return a long text."""
    return "A line of a log.\n" * 10_000


LONG = '{"name": "long_log", "arguments": {}}'


@pytest.mark.parametrize("window", [8192, 16384])
@pytest.mark.parametrize("limit", [50_000, 2_000])
async def test_results_leave_room_in_the_window(window: int, limit: int) -> None:
    async with running(SmallModel([LONG, LONG, "Long."], window=window)) as model:
        agent = Agent(model.url, tools=[long_log], limits=Limits(result_characters=limit))
        run = await Session(agent).run("Look at the log.")
    assert (run.status, run.text) == ("done", "Long.")
    assert all(len(text) <= min(limit + 200, window // 2) for text in results(run)), "the limit is an upper bound"
    assert "attachment:" in results(run)[0], "the whole is stored"


async def test_a_window_that_only_an_error_states_is_learned() -> None:
    replies = [LONG, "Long.", LONG, "Shorter."]
    async with running(SmallModel(replies, window=8192, tells=False)) as model:
        session = Session(Agent(model.url, tools=[long_log]))
        refused = await session.run("Look at the log.")
        assert refused.status == "error"
        assert window_of(session.provider) == 8192
        run = await Session(session.agent).run("Look at the log.")
    assert run.status == "done"


async def test_read_shows_as_many_lines_as_the_window_holds(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("A line of a log.\n" * 5_000)
    read = standard_tools(Workspace(tmp_path), ["Read"])[0]
    called = '{"name": "Read", "arguments": {"file_path": "a.log"}}'
    async with running(SmallModel([called, "Long."], window=8192)) as model:
        run = await Session(Agent(model.url, tools=[read]), cwd=tmp_path).run("Read the log.")
    (text,) = results(run)
    assert len(text) < 3_300
    assert "Read on with offset=" in text.splitlines()[-1], "it is cut between lines"
