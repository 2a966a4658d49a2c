"""A large file in a tool result is read once, encoded once a provider, and not held many times over."""

from __future__ import annotations

import io
import os
import tracemalloc
from pathlib import Path

from pypdf import PdfWriter

from outrider.attachments import Attachment
from outrider.messages import AttachmentBlock, Message, ToolResultBlock, ToolUseBlock
from outrider.provider import Request
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
