"""What a tool does to its arguments does not reach the recorded conversation."""

from __future__ import annotations

from typing import Any

from outrider import dumps
from outrider.testing import call
from outrider.tools.context import ToolContext
from outrider.tools.tool import tool
from tests.watching import Watched


async def test_arguments_are_the_tools_own() -> None:
    async def spoil(items: list[Any], options: dict[str, Any]) -> str:
        items.clear()
        options["inner"]["deep"].append("mine")
        options["more"] = object()
        return "spoiled"

    arguments = {"items": [1, [2]], "options": {"inner": {"deep": []}}}
    watched = Watched([call("spoil", **arguments), "ok"], [spoil])
    await watched.session.run("go")
    assert watched.session.messages[1].tool_calls[0].input == {"items": [1, [2]], "options": {"inner": {"deep": []}}}
    watched.check()


async def test_a_context_does_not_get_into_the_arguments_of_a_tool_with_its_own_schema() -> None:
    @tool(schema={"properties": {"a": {}}})
    async def raw(context: ToolContext, a: Any = None) -> str:
        a.append(context.call_id)
        return "ok"

    watched = Watched([call("raw", a=["b"]), "ok"], [raw])
    await watched.session.run("go")
    assert watched.session.messages[1].tool_calls[0].input == {"a": ["b"]}
    dumps(watched.session.messages)
