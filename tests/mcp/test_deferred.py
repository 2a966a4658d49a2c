"""Two tools in place of a thousand: the right one is found and called."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.mcp.channel import CallProgress
from outrider.mcp.deferred import DeferredTools, ToolIndex
from outrider.mcp.protocol import CallToolResult
from outrider.mcp.tools import server_tools
from outrider.tools.context import CallRef, ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.threads import Threads
from outrider.tools.tool import Tool
from tests.mcp.catalogue import catalogue


def thousand() -> list[Tool]:
    tools: list[Tool] = []
    for server, specs in catalogue().items():

        async def call(
            name: str, arguments: Mapping[str, Any], on_progress: Callable[[CallProgress], None], server: str = server
        ) -> CallToolResult:
            said = json.dumps([server, name, arguments])
            return CallToolResult(content=[msgspec.Raw(msgspec.json.encode({"type": "text", "text": said}))])

        made, skipped = server_tools(server, specs, call)
        assert not skipped
        tools += made
    return tools


TOOLS = thousand()
INDEX = ToolIndex(TOOLS)


async def use(tool: Tool, **arguments: Any) -> ToolResult:
    return await tool.invoke(arguments, ToolContext(CallRef("call"), Path(), Threads(), lambda _: None))


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("create github issue", "mcp__github__create_issue"),
        ("open a new issue on GitHub", "mcp__github__create_issue"),
        ("list pull requests", "mcp__github__list_pull_request"),
        ("merge PRs: search pull request", "mcp__github__search_pull_request"),
        ("delete repo", "mcp__github__delete_repository"),
        ("send a slack message", "mcp__slack__create_message"),
        ("remove kubernetes deployments", "mcp__kubernetes__delete_deployment"),
        ("calendar: add an event", "mcp__google__create_calendar_event"),
        ("refunding a customer: create refund", "mcp__stripe__create_refund"),
        ("mcp__figma__export_frame", "mcp__figma__export_frame"),
        ("exportFrame", "mcp__figma__export_frame"),
        ("count the rows of a postgres table", "mcp__postgres__count_row"),
        ("find crashes in sentry", "mcp__sentry__search_crash"),
    ],
)
def test_a_thousand_tools_are_searched_by_words(query: str, wanted: str) -> None:
    assert wanted in [tool.name for tool in INDEX.search(query, 5)]


def test_most_tools_are_found_first_by_their_own_words() -> None:
    first = sum(INDEX.search(tool.name.removeprefix("mcp__").replace("_", " "), 1) == [tool] for tool in TOOLS[::7])
    assert first >= 0.95 * len(TOOLS[::7])


async def test_the_model_finds_a_tool_and_calls_it() -> None:
    search, call = DeferredTools(lambda: TOOLS).tools
    found = await use(search, query="create invoice", limit=3)
    assert found.text.startswith("## mcp__stripe__create_invoice\n")
    assert '"invoice_id"' in found.text
    result = await use(call, name="mcp__stripe__create_invoice", arguments={"invoice_id": "i1"})
    assert json.loads(result.text) == ["stripe", "create_invoice", {"invoice_id": "i1"}]


async def test_arguments_written_as_a_string_are_read() -> None:
    deferred = DeferredTools(lambda: TOOLS)
    given = {"name": "mcp__jira__get_epic", "arguments": '{"epic_id": "7"}'}
    result = await use(deferred.tools[1], **given)
    assert json.loads(result.text)[2] == {"epic_id": "7"}
    resolved = deferred.resolve(given)
    assert resolved is not None
    assert (resolved[0].name, resolved[1]) == ("mcp__jira__get_epic", {"epic_id": "7"})


async def test_mistakes_say_what_to_do() -> None:
    search, call = DeferredTools(lambda: TOOLS).tools
    unknown = await use(call, name="create_invoce stripe")
    assert unknown.is_error
    assert "Did you mean mcp__stripe__" in unknown.text
    invalid = await use(call, name="mcp__jira__get_epic", arguments={"epic_id": 7})
    assert invalid.is_error
    assert "epic_id" in invalid.text
    assert "## mcp__jira__get_epic" in invalid.text
    assert "No tool matches" in (await use(search, query="zzzz qqqq")).text
    assert DeferredTools(lambda: TOOLS).resolve({"name": "nothing"}) is None


def test_the_pair_stays_the_same_while_the_tools_change() -> None:
    current: list[Tool] = []
    deferred = DeferredTools(lambda: current)
    before = [(tool.name, tool.description, tool.parameters) for tool in deferred.tools]
    current.extend(TOOLS[:10])
    assert deferred.index().search("issue", 1)
    assert [(tool.name, tool.description, tool.parameters) for tool in deferred.tools] == before
    assert len(json.dumps(before)) < 3_000


async def test_long_schemas_do_not_fill_the_window() -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"description": "x" * 500} for n in range(30)}}
    tool = TOOLS[0]
    signature = tool.signature._replace(schema=type(tool.signature.schema).of(schema))
    large = [msgspec.structs.replace(tool, name=f"mcp__a__issue{n}", signature=signature) for n in range(20)]
    found = await use(DeferredTools(lambda: large).tools[0], query="issue", limit=20)
    assert len(found.text) < 40_000
    assert "Not shown" in found.text
