"""A large file in a tool result is read once, encoded once a provider, and not held many times over."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pypdf import PdfWriter

from outrider.conversation.attachments import Attachment
from outrider.conversation.history import repair
from outrider.conversation.messages import AttachmentBlock, Message, ToolResultBlock, ToolUseBlock
from outrider.conversation.store import FolderStore
from outrider.errors import UnavailableError
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request
from outrider.providers.catalogue.capabilities import capabilities_of
from outrider.providers.rendering import documents
from outrider.runtime.events import TextDelta
from tests.adapters import ONE_EACH, Case, each
from tests.modelserver import ModelServer, Status
from tests.streams import Answer, stream_of

MEGABYTE = 1024 * 1024


class CountingStore(FolderStore):
    reads = 0

    def read(self, reference: AttachmentBlock) -> bytes:
        self.reads += 1
        return super().read(reference)


def conversation(store: FolderStore, megabytes: int) -> list[Message]:
    writer = PdfWriter()
    writer.add_blank_page(100, 100)
    writer.add_attachment("noise", os.urandom(megabytes * MEGABYTE))
    output = io.BytesIO()
    writer.write(output)
    file = store.put(Attachment(output.getvalue(), "application/pdf", name="large.pdf"), 64 * MEGABYTE)
    return [
        Message.user("Read it."),
        Message.assistant(ToolUseBlock("c1", "read", {})),
        Message.user(ToolResultBlock("c1", (file,))),
    ]


@each(*ONE_EACH)
def test_it_is_read_and_encoded_once(case: Case, tmp_path: Path) -> None:
    store = CountingStore(tmp_path)
    messages = conversation(store, 1)
    provider = case.adapter()
    memory: dict[str, object] = {}
    first = provider.render(Request(messages, store, memory=memory))
    for turn in range(3):
        messages = [*messages, Message.assistant(f"turn {turn}"), Message.user("go on")]
        later = provider.render(Request(messages, store, memory=memory))
    assert store.reads == 1
    assert len(later) > len(first) > 4 / 3 * MEGABYTE


@each(*ONE_EACH)
def test_it_is_hashed_when_it_comes_and_when_it_is_read_and_never_again(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = encoded = 0
    plain_sha256, plain_base64 = hashlib.sha256, documents.base64_of

    class Counting:
        """What hashlib.sha256 gives, with an eye on how much it is fed."""

        def __init__(self, data: bytes = b"") -> None:
            self._inner = plain_sha256()
            self.update(data)

        def update(self, data: bytes) -> None:
            nonlocal hashed
            hashed += len(data)
            self._inner.update(data)

        def hexdigest(self) -> str:
            return self._inner.hexdigest()

    def base64_of(data: bytes) -> bytes:
        nonlocal encoded
        encoded += 1
        return plain_base64(data)

    monkeypatch.setattr(hashlib, "sha256", Counting)
    monkeypatch.setattr(documents, "base64_of", base64_of)
    store = FolderStore(tmp_path)
    messages = conversation(store, 1)
    size = messages[2].tool_results[0].attachments[0].size
    provider = case.adapter()
    memory: dict[str, object] = {}
    for turn in range(3):
        provider.render(Request(messages, store, memory=memory))
        messages = [*messages, Message.assistant(f"turn {turn}"), Message.user("go on")]
    assert size <= hashed - size < size + 10_000, "the rest are names"
    assert encoded == 1


@each(*ONE_EACH)
def test_files_that_are_not_sent_are_not_held(case: Case, tmp_path: Path) -> None:
    """Of ten files the newest fit into a request; what is kept for the next turn has room for no more."""
    store = FolderStore(tmp_path)
    messages = [Message.user("Read them all.")]
    for number in range(10):
        asked, answered = conversation(store, 1)[1:]
        messages += [asked, answered, Message.assistant(f"That was {number}.")]
    messages = repair([*messages, Message.user("Well?")])
    can = msgspec.structs.replace(capabilities_of(case.prefix, case.model), request_bytes=3 * MEGABYTE)
    memory: dict[str, object] = {}
    case.adapter(capabilities=can).render(Request(messages, store))  # imports what it needs
    tracemalloc.start()
    try:
        body = case.adapter(capabilities=can).render(Request(messages, store, memory=memory))
        size = len(body)
        assert MEGABYTE < size < 3 * MEGABYTE
        del body
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert memory
    assert held < size + MEGABYTE


class Discarding:
    """A server that reads a request, throws it away, and answers."""

    def __init__(self, api: str) -> None:
        self._answer = b"".join(stream_of(api, Answer("I have read it.")))
        self.received = 0
        self.headers = b""

    async def __aenter__(self) -> Discarding:
        self._server = await asyncio.start_server(self._converse, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.headers = (await reader.readuntil(b"\r\n\r\n")).lower()
        left = int(self.headers.split(b"content-length:")[1].split(b"\r\n")[0])
        while left:
            piece = await reader.read(64 * 1024)
            left -= len(piece)
            self.received += len(piece)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + self._answer)
        await writer.drain()
        writer.close()


async def reply_to(provider: ApiProvider, request: Request) -> str:
    async with asyncio.timeout(30):
        return "".join([item.text async for item in provider.stream(request) if isinstance(item, TextDelta)])


@each(*ONE_EACH)
async def test_sending_twenty_megabytes_takes_at_most_three_times_that(case: Case, tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    messages = conversation(store, 13 if case.prefix == "gemini" else 20)
    size = messages[2].tool_results[0].attachments[0].size
    async with Discarding(case.api) as server:
        provider = case.adapter(server.url, key="k")
        await reply_to(provider, Request([Message.user("Hello")], store))  # what is imported counts for nothing
        server.received = 0
        tracemalloc.start()
        try:
            said = await reply_to(provider, Request(messages, store))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert said == "I have read it."
    assert server.received > 4 / 3 * size, "the file is in the request"
    assert b"transfer-encoding" not in server.headers, "its length is known from the start"
    assert peak < 3 * size, f"{peak / size:.2f} times"


@each(*ONE_EACH)
async def test_it_arrives_as_it_was_rendered_and_again_when_it_has_to_be_sent_again(case: Case, tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    request = Request(conversation(store, 1), store)
    steps = [Status(503), Answer("All is well.")]
    async with ModelServer(steps) as server:
        provider = case.adapter(server.url, key="k")
        with pytest.raises(UnavailableError):
            await reply_to(provider, request)
        assert await reply_to(provider, request) == "All is well."
    rendered = provider.render(Request(request.messages, store))
    assert [each.body == rendered for each in server.requests] == [True, True]


@each(*ONE_EACH)
def test_a_body_is_copied_only_as_far_as_it_is_text(case: Case, tmp_path: Path) -> None:
    """The next request has the file by reference: a conversation about it does not copy it each turn."""
    store = FolderStore(tmp_path)
    messages = conversation(store, 4)
    provider, memory = case.adapter(), dict[str, Any]()
    provider.render(Request(messages, store, memory=memory))
    messages = [*messages, Message.assistant("Read."), Message.user("And?")]
    tracemalloc.start()
    try:
        body = provider._fit(Request(messages, store, memory=memory), provider._memory_key)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(body) > 4 / 3 * 4 * MEGABYTE
    assert peak < MEGABYTE // 4
