"""Lists of servers: limits, and items that cannot be shown."""

from __future__ import annotations

from typing import Any

import msgspec

from outrider.mcp.lists import FullList, read_list
from outrider.mcp.protocol import Page, Prompt, Resource
from outrider.mcp.server_limits import Bounds


async def read(items: list[Any], field: str, type: Any, bounds: Bounds) -> FullList[Any]:
    async def one_page(method: str, params: dict[str, Any], wanted: type[Page]) -> Page:
        return msgspec.json.decode(msgspec.json.encode({field: items}), type=wanted)

    return await read_list(one_page, "list", field, type, bounds)


async def test_names_and_addresses_that_cannot_be_shown_are_left_out() -> None:
    given = [{"uri": "a:\x1b[2J"}, {"uri": "a:1", "name": "x\u202e"}, {"uri": "a:2", "name": "good"}]
    found = await read(given, "resources", Resource, Bounds())
    assert [each.uri for each in found.items] == ["a:2"]
    assert found.skipped == [
        "an item is not valid: its uri has characters that cannot be shown",
        "an item is not valid: its name has characters that cannot be shown",
    ]


async def test_descriptions_can_be_shown() -> None:
    argument = {"name": "who", "description": "\x1b[1mbold"}
    given = [{"name": "greet", "title": "\x07Greet", "description": "a\u200bb", "arguments": [argument]}]
    (prompt,) = (await read(given, "prompts", Prompt, Bounds())).items
    assert (prompt.title, prompt.description, prompt.arguments[0].description) == (
        "⟨BEL⟩Greet",
        "a⟨U+200B⟩b",
        "⟨ESC⟩[1mbold",
    )


async def test_one_large_page_is_cut() -> None:
    given = [{"uri": f"a:{number}"} for number in range(100)]
    size = len(msgspec.json.encode(given[0]))
    found = await read(given, "resources", Resource, Bounds(list_bytes=5 * size))
    assert len(found.items) == 5
    assert "the rest is left out" in found.skipped[-1]
