"""The client under test of the official MCP conformance suite: it runs one scenario against the server at a URL.

The suite starts it with the URL as the last argument. MCP_CONFORMANCE_SCENARIO names the scenario, and
MCP_CONFORMANCE_CONTEXT has its data as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from outrider.errors import McpError
from outrider.mcp.channel import Authorization
from outrider.mcp.client import Client
from outrider.mcp.elicitation import Elicitation, ElicitationAnswer
from outrider.mcp.oauth import OAuth
from outrider.mcp.protocol import ToolSpec
from outrider.mcp.servers import HttpServer
from outrider.mcp.tokens import ClientCredentials, Registration, TokenStore

CLIENT_METADATA_URL = "https://conformance-test.local/client-metadata.json"


async def follow_login(url: str) -> None:
    """Log in as a person with a browser would: follow the redirects of the authorization server."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        await response.read()


def authorization(server: HttpServer, scenario: str, context: Mapping[str, Any], folder: Path) -> Authorization | None:
    if not scenario.startswith("auth/"):
        return None
    client = None
    if "client_id" in context:
        client = Registration(context["client_id"], context.get("client_secret", ""))
    if scenario == "auth/client-credentials-basic":
        assert client is not None
        return ClientCredentials(server, client)
    return OAuth(
        server, TokenStore(folder), open_url=follow_login, client=client, client_metadata_url=CLIENT_METADATA_URL
    )


async def accept(question: Elicitation) -> ElicitationAnswer:
    """Accept without filling anything in: the defaults of the form count."""
    return ElicitationAnswer("accept", {})


def arguments_of(tool: ToolSpec) -> dict[str, Any]:
    """Return arguments for a tool that the scenario does not prescribe."""
    samples = {"string": "text", "integer": 3, "number": 5, "boolean": True, "object": {}, "array": []}
    properties = tool.input_schema.get("properties", {})
    return {name: samples.get(each.get("type", ""), "text") for name, each in properties.items()}


async def run(url: str, scenario: str, context: Mapping[str, Any], folder: Path) -> None:
    server = HttpServer("conformance", url, timeout=25)
    given = authorization(server, scenario, context, folder)
    client = Client(server, on_elicit=accept, authorization=given)
    try:
        await client.connect()
        tools = await client.list_tools()
        calls = context.get("toolCalls") or [{"name": tool.name, "arguments": arguments_of(tool)} for tool in tools]
        if scenario == "json-schema-2020-12-preservation":
            calls = [{"name": "json_schema_echo", "arguments": {"schema": tools[0].input_schema}}]
        if scenario == "json-schema-ref-no-deref":
            calls = []  # its server answers no calls
        for call in calls:
            await client.call_tool(call["name"], call["arguments"])
    finally:
        await client.close()


def main() -> int:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with tempfile.TemporaryDirectory() as folder:
        try:
            asyncio.run(run(sys.argv[-1], scenario, context, Path(folder)))
        except McpError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
