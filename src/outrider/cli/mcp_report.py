"""What `outrider mcp test` finds out about a server."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from outrider.coding.command_environment import command_environment
from outrider.coding.mcp.shared_servers import authorize
from outrider.errors import McpError, McpLoginError
from outrider.mcp.channel import Authorization
from outrider.mcp.client import Client
from outrider.mcp.protocol import METHOD_NOT_FOUND, ListKind, ResourceTemplate
from outrider.mcp.server_limits import ServerHost
from outrider.mcp.servers import HttpServer, McpServer
from outrider.text import counted
from outrider.text.visible import one_line

_SHOWN = 50
"""Names of each list that are shown."""


class Listed(msgspec.Struct, frozen=True):
    """One list of a server."""

    names: list[str]
    seconds: float
    skipped: list[str] = []
    """Why items were left out."""


class ServerReport(msgspec.Struct, frozen=True):
    """What a server answered."""

    name: str
    error: str = ""
    version: str = ""
    """The version of the protocol."""
    server: str = ""
    """The server's own name and version."""
    seconds: float = 0.0
    """How long it took to start the server and agree with it."""
    lists: dict[str, Listed] = {}
    needs_login: bool = False
    """Whether the error is only that the user has not logged in."""

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data


async def report_on(server: McpServer, authorization: Authorization | None = None) -> ServerReport:
    """Connect to a server and read its lists. Failures are in the report."""
    if authorization is None and isinstance(server, HttpServer):
        authorization = authorize(server)
    host = ServerHost(environment=command_environment(os.environ, ()))
    client = Client(server, authorization=authorization, host=host)
    began = time.monotonic()
    try:
        await client.connect()
        seconds = time.monotonic() - began
        agreed = client.agreement
        assert agreed is not None
        info = agreed.server_info
        lists = {
            "tools": await _listed(client, "tools", client.list_tools, lambda tool: tool.name),
            "resources": await _listed(client, "resources", client.list_resources, lambda resource: resource.uri),
            "resource_templates": await _listed(
                client, "resources", partial(_templates, client), lambda template: template.uri_template
            ),
            "prompts": await _listed(client, "prompts", client.list_prompts, lambda prompt: prompt.name),
        }
        about = one_line(f"{info.name} {info.version}", 100)
        return ServerReport(server.name, "", agreed.version, about, seconds, lists)
    except McpError as error:
        failed = ServerReport(server.name, one_line(str(error), 2_000), seconds=time.monotonic() - began)
        return msgspec.structs.replace(failed, needs_login=isinstance(error, McpLoginError))
    finally:
        await client.close()


def report_lines(report: ServerReport) -> Iterator[str]:
    if report.error:
        yield f"✗ {report.name}: {report.error}"
        return
    yield f"✓ {report.name}: {report.server}, protocol {report.version}, ready after {_time(report.seconds)}"
    for kind, found in report.lists.items():
        if found.names or kind == "tools":
            yield f"  {counted(len(found.names), kind.removesuffix('s').replace('_', ' '))} in {_time(found.seconds)}"
        for name in found.names[:_SHOWN]:
            yield f"    {name}"
        if len(found.names) > _SHOWN:
            yield f"    and {len(found.names) - _SHOWN} more"
        for reason in found.skipped:
            yield f"    left out: {reason}"


async def _listed(
    client: Client, kind: ListKind, read: Callable[[], Awaitable[Any]], name: Callable[[Any], str]
) -> Listed:
    began = time.monotonic()
    client.skipped.pop(kind, None)
    items = await read()
    names = [one_line(name(item), 200) for item in items]
    return Listed(names, time.monotonic() - began, client.skipped.get(kind, []))


async def _templates(client: Client) -> Sequence[ResourceTemplate]:
    """Return the templates of resources. Many servers with resources do not know the request."""
    try:
        return await client.list_resource_templates()
    except McpError as error:
        if error.code == METHOD_NOT_FOUND:
            return ()
        raise


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
