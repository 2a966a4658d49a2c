"""The reference server of the protocol, over standard input and output and over HTTP."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from outrider.errors import McpError
from outrider.mcp.channel import CallProgress
from outrider.mcp.client import Client
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
from outrider.mcp.protocol import CallToolResult
from outrider.mcp.results import prompt_content, resource_content, tool_result
from outrider.mcp.servers import HttpServer, McpServer, StdioServer
from outrider.tools.result import ToolResult
from tests.mcp.interop.installed import from_npm


class Session:
    """A client, and what its server asked and announced."""

    def __init__(self, server: McpServer) -> None:
        self.questions: list[Elicitation] = []
        self.changes: list[str] = []
        self.changed = asyncio.Event()
        self.client = Client(server, on_elicit=self._answer, on_change=self._change)

    async def call(self, name: str, **arguments: object) -> ToolResult:
        return tool_result(await self.client.call_tool(name, arguments), name)

    async def _answer(self, question: Elicitation) -> ElicitationAnswer:
        self.questions.append(question)
        return ElicitationAnswer("accept", {"name": "Ada Lovelace"})

    def _change(self, kind: str) -> None:
        self.changes.append(kind)
        self.changed.set()


@asynccontextmanager
async def over_http(server: StdioServer, transport: str) -> AsyncIterator[HttpServer]:
    """Start the server on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        transport,
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        while b"on port" not in (line := await process.stderr.readline()):
            assert line, "the server ended"
        yield HttpServer("everything", f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}")
    finally:
        process.kill()
        await process.wait()


@pytest.fixture(scope="module", params=["stdio", "streamableHttp", "sse"])
async def session(request: pytest.FixtureRequest) -> AsyncIterator[Session]:
    server = from_npm("everything", "@modelcontextprotocol/server-everything", "dist/index.js")
    if request.param == "stdio":
        made = Session(server)
        await made.client.connect()
        yield made
        await made.client.close()
        return
    async with over_http(server, request.param) as address:
        made = Session(address)
        await made.client.connect()
        yield made
        await made.client.close()


async def test_offers_tools_that_depend_on_the_client(session: Session) -> None:
    # It adds tools once it knows that the client answers questions, and says so. Over HTTP it does so before any stream
    # is open on which it could.
    if isinstance(session.client.server, StdioServer):
        await session.changed.wait()
        assert "tools" in session.changes
    names = [tool.name for tool in await session.client.list_tools()]
    assert {"echo", "get-sum", "trigger-elicitation-request"} <= set(names)
    assert not {"trigger-sampling-request", "get-roots-list"} & set(names)  # what we do not support


async def test_calls_tools(session: Session) -> None:
    assert (await session.call("echo", message="hällo")).text == "Echo: hällo"
    assert "5" in (await session.call("get-sum", a=2, b=3)).text
    many = await asyncio.gather(*(session.call("echo", message=str(n)) for n in range(20)))
    assert [each.text for each in many] == [f"Echo: {n}" for n in range(20)]


async def test_a_wrong_argument_is_an_error_result(session: Session) -> None:
    result = await session.call("get-sum", a="two")
    assert result.is_error
    assert "invalid" in result.text.lower()


async def test_a_picture_is_an_attachment(session: Session) -> None:
    result = await session.call("get-tiny-image")
    [picture] = result.attachments
    assert picture.mime_type == "image/png"
    assert b"".join(picture.chunks()).startswith(b"\x89PNG")


async def test_embedded_resources_and_links(session: Session) -> None:
    text = await session.call("get-resource-reference", resourceType="Text", resourceId=1)
    assert "demo://resource/dynamic/text/1" in text.text
    links = await session.call("get-resource-links", count=3)
    assert links.text.count("demo://resource/dynamic/") >= 3


async def test_structured_content_is_sent_once(session: Session) -> None:
    result = await session.call("get-structured-content", location="Chicago")
    assert result.is_json
    assert result.text.count("temperature") == 1


async def test_progress(session: Session) -> None:
    steps: list[CallProgress] = []
    call = session.client.call_tool(
        "trigger-long-running-operation", {"duration": 0.3, "steps": 3}, on_progress=steps.append
    )
    assert isinstance(await call, CallToolResult)
    assert [(each.progress, each.total) for each in steps] == [(1, 3), (2, 3), (3, 3)]


async def test_a_call_can_be_cancelled(session: Session) -> None:
    started = asyncio.Event()
    call = session.client.call_tool(
        "trigger-long-running-operation", {"duration": 600, "steps": 6000}, on_progress=lambda _: started.set()
    )
    task = asyncio.create_task(call)
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await session.call("echo", message="after")).text == "Echo: after"


async def test_a_question_to_the_person(session: Session) -> None:
    result = await session.call("trigger-elicitation-request")
    assert "Ada Lovelace" in result.text
    assert session.questions[0].schema is not None
    assert "It was a dark and stormy night." in result.text  # the default of a field that was left empty


@pytest.mark.sampled(1)  # it takes four seconds, whatever it is reached over
async def test_a_tool_that_must_run_as_a_task_and_asks(session: Session) -> None:
    steps: list[CallProgress] = []
    asked = len(session.questions)
    arguments = {"topic": "python", "ambiguous": True}
    call = session.client.call_tool("simulate-research-query", arguments, on_progress=steps.append)
    assert "Research Report: python" in tool_result(await call, "research").text
    assert "could have multiple interpretations" in session.questions[asked].message
    assert len(session.questions) == asked + 1
    assert "Generating report..." in [each.message for each in steps]


async def test_resources(session: Session) -> None:
    resources = await session.client.list_resources()
    assert resources
    templates = {each.uri_template: each for each in await session.client.list_resource_templates()}
    assert "demo://resource/dynamic/blob/{resourceId}" in templates
    assert resource_content(await session.client.read_resource(resources[0].uri)).text
    [blob] = await session.client.read_resource("demo://resource/dynamic/blob/2")
    assert blob.blob
    found = await session.client.complete(templates["demo://resource/dynamic/text/{resourceId}"], "resourceId", "4")
    assert found.values == ["4"]


async def test_prompts(session: Session) -> None:
    prompts = {each.name: each for each in await session.client.list_prompts()}
    assert {"simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"} <= prompts.keys()
    filled = prompt_content(await session.client.get_prompt("args-prompt", {"city": "Paris"}))
    assert "Paris" in filled.text
    found = await session.client.complete(prompts["completable-prompt"], "department", "E")
    assert "Engineering" in found.values
    embedded = await session.client.get_prompt("resource-prompt", {"resourceType": "Text", "resourceId": "1"})
    assert "demo://resource/dynamic/text/1" in prompt_content(embedded).text


async def test_an_unknown_resource_is_an_error(session: Session) -> None:
    with pytest.raises(McpError, match="refused resources/read"):
        await session.client.read_resource("demo://nowhere")
