"""Hands over pipes: in this process, for many small tests, or in a process of their own."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

from outrider.coding.config.settings import PermissionSettings, SandboxSettings, Settings
from outrider.coding.hands.hand import Hand
from outrider.coding.hands.hands import Hands
from outrider.coding.hands.serving import Server
from outrider.coding.hands.starter import ProgramStarter, Starter, Streams
from outrider.coding.permissions.policy import Policy
from outrider.coding.toolbox.seen_files import SeenFile
from outrider.tools.context import ToolContext
from outrider.tools.result import ToolResult
from outrider.tools.tool import Tool
from tests.coding.toolbox.file_tools import FileTools
from tests.coding.toolbox.shelling import Shelling

OPEN = Settings(permissions=PermissionSettings(mode="all"), sandbox=SandboxSettings(use="off"))


class PipeStreams:
    """This end of two pipes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: threading.Thread) -> None:
        self.reader, self.writer, self._server = reader, writer, server

    def said(self) -> str:
        return ""

    async def close(self) -> None:
        close(self.reader, self.writer)
        await asyncio.to_thread(self._server.join)


class PipeStarter:
    """Starts the server in a thread of this process, at the other end of two pipes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def describe(self) -> str:
        return f"pipe:{self.folder}"

    async def start(self) -> Streams:
        (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
        server = threading.Thread(target=lambda: asyncio.run(self._serve(their_in, their_out)), daemon=True)
        server.start()
        reader, writer = await streams(our_in, our_out)
        return PipeStreams(reader, writer, server)

    async def _serve(self, source: int, sink: int) -> None:
        reader, writer = await streams(source, sink)
        try:
            self.server = Server(reader, writer, self.folder)
            await self.server.serve()
        finally:
            close(reader, writer)

    @property
    def hand(self) -> Hand:
        """The tools at the other end."""
        assert self.server.hand
        return self.server.hand


async def streams(source: int, sink: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A reader and a writer of two file descriptors."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    given, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb", 0))
    try:
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(sink, "wb", 0))
    except BaseException:  # it may be cancelled here
        given.close()
        raise
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close both."""
    writer.close()
    reader._transport.close()  # type: ignore[attr-defined]


def process_starter(folder: Path, **environment: str) -> ProgramStarter:
    """Starts `outrider hands` itself."""
    argv = [sys.executable, "-P", "-m", "outrider", "hands", "--folder", str(folder)]
    return ProgramStarter(argv, f"process:{folder}", {**os.environ, **environment})


def hands_of(starter: Starter, settings: Settings = OPEN, **options: Any) -> Hands:
    """Hands whose session allows what its settings allow."""
    policy = Policy(folder=Path("/dev/null/elsewhere"), mode=settings.permissions.mode)
    return Hands(starter, settings, lambda: policy, **options)


def invoked(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    """The result of a call, in a thread of its own: the caller may have a running loop."""
    results: list[ToolResult | BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(tool.invoke(arguments, context)))
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


class FileToolsElsewhere(FileTools):
    """Read, Write and Edit in a folder at the other end of a pipe."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._starter = PipeStarter(folder)
        self.hands = hands_of(self._starter)

    def _called(self, tool: Tool, **arguments: Any) -> ToolResult:
        forwarded = self.hands.workspace.forwarding.around(tool)
        result = invoked(forwarded, arguments, self.context)
        assert result.text or not result.is_error
        return result

    def seen(self, name: str | Path) -> SeenFile | None:
        return self._starter.hand.workspace.seen.of(self.context, self.folder / name)

    def close(self) -> None:
        self.hands.close()


class ShellingElsewhere(Shelling):
    """Bash in a folder at the other end of a pipe."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        starter = PipeStarter(folder)
        self.hands = hands_of(starter)
        self.hands.open()
        self.tool = self.hands.workspace.forwarding.around(self.tool)
        self.workspace = starter.hand.workspace

    def close(self) -> None:
        self.hands.close()
