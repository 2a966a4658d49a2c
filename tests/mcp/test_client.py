"""The client with a real program of either era."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from outrider.errors import McpError
from outrider.mcp.channel import CallProgress
from outrider.mcp.client import Client
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
from outrider.mcp.handshake import agree
from outrider.mcp.results import prompt_content, resource_content
from outrider.mcp.servers import StdioServer
from tests.mcp.starting import connected, limited, scripted, text_of


@pytest.fixture(params=("modern", "legacy"))
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_connects_in_either_era(era: str) -> None:
    async with connected(scripted(era=era)) as client:
        agreed = client.agreement
        assert agreed is not None
        assert agreed.is_stateless is (era == "modern")
        assert agreed.version == ("2026-07-28" if era == "modern" else "2025-06-18")
        assert agreed.server_info.name == "scripted"
        assert agreed.instructions == "Be kind."


async def test_calls_a_tool(era: str) -> None:
    async with connected(scripted(era=era)) as client:
        assert text_of(await client.call_tool("echo", {"text": "hällo\u2028\n"})) == "hällo\u2028\n"


async def test_falls_back_when_the_probe_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(agree.__kwdefaults__, "silence", 0.2)
    async with connected(scripted(era="legacy", silent=True)) as client:
        assert client.agreement is not None
        assert not client.agreement.is_stateless


async def test_starts_a_strict_old_server_again(tmp_path: Path) -> None:
    """Some old servers end when the first request is not `initialize`."""
    pids = tmp_path / "pids"
    async with connected(scripted(era="legacy", strict=True, pid_file=str(pids))) as client:
        assert text_of(await client.call_tool("echo", {"text": "hi"})) == "hi"
    assert len(pids.read_text().splitlines()) == 2


async def test_asks_a_slow_stateless_server_again() -> None:
    """It answers neither request in time, and then refuses `initialize`."""
    client = Client(scripted(era="modern", delay=0.6))
    try:
        channel = await client._open()
        agreed = await agree(channel, "slow", {}, seconds=60, silence=0.1)
        assert agreed.is_stateless
    finally:
        await client.close()


async def test_a_server_with_other_versions_falls_back() -> None:
    async with connected(scripted(era="both", versions=["2027-01-01"])) as client:
        assert client.agreement is not None
        assert client.agreement.version == "2025-06-18"


async def test_an_unknown_old_version_is_an_error() -> None:
    client = Client(scripted(era="legacy", version="1999-01-01"))
    with pytest.raises(McpError, match="speaks version '1999-01-01'"):
        await client.connect()
    await client.close()


async def test_a_missing_program_is_named() -> None:
    client = Client(StdioServer("gone", "no-such-program-at-all"))
    with pytest.raises(McpError, match="'no-such-program-at-all' was not found"):
        await client.connect()
    with pytest.raises(McpError, match="folder /no/such/folder does not exist"):
        await Client(StdioServer("gone", "true", cwd="/no/such/folder")).connect()


async def test_an_early_end_says_what_the_program_said_without_secrets() -> None:
    script = "import os, sys; sys.exit('bad token ' + os.environ['TOKEN'] + ' \x1b[31mred')"
    client = Client(StdioServer("broken", sys.executable, ["-c", script], env={"TOKEN": "hunter2hunter2"}))
    with pytest.raises(McpError) as caught:
        await client.connect()
    assert "exit code 1" in str(caught.value)
    assert "bad token … red" in str(caught.value)


async def test_only_named_variables_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET_KEY", "hunter2")
    script = "import os, sys; sys.exit(','.join(sorted(os.environ)))"
    client = Client(StdioServer("env", sys.executable, ["-E", "-c", script], env={"WANTED": "1"}))
    with pytest.raises(McpError) as caught:
        await client.connect()
    assert "WANTED" in str(caught.value)
    assert "MY_SECRET_KEY" not in str(caught.value)


async def test_reads_all_pages(era: str) -> None:
    async with connected(scripted(era=era, page=3)) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert len(names) == len(set(names)) == 13


async def test_stops_at_the_most_items_and_pages() -> None:
    async with connected(scripted(page=3), host=limited(items=5)) as client:
        assert len(await client.list_tools()) == 5
        assert "longer than 5 items" in client.skipped["tools"][0]
    async with connected(scripted(page=3), host=limited(pages=2)) as client:
        assert len(await client.list_tools()) == 6
    async with connected(scripted(page=3), host=limited(list_bytes=1_000)) as client:
        assert 0 < len(await client.list_tools()) < 11
        assert "1000 bytes; the rest is left out" in client.skipped["tools"][0]


async def test_keeps_a_list_as_long_as_the_server_says(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with connected(scripted(ttl=3_600_000, record=str(log))) as client:
        assert await client.list_tools() == await client.list_tools()
        assert log.read_text().count("tools/list") == 1


async def test_a_change_ends_what_was_kept(era: str) -> None:
    changed: asyncio.Queue[str] = asyncio.Queue()
    async with connected(scripted(era=era, ttl=3_600_000), on_change=changed.put_nowait) as client:
        before = await client.list_tools()
        while changed.empty():  # the server learns of the subscription at some point
            await client.call_tool("grow", {})
        assert await changed.get() == "tools"
        assert len(await client.list_tools()) > len(before)


async def test_progress_arrives_in_order(era: str) -> None:
    seen: list[CallProgress] = []
    async with connected(scripted(era=era)) as client:
        await client.call_tool("progress", {}, on_progress=seen.append)
    assert seen == [CallProgress(step, 3, f"step {step}") for step in (1, 2, 3)]


async def test_asks_the_person_and_fills_in_defaults(era: str) -> None:
    questions: list[Elicitation] = []

    async def answer(question: Elicitation) -> ElicitationAnswer:
        questions.append(question)
        return ElicitationAnswer("accept", {"name": "Ada"})

    async with connected(scripted(era=era), on_elicit=answer) as client:
        said = json.loads(text_of(await client.call_tool("ask", {"text": "Who \x1b[1mare you?"})))
    expected = {"action": "accept", "content": {"name": "Ada", "age": 7}}
    assert said == (expected if era == "legacy" else {"answers": {"who": expected}, "state": "s1"})
    assert [(question.server, question.message) for question in questions] == [("scripted", "Who ⟨ESC⟩[1mare you?")]


async def test_questions_and_sampling_are_refused_without_a_person(era: str) -> None:
    async with connected(scripted(era=era)) as client:
        if era == "legacy":
            assert json.loads(text_of(await client.call_tool("sample", {})))["code"] == -32601
            assert json.loads(text_of(await client.call_tool("ask", {}))) is None
        else:
            for name in ("sample", "ask"):
                with pytest.raises(McpError, match="does not support"):
                    await client.call_tool(name, {})


async def test_opens_a_page_that_the_server_needs_first() -> None:
    pages: list[str] = []

    async def answer(question: Elicitation) -> ElicitationAnswer:
        pages.append(question.url)
        return ElicitationAnswer("accept" if len(pages) < 3 else "decline")

    async with connected(scripted(era="legacy"), on_elicit=answer) as client:
        assert text_of(await client.call_tool("sign_in", {"count": 2})) == "signed in"
        with pytest.raises(McpError, match="Sign in first"):
            await client.call_tool("sign_in", {"count": 3})
    assert pages == ["https://example.org/in"] * 3


async def test_waits_for_a_server_that_needs_time() -> None:
    async with connected(scripted(), host=limited(rounds=3)) as client:
        assert text_of(await client.call_tool("state", {"count": 2})) == "after 2 rounds"
        with pytest.raises(McpError, match="more than 3 times"):
            await client.call_tool("state", {"count": 100})


async def test_cancelling_tells_the_server(era: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with connected(scripted(era=era, record=str(log))) as client:
        call = asyncio.create_task(client.call_tool("slow", {}))
        while "slow" not in (log.read_text() if log.exists() else ""):
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert text_of(await client.call_tool("echo", {"text": "still here"})) == "still here"
    sent = [json.loads(line) for line in log.read_text().splitlines()]
    ids = [each["id"] for each in sent if each.get("params", {}).get("name") == "slow"]
    cancels = [each["params"] for each in sent if each.get("method") == "notifications/cancelled"]
    assert [each["requestId"] for each in cancels] == ids


async def test_an_error_response_has_its_code() -> None:
    async with connected(scripted()) as client:
        with pytest.raises(McpError, match="Unknown tool: nothing") as caught:
            await client.call_tool("nothing", {})
        assert caught.value.code == -32602


async def test_resources_prompts_and_completion(era: str) -> None:
    async with connected(scripted(era=era)) as client:
        assert [each.uri for each in await client.list_resources()] == ["memo://1"]
        assert len(client.skipped["resources"]) == 1
        assert [each.uri_template for each in await client.list_resource_templates()] == ["memo://{number}"]
        assert resource_content(await client.read_resource("memo://1")).text == "text of memo://1"
        prompts = await client.list_prompts()
        assert prompts[0].arguments is not None
        assert prompt_content(await client.get_prompt("greet", {"who": "Ada"})).text == "Greet Ada."
        assert (await client.complete(prompts[0], "who", "A")).values == ["Ada", "Alan"]
        template = (await client.list_resource_templates())[0]
        assert (await client.complete(template, "number", "G", {"who": "x"})).values == ["Grace"]


async def test_many_calls_at_once() -> None:
    async with connected(scripted()) as client:
        results = await asyncio.gather(*(client.call_tool("echo", {"text": str(n)}) for n in range(200)))
    assert [text_of(result) for result in results] == [str(n) for n in range(200)]


async def test_a_closed_client_says_so() -> None:
    client = Client(scripted())
    with pytest.raises(McpError, match="not connected"):
        await client.list_tools()
    await client.connect()
    await client.close()
    with pytest.raises(McpError, match="not running"):
        await client.list_tools()
