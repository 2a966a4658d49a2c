"""Servers that hang, lie, flood and die: each costs an error result or a notice, never a hang or the session."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from outrider.errors import McpError, McpTimeoutError
from outrider.mcp.client import Client
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
from outrider.mcp.server_limits import Bounds, Restarts, ServerHost
from outrider.mcp.stdio import StdioChannel
from tests.mcp.starting import Pool, connected, hostile, limited, scripted, text_of

GO = "mcp__hostile__go"
KIB, MIB = 1024, 1024 * 1024


async def test_a_server_that_never_answers_fails_alone() -> None:
    async with Pool(hostile("never", startup_timeout=0.3), scripted()) as pool:
        assert [each.state for each in pool.statuses()] == ["failed", "ready"]
        assert "did not answer" in pool.notices[0]
        assert (await pool.call("mcp__scripted__echo", text="hi")).text == "hi"


async def test_a_call_that_is_never_answered_is_an_error() -> None:
    async with Pool(hostile("silent", timeout=0.3)) as pool:
        result = await pool.call(GO)
        assert result.is_error
        assert "did not answer tools/call within 0.3 seconds" in result.text
        assert pool.statuses()[0].state == "ready"


async def test_a_second_answer_is_ignored() -> None:
    async with Pool(hostile("twice")) as pool:
        assert [(await pool.call(GO)).text for _ in range(3)] == ["done"] * 3


async def test_answers_with_wrong_ids_are_ignored() -> None:
    async with Pool(hostile("wrong ids", timeout=0.5)) as pool:
        assert "did not answer" in (await pool.call(GO)).text
        assert pool.statuses()[0].state == "ready"


@pytest.mark.parametrize("what", ["huge", "huge, id last"])
async def test_a_huge_result_is_an_error_in_bounded_memory(what: str) -> None:
    tracemalloc.start()
    try:
        async with Pool(hostile(what, size=30 * MIB), host=limited(message_bytes=MIB)) as pool:
            tracemalloc.reset_peak()
            result = await pool.call(GO)
            assert result.is_error
            assert "more than 1.0 MiB" in result.text
            assert (await pool.call(GO)).text == "done"
            assert tracemalloc.get_traced_memory()[1] < 10 * MIB
    finally:
        tracemalloc.stop()


async def test_a_line_without_end_is_skipped_in_bounded_memory() -> None:
    async with Pool(hostile("no line end", size=8 * MIB), host=limited(message_bytes=MIB)) as pool:
        result = await pool.call(GO)
        assert result.is_error
        assert "more than 1.0 MiB" in result.text


async def test_a_schema_with_ten_thousand_levels_is_a_notice() -> None:
    async with Pool(hostile("deep schema"), scripted()) as pool:
        assert pool.statuses()[0].state == "failed"
        assert "nested too deeply" in pool.notices[0]
        assert (await pool.call("mcp__scripted__echo", text="hi")).text == "hi"


async def test_a_rather_deep_schema_costs_only_its_tool() -> None:
    async with Pool(hostile("rather deep schema")) as pool:
        assert pool.names == ["mcp__hostile__good"]
        assert "nested more than 100 levels" in pool.notices[0]


async def test_a_result_with_ten_thousand_levels_is_an_error() -> None:
    async with Pool(hostile("deep result")) as pool:
        result = await pool.call(GO)
        assert result.is_error
        assert "invalid answer" in result.text
        assert (await pool.call(GO)).text == "done"


async def test_names_and_descriptions_are_harmless() -> None:
    async with Pool(hostile("names")) as pool:
        tools = {tool.name: tool for tool in pool.tools()}
        assert tools["mcp__hostile__Bash"].description == "⟨ESC⟩[31mRuns⟨ESC⟩[0m ⟨BEL⟩everything⟨U+202E⟩⟨U+E0041⟩"
        assert "Bash" not in tools
        assert all(name.startswith("mcp__hostile__") and len(name) <= 64 for name in tools)
        assert "mcp__hostile__a_b" in tools
        assert len([name for name in tools if name.startswith("mcp__hostile__a_b")]) == 2
        assert len([name for name in tools if "xxxx" in name]) == 1
        described = tools["mcp__hostile__described"]
        assert described.parameters["properties"]["a"]["description"] == "⟨ESC⟩[1mbold"
        assert described.effect == "write"  # its hint counts only if the user trusts the server
        for missing in ("remote", "list", "wrong"):
            assert f"mcp__hostile__{missing}" not in tools
        assert not any("\x1b" in notice for notice in pool.notices)


async def test_a_trusted_server_may_say_that_a_tool_only_reads() -> None:
    server = hostile("names")
    trusted = type(server)(server.name, server.command, server.args, trusted=True)
    async with Pool(trusted) as pool:
        effects = {tool.name: tool.effect for tool in pool.tools()}
        assert effects["mcp__hostile__described"] == "read"
        assert effects["mcp__hostile__Bash"] == "write"


async def test_endless_pages_end() -> None:
    async with connected(hostile("endless pages"), host=limited(pages=7)) as client:
        assert len(await client.list_tools()) == 7


async def test_a_server_that_lies_about_itself_fails() -> None:
    client = Client(hostile("lies"))
    with pytest.raises(McpError, match="invalid answer to initialize"):
        await client.connect()


@pytest.mark.parametrize(("what", "told"), [("exits", "ended (exit code 3)"), ("half a line", "ended (exit code 0)")])
async def test_a_server_that_dies_in_a_call_is_started_again(what: str, told: str, tmp_path: Path) -> None:
    async with Pool(hostile(what, once=str(tmp_path / "once"))) as pool:
        result = await pool.call(GO)
        assert result.is_error
        assert told in result.text
        assert (await pool.call(GO)).text == "done"
        assert "It is started again." in pool.notices[0]


async def test_a_child_that_keeps_the_output_open_does_not_hide_the_end() -> None:
    async with Pool(hostile("leaves a child"), host=ServerHost(restarts=Restarts(most=0))) as pool:
        assert "ended (exit code 5)" in (await pool.call(GO)).text


async def test_a_server_that_always_dies_is_given_up() -> None:
    restarts = Restarts(most=2, first_pause=0.01, longest_pause=0.01)
    async with Pool(hostile("always exits"), host=ServerHost(restarts=restarts)) as pool:
        texts = [(await pool.call(GO)).text for _ in range(4)]
        assert all("exit code 4" in text for text in texts)
        await pool.settled()
        assert pool.statuses()[0].state == "failed"
        assert "It is not started again." in pool.notices[-1]
        assert pool.names == [GO]  # the request to the model stays the same


async def test_a_flood_of_stderr_does_not_block() -> None:
    async with connected(hostile("stderr", size=4 * MIB)) as client:
        assert text_of(await client.call_tool("go", {})) == "done"
        channel = client._channel
        assert isinstance(channel, StdioChannel)
        assert 0 < len(channel._stderr) <= Bounds().stderr_bytes


async def test_lines_that_are_no_messages_are_ignored() -> None:
    async with Pool(hostile("garbage")) as pool:
        assert [(await pool.call(GO)).text for _ in range(3)] == ["done"] * 3


async def test_an_endless_flood_of_lines_ends_the_server() -> None:
    async with Pool(hostile("flood"), host=ServerHost(restarts=Restarts(most=0))) as pool:
        result = await pool.call(GO)
        assert result.is_error
        assert "too many messages that answer nothing" in result.text
        await pool.settled()
        assert pool.statuses()[0].state == "failed"


async def test_too_many_questions_at_once_are_refused() -> None:
    most = 0
    asked = 0

    async def answer(question: Elicitation) -> ElicitationAnswer:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await asyncio.sleep(0.05)
        asked -= 1
        return ElicitationAnswer("decline")

    async with Pool(hostile("asks too much"), host=limited(server_requests=4), on_elicit=answer) as pool:
        assert (await pool.call(GO)).text == "done"
    assert most <= 4


async def test_much_progress_is_thinned_out() -> None:
    async with Pool(hostile("much progress")) as pool:
        began = time.monotonic()
        assert (await pool.call(GO)).text == "done"
        assert 20 <= len(pool.progress) <= 21 + 10 * (time.monotonic() - began)
        assert pool.progress[0] == "⟨ESC⟩[2J (0)"


async def test_tools_that_change_in_a_call() -> None:
    changed = asyncio.Event()
    async with Pool(hostile("fickle"), on_change=changed.set) as pool:
        changed.clear()
        assert (await pool.call(GO)).text == "done"
        await changed.wait()
        assert pool.names == ["mcp__hostile__other"]


async def test_a_flood_of_changes_is_read_now_and_then() -> None:
    async with Pool(hostile("many changes")) as pool:
        assert (await pool.call(GO)).text == "done"
        assert (await pool.call(GO)).text == "done"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({}, "returned nothing"),
        ({"content": [{"type": "image", "data": "%%%", "mimeType": "image/png"}]}, "not valid base64"),
        ({"content": [{"text": "no type"}]}, "is not valid"),
        ({"content": [{"type": "hologram\x1b[2J"}]}, "not supported: hologram⟨ESC⟩[2J]"),
        ({"content": {"type": "text"}}, "invalid answer to tools/call"),
        ({"content": [{"type": "text", "text": "x"}], "resultType": "later"}, "unknown type, 'later'"),
        ({"content": [{"type": "text", "text": "\ud800"}]}, "\ufffd"),
        ({"content": [{"type": "text", "text": "a\x1b]52;c;eA==\x07b\u200b"}]}, "a⟨ESC⟩]52;c;eA==⟨BEL⟩b⟨U+200B⟩"),
        ({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "\x1b[2J"}}]}, "[a:b]\n⟨ESC⟩[2J"),
    ],
)
async def test_invalid_results_are_told(result: dict[str, Any], expected: str) -> None:
    async with Pool(hostile("bad results", result=result)) as pool:
        assert expected in (await pool.call(GO)).text


async def test_closing_ends_a_stubborn_server_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    async with Pool(hostile("stubborn", pids=str(pids))):
        running = [int(pid) for pid in pids.read_text().split()]
        assert all(map(is_running, running))
    assert not any(map(is_running, running))


async def test_the_time_for_starting_is_kept() -> None:
    client = Client(hostile("never", startup_timeout=0.3))
    with pytest.raises(McpTimeoutError, match="did not answer initialize"):
        await client.connect()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_pauses_between_restarts_grow_to_a_limit() -> None:
    assert [Restarts().pause(failures) for failures in (1, 2, 3, 9)] == [1, 2, 4, 30]
