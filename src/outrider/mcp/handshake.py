"""Agreeing on a protocol version: ask for the newest, and fall back to `initialize`."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import msgspec

from outrider import jsonrpc
from outrider.errors import McpClosedError, McpError, McpTimeoutError
from outrider.mcp import protocol
from outrider.mcp.channel import Channel
from outrider.struct_types import described
from outrider.text.visible import one_line, plain_text
from outrider.version import __version__

SILENCE_SECONDS = 10.0  # how long `server/discover` may stay without an answer before `initialize` is tried
LONGEST_INSTRUCTIONS = 4_000
_LONGEST_NAME = 100
CLIENT_INFO = {"name": "outrider", "title": "Outrider", "version": __version__}

T = TypeVar("T")


class Agreement(msgspec.Struct, frozen=True):
    """What client and server have agreed on, and what the server said about itself."""

    version: str
    capabilities: protocol.ServerCapabilities
    server_info: protocol.Implementation = protocol.Implementation()
    instructions: str = ""
    meta: dict[str, Any] | None = None  # the `_meta` of every request; None before 2026-07-28

    @property
    def is_stateless(self) -> bool:
        return self.meta is not None

    @property
    def runs_tasks(self) -> bool:
        """Whether a tool call may ask for a task: a feature of 2025-11-25 alone."""
        return self.version == protocol.HANDSHAKE_VERSIONS[0] and self.capabilities.runs_tasks

    @property
    def cancels_tasks(self) -> bool:
        return self.is_stateless or self.capabilities.cancels_tasks


async def agree(
    channel: Channel, name: str, capabilities: dict[str, Any], *, seconds: float, silence: float = SILENCE_SECONDS
) -> Agreement:
    """Agree on a version within `seconds`. Raises McpError.

    Any failure of `server/discover` except a closed channel leads to `initialize`: old servers answer an unknown
    method in many ways, or not at all. A server that starts slowly may answer neither in time and then refuse
    `initialize`, so it is asked once more.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    try:
        return await _discover(channel, name, capabilities, min(silence, seconds))
    except McpClosedError:
        raise
    except McpError as error:
        first = error
    if version := _offered(first):
        return await _discover(channel, name, capabilities, max(until - loop.time(), 0.1), version)
    left = max(until - loop.time(), 0.1)
    try:
        return await agree_on_handshake(channel, name, capabilities, left)
    except (McpClosedError, McpTimeoutError):
        raise
    except McpError as error:
        if not isinstance(first, McpTimeoutError) and error.code != protocol.UNSUPPORTED_VERSION:
            # Perhaps only the error of `server/discover` says which versions there are.
            raise (first if first.code == protocol.UNSUPPORTED_VERSION else error) from None
        return await _discover(channel, name, capabilities, max(until - loop.time(), 0.1))


async def agree_on(
    channel: Channel, name: str, capabilities: dict[str, Any], seconds: float, version: str
) -> Agreement:
    """Agree on this version, and on no other. Raises McpError if the server does not speak it."""
    if version in protocol.MODERN_VERSIONS:
        return await _discover(channel, name, capabilities, seconds, version)
    return await agree_on_handshake(channel, name, capabilities, seconds, version)


async def _discover(
    channel: Channel,
    name: str,
    capabilities: dict[str, Any],
    seconds: float,
    version: str = protocol.MODERN_VERSIONS[0],
) -> Agreement:
    channel.protocol_version = version
    extended = {**capabilities, "extensions": {protocol.TASKS_EXTENSION: {}}}
    meta = {protocol.VERSION_KEY: version, protocol.CLIENT_INFO_KEY: CLIENT_INFO, protocol.CAPABILITIES_KEY: extended}
    raw = await channel.request(protocol.DISCOVER, {"_meta": meta}, timeout=seconds)
    found = decoded(raw, protocol.DiscoverResult, name, protocol.DISCOVER)
    if version not in found.supported_versions:
        others = one_line(", ".join(found.supported_versions), 200) or "none"
        raise McpError(f"The MCP server {name} supports other versions of the protocol: {others}.")
    info = (found.meta or {}).get(protocol.SERVER_INFO_KEY)
    instructions = plain_text(found.instructions or "", LONGEST_INSTRUCTIONS)
    return Agreement(version, found.capabilities, _implementation(info), instructions, meta)


async def agree_on_handshake(
    channel: Channel, name: str, capabilities: dict[str, Any], seconds: float, pinned: str = ""
) -> Agreement:
    """Agree by `initialize` alone, for a server that ends when it gets another request first."""
    channel.protocol_version = ""
    version = pinned or protocol.HANDSHAKE_VERSIONS[0]
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": CLIENT_INFO}
    raw = await channel.request(protocol.INITIALIZE, params, timeout=seconds)
    found = decoded(raw, protocol.InitializeResult, name, protocol.INITIALIZE)
    if found.protocol_version not in protocol.HANDSHAKE_VERSIONS:
        raise McpError(
            f"The MCP server {name} speaks version {found.protocol_version[:40]!r} of the protocol. "
            f"Outrider speaks {', '.join((*protocol.MODERN_VERSIONS, *protocol.HANDSHAKE_VERSIONS))}."
        )
    if pinned and found.protocol_version != pinned:
        raise McpError(
            f"The MCP server {name} answers with version {found.protocol_version} of the protocol, and its description "
            f"pins {pinned}; change or remove `protocol`."
        )
    channel.protocol_version = found.protocol_version
    await channel.notify(protocol.INITIALIZED, {})
    instructions = plain_text(found.instructions or "", LONGEST_INSTRUCTIONS)
    return Agreement(found.protocol_version, found.capabilities, _plain(found.server_info), instructions)


def decoded(raw: msgspec.Raw, wanted: type[T], name: str, method: str) -> T:
    try:
        result: T = jsonrpc.decode(raw, wanted)
    except (msgspec.DecodeError, RecursionError) as error:
        raise McpError(f"The MCP server {name} sent an invalid answer to {method}: {error}.") from None
    return result


def _plain(info: protocol.Implementation) -> protocol.Implementation:
    title = None if info.title is None else one_line(info.title, _LONGEST_NAME)
    return protocol.Implementation(
        name=one_line(info.name, _LONGEST_NAME), version=one_line(info.version, _LONGEST_NAME), title=title
    )


def _implementation(info: Any) -> protocol.Implementation:
    try:
        return _plain(msgspec.convert(info, described(protocol.Implementation))) if info else protocol.Implementation()
    except msgspec.ValidationError:
        return protocol.Implementation()


def _offered(error: McpError) -> str | None:
    """Return the newest stateless version that a server offers when it refuses another one."""
    offered = error.data.get("supported") if isinstance(error.data, dict) else None
    if error.code != protocol.UNSUPPORTED_VERSION or not isinstance(offered, list):
        return None
    return next((version for version in protocol.MODERN_VERSIONS if version in offered), None)
