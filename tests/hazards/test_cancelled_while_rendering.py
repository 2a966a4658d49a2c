"""A request that is given up while its files are read does not spoil the next one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import msgspec

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import MemoryStore
from outrider.providers.adapters.anthropic import Anthropic
from outrider.runtime.agent import Agent
from outrider.runtime.session import Session
from tests.conversations import PDF_BYTES


class SlowStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.reading, self.release = threading.Event(), threading.Event()

    def read(self, reference: AttachmentBlock) -> bytes:
        self.reading.set()
        self.release.wait(10)
        return super().read(reference)


class Recording(Anthropic):
    bodies: list[bytes]

    async def _response(self, key: str, body: bytes, idle_seconds: float) -> AsyncIterator[bytes]:
        self.bodies.append(body)
        yield b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\ndata: {"type":"message_stop"}\n\n'


async def test_each_message_is_sent_once() -> None:
    model = Recording("claude-sonnet-4-5", api_key="k")
    model.bodies = []
    store = SlowStore()
    session = Session(Agent(model=model), store=store)
    running = asyncio.create_task(session.run(["look", Attachment(PDF_BYTES, "application/pdf", name="a.pdf")]))
    assert await asyncio.to_thread(store.reading.wait, 10)
    session.cancel()
    assert (await running).status == "cancelled"
    following = asyncio.create_task(session.run("never mind"))
    await asyncio.sleep(0)
    store.release.set()
    await following
    (body,) = model.bodies
    (message,) = msgspec.json.decode(body)["messages"]
    assert [block["type"] for block in message["content"]] == ["text", "document", "text"]
