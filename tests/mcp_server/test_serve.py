"""Outrider as an MCP server, used by our own client: both eras, stdio and HTTP; questions, cancels and kills."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from outrider.errors import McpError
from outrider.log.entries import SessionSettings
from outrider.log.log import Log
from outrider.mcp.channel import CallProgress
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
from outrider.mcp.servers import HttpServer as HttpAddress
from outrider.mcp.servers import StdioServer
from outrider.mcp_server.host import Host
from outrider.mcp_server.http import HttpServer
from outrider.mcp_server.serving import listen
from outrider.mcp_server.tasks import Tasks
from outrider.processes import processes
from outrider.sync import default_log
from tests.cli.asking import everywhere
from tests.cli.program import clean_environment, start
from tests.mcp.starting import connected, text_of
from tests.modelserver import Held, ModelServer
from tests.streams import Answer

ERAS = ["2026-07-28", "2025-11-25"]
WRITE = Answer(calls=(("c1", "Write", {"file_path": "new.txt", "content": "made"}),))
OTHER = Answer(calls=(("c3", "Write", {"file_path": "other.txt", "content": "made"}),))
ASK = Answer(
    calls=(
        ("c2", "AskUser", {"questions": [{"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]}]}),
    )
)


def program(folder: Path, *arguments: str, version: str = ERAS[0], **environment: str) -> StdioServer:
    """The server as a program."""
    env = {**clean_environment(), **environment}
    given = ["-m", "outrider", "mcp", "serve", "--folder", str(folder), *arguments]
    return StdioServer("outrider", sys.executable, given, env=env, protocol=version, timeout=60)


def data_of(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(result.structured_content)
    return found


@pytest.fixture
def warm_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server come from a warm process. The first test starts it from scratch."""

    def forked(command: list[str], *, pass_fds: list[int], **options: Any) -> Any:
        assert (command[:3], [*pass_fds]) == ([sys.executable, "-m", "outrider"], [])
        return start(*command[3:], **options)

    monkeypatch.setattr(processes, "popen", forked)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.mark.parametrize("version", ERAS)
