"""`@server:uri` in a prompt: the resource of an MCP server is read and attached."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from outrider.conversation.attachments import Attachment

if TYPE_CHECKING:
    from outrider.mcp.running import RunningServers
    from outrider.tools.result import ToolResult

_MENTION = re.compile(r"(?<!\S)@([A-Za-z0-9_.-]+):(\S+)")
_PUNCTUATION = ".,;!?)]}'\""
READ_SECONDS = 30.0
MOST_RESOURCES = 20


class Mention(msgspec.Struct, frozen=True):
    """A resource that a prompt names."""

    server: str
    uri: str


def mentioned_resources(text: str, servers: Sequence[str]) -> list[Mention]:
    """Return the resources of these servers that a text names, each once.

    >>> mentioned_resources("See @notes:memo://1, and @me:x", ["notes"])
    [Mention(server='notes', uri='memo://1')]
    """
    found = (Mention(server, uri.rstrip(_PUNCTUATION)) for server, uri in _MENTION.findall(text))
    return list(dict.fromkeys(each for each in found if each.server in servers))[:MOST_RESOURCES]


async def with_resources(parts: Sequence[str | Attachment], servers: RunningServers | None) -> list[str | Attachment]:
    """Return the parts of a prompt, with the resources that it mentions. Raises McpError if one cannot be read."""
    mentions = _mentions(parts, servers)
    if servers is None or not mentions:
        return list(parts)
    await servers.settled(READ_SECONDS)
    files: list[str | Attachment] = []
    for each in mentions:
        files += await _read(servers, each)
    return [*parts, *files]


def _mentions(parts: Sequence[str | Attachment], servers: RunningServers | None) -> list[Mention]:
    names = [server.name for server in servers.servers] if servers else []
    texts = [part for part in parts if isinstance(part, str)]
    return list(dict.fromkeys(mention for text in texts for mention in mentioned_resources(text, names)))


async def _read(servers: RunningServers, mention: Mention) -> list[str | Attachment]:
    from outrider.mcp.pool import ServerPool
    from outrider.mcp.results import resource_content

    async def read(pool: ServerPool) -> ToolResult:
        return resource_content(await pool.client(mention.server).read_resource(mention.uri))

    content = await servers.do(read)
    name = f"{mention.server}:{mention.uri}"
    text = [Attachment(content.text.encode(errors="replace"), "text/plain", name, mention.uri)] if content.text else []
    return [*text, *content.attachments]
