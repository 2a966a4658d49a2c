"""A long answer of a sub-agent is cut for its parent, which can read the rest."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from outrider import Agent, run, think, with_subagents
from outrider.coding import Workspace, standard_tools
from outrider.conversation.messages import Message
from outrider.providers.base import Request
from outrider.runtime.toolset import RECALL
from outrider.testing import ScriptedModel, Step, call
from outrider.tools.tool import make_tool
from tests.subagents.reporting import HELPER, offered, task

ANSWER = "head " + "x" * 30_000 + " needle " + "y" * 30_000 + " tail"


def reading_on(request: Request) -> Step:
    """A parent that sends out a helper, and reads every page of what it was not shown."""
    if offered(request, "Task") is None:
        return ANSWER
    results = request.messages[-1].tool_results
    if not results:
        return [task("Look.")]
    if more := re.search(r"stored as (attachment:\w+)", results[0].text):
        return call(RECALL, reference=more[1])
    if following := re.search(r"page=(\d+) continues", results[0].text):
        reference = next(each.input["reference"] for each in request.messages[3].tool_calls)
        return call(RECALL, reference=reference, page=int(following[1]))
    return "I have read it."


def test_the_parent_reads_the_rest_of_a_long_answer() -> None:
    model = ScriptedModel(reading_on)
    session = with_subagents(Agent(model), [HELPER], result_characters=2_000).session()
    result = asyncio.run(session.run("Go."))
    assert result.text == "I have read it."
    assert "needle" not in result.conversation[2].tool_results[0].text
    read = [each for message in result.conversation[3:] for each in message.tool_results]
    assert not any(each.is_error for each in read)
    assert any("needle" in each.text for each in read)
    assert offered(model.requests[0], RECALL) is None, "before anything is cut there is nothing to read"


def test_a_later_run_with_the_same_conversation_reads_it_too() -> None:
    def long() -> str:
        """Say much."""
        return "z" * 300_000

    first = run("Go.", tools=[long], model=ScriptedModel([call("long"), "Long."]))
    assert first.conversation[2].tool_results[0].whole
    model = ScriptedModel(["Read."])
    run([*first.conversation, Message.user("And?")], model=model)
    assert offered(model.requests[0], RECALL)
    once = ScriptedModel(["Read."])
    think("And?", conversation=first.conversation, model=once)
    assert once.requests[0].tools == (), "think offers what it was given, and nothing else"


def test_an_agent_that_reads_stored_results_itself_gets_no_other_tool() -> None:
    def show(path: str) -> str:
        """Show a file or attachment:HASH."""
        return "z" * 300_000

    tool = make_tool(show, reads_stored=True)
    model = ScriptedModel([call("show", path="a"), "Long."])
    asyncio.run(Agent(model, tools=[tool]).run("Go."))
    assert [spec.name for spec in model.requests[1].tools] == ["show"]


def test_read_of_the_coding_tools_reads_stored_results(tmp_path: Path) -> None:
    assert {tool.name for tool in standard_tools(Workspace(tmp_path)) if tool.reads_stored} == {"Read"}