async def test_a_task_is_run_told_about_and_continued(folder: Path, version: str) -> None:
    steps: list[CallProgress] = []
    server = program(folder, "--model", "demo", version=version)
    async with connected(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["run_task"]
        assert client.agreement
        assert client.agreement.server_info.name == "outrider"
        result = await client.call_tool("run_task", {"prompt": "What is 2+2?"}, on_progress=steps.append)
        data = data_of(result)
        assert (data["text"], data["status"], data["turns"], result.is_error) == ("4", "done", 1, False)
        assert data["session"] in text_of(result)
        assert [step.message for step in steps] == ["thinking"]
        again = data_of(await client.call_tool("run_task", {"prompt": "What is 3+3?", "session": data["session"]}))
        assert (again["text"], again["session"]) == ("6", data["session"])
    with default_log() as log:
        assert log.session(data["session"]).turns == 2


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.usefixtures("warm_programs")
async def test_what_needs_approval_is_asked_of_the_person(folder: Path, version: str) -> None:
    asked: list[Elicitation] = []

    async def answer(question: Elicitation) -> ElicitationAnswer:
        asked.append(question)
        assert question.schema is not None
        if "answer" in question.schema["properties"]:
            return ElicitationAnswer("accept", {"answer": "yes" if len(asked) == 1 else "no"})
        return ElicitationAnswer("accept", {next(iter(question.schema["properties"])): "blue"})

    async with ModelServer([WRITE, ASK, OTHER, Answer("Done.")]) as model:
        server = program(folder, "--model", "openai-chat/x", version=version, **everywhere(model))
        async with connected(server, on_elicit=answer) as client:
            data = data_of(await client.call_tool("run_task", {"prompt": "Make it."}))
        assert len(asked) == 3
        assert "new.txt" in asked[0].message
        assert "made" in asked[0].message, "the person sees what is written"
        assert "Which?" in asked[1].message
        assert (folder / "new.txt").read_text() == "made"
        assert not (folder / "other.txt").exists(), "the second was not allowed"
        assert b"blue" in model.requests[2].body
        assert data["status"] in ("done", "cancelled"), "a no of the person ends the run"


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.usefixtures("warm_programs")
async def test_a_client_without_a_person_is_told_no(folder: Path, version: str) -> None:
    async with ModelServer([WRITE, ASK, Answer("Not done.")]) as model:
        server = program(folder, "--model", "openai-chat/x", version=version, **everywhere(model))
        async with connected(server) as client:
            data = data_of(await client.call_tool("run_task", {"prompt": "Make it."}))
        assert (data["text"], (folder / "new.txt").exists()) == ("Not done.", False)
        assert b"it needs permission" in model.requests[1].body
        assert b"Nobody can answer" in model.requests[2].body


@pytest.mark.usefixtures("warm_programs")
async def test_the_answer_is_data_if_there_is_a_schema(folder: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    report = Answer(calls=(("r", "report_back", {"n": 4}),))
    async with ModelServer([report, report, Answer('{"n": 4}')]) as model:
        server = program(folder, "--model", "openai-chat/x", **everywhere(model))
        async with connected(server) as client:
            result = await client.call_tool("run_task", {"prompt": "Count.", "schema": schema})
            assert data_of(result).get("output") == {"n": 4}
            wrong = {"$ref": "http://198.51.100.1/x"}
            with pytest.raises(McpError, match="schema cannot be used"):
                await client.call_tool("run_task", {"prompt": "Count.", "schema": wrong})


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.usefixtures("warm_programs")
async def test_a_cancel_stops_the_task_and_it_can_go_on(folder: Path, version: str) -> None:
    async with ModelServer([Held(Answer("never seen")), Answer("Here.")]) as model:
        server = program(folder, "--model", "openai-chat/x", version=version, **everywhere(model))
        async with connected(server) as client:
            call = asyncio.ensure_future(client.call_tool("run_task", {"prompt": "Wait."}))
            await until(lambda: model.requests)
            call.cancel()
            await asyncio.wait([call])
            name = await only_session()
            await until(lambda: holder(name) is None)
            data = data_of(await client.call_tool("run_task", {"prompt": "Go on.", "session": name}))
        assert (data["text"], data["session"]) == ("Here.", name)


@pytest.mark.usefixtures("warm_programs")
async def test_a_kill_leaves_a_session_that_can_be_continued(folder: Path) -> None:
    async with ModelServer([Held(Answer("never seen")), Answer("Here.")]) as model:
        server = program(folder, "--model", "openai-chat/x", **everywhere(model))
        async with connected(server) as client:
            call = asyncio.ensure_future(client.call_tool("run_task", {"prompt": "Wait."}))
            await until(lambda: model.requests)
            name = await only_session()
            found = holder(name)
            assert found
            os.kill(found.pid, signal.SIGKILL)
            with pytest.raises(McpError):
                await call
        async with connected(server) as client:
            data = data_of(await client.call_tool("run_task", {"session": name}))
        assert (data["text"], data["status"]) == ("Here.", "done")


@pytest.mark.usefixtures("warm_programs")
async def test_a_client_chooses_only_what_it_may(folder: Path, tmp_path: Path) -> None:
    with default_log() as log:
        mine = log.create(SessionSettings(model="demo", cwd=str(folder)))
        mine.close()
    (folder / "inner").mkdir()
    (folder / "out").symlink_to(tmp_path)
    async with connected(program(folder, "--model", "demo")) as client:
        inner = data_of(await client.call_tool("run_task", {"prompt": "What is 2+2?", "folder": "inner"}))
        for wrong in (
            {"prompt": "x", "folder": str(tmp_path)},
            {"prompt": "x", "folder": "../.."},
            {"prompt": "x", "folder": "out"},
            {"prompt": "x", "folder": "nowhere"},
            {"prompt": "x", "session": mine.id},
            {"prompt": "x", "session": inner["session"][:8]},
            {"prompt": "x", "session": inner["session"], "folder": str(folder)},
            {"prompt": "x", "model": "http://198.51.100.1/v1#x"},
            {"prompt": "x", "permissions": "all"},
            {"prompt": "x" * 200_001},
            {},
        ):
            with pytest.raises(McpError):
                await client.call_tool("run_task", wrong)
    with default_log() as log:
        assert log.session(inner["session"]).folder == str(folder / "inner")


# HTTP


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log") as log:
        yield log


@asynccontextmanager
async def over_http(log: Log, folder: Path) -> AsyncIterator[str]:
    host = Host([Tasks(log, [folder], {"model": "demo"}).tool])
    server = HttpServer(host, "secret-token")
    runner = await listen(server, 0)
    try:
        yield f"{min(server.origins)}/mcp"
    finally:
        await host.close()
        await runner.cleanup()


@pytest.mark.parametrize("version", ERAS)
async def test_http_does_the_same_with_a_token(log: Log, folder: Path, version: str) -> None:
    steps: list[CallProgress] = []
    async with over_http(log, folder) as url:
        address = HttpAddress("outrider", url, {"Authorization": "Bearer secret-token"}, protocol=version)
        async with connected(address) as client:
            result = await client.call_tool("run_task", {"prompt": "What is 2+2?"}, on_progress=steps.append)
            assert (data_of(result)["text"], len(steps)) == ("4", 1)
        with pytest.raises(McpError):
            async with connected(HttpAddress("outrider", url, {"Authorization": "Bearer wrong"}, protocol=version)):
                pass


async def test_http_refuses_who_has_no_business_there(log: Log, folder: Path) -> None:
    good = {"Authorization": "Bearer secret-token"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    async with over_http(log, folder) as url, aiohttp.ClientSession() as http:

        async def status(body: Any, **headers: str) -> int:
            content = BytesIO(body if isinstance(body, bytes) else msgspec.json.encode(body))
            async with http.post(url, data=content, headers={**good, **headers}) as response:
                return response.status

        assert await status(begin) == 200
        assert await status(begin, Authorization="") == 401
        assert await status(begin, Origin="https://evil.example") == 403
        assert await status(begin, Host="evil.example") == 403
        assert await status(begin, **{"Sec-Fetch-Site": "cross-site"}) == 403
        assert await status(ping) == 400, "without a session"
        assert await status(ping, **{"Mcp-Session-Id": "unknown"}) == 404
        assert await status(b"{nonsense") == 400
        assert await status(b"[" * 100_000) == 400
        assert await status(b"x" * 5_000_000) == 413
        prefix = "io.modelcontextprotocol"
        modern = {"_meta": {f"{prefix}/protocolVersion": "2026-07-28", f"{prefix}/clientCapabilities": {}}}
        named = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": modern}
        assert await status(named, **{"MCP-Protocol-Version": "2026-07-28"}) == 400, "the header Mcp-Method is missing"
        assert await status(named, **{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}) == 200


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def holder(id: str) -> Any:
    with default_log() as log:
        return log.session(id).holder


async def only_session() -> str:
    with default_log() as log:
        [found] = log.sessions()
        return found.id
