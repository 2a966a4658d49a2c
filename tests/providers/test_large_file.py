"""A large file in a tool result is read once, encoded once a provider, and not held many times over."""

from __future__ import annotations

import hashlib
import io
import os
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from pypdf import PdfWriter

from outrider.attachments import Attachment
from outrider.history import repair
from outrider.messages import AttachmentBlock, Message, ToolResultBlock, ToolUseBlock
from outrider.provider import Request
from outrider.providers import documents
from outrider.providers.capabilities import capabilities_of
from outrider.store import FolderStore
from tests.adapters import ONE_EACH, Case, each

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


@each(*ONE_EACH)
def test_fifteen_megabytes_take_less_than_five_times_that(case: Case, tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    messages = conversation(store, 13 if case.prefix == "gemini" else 15)
    size = messages[2].tool_results[0].attachments[0].size
    provider = case.adapter()
    tracemalloc.start()
    try:
        body = provider.render(Request(messages, store))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(body) > 4 / 3 * size, "the file is in the request"
    assert peak < 5 * size, f"{peak / size:.1f} times"
