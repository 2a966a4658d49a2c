"""A conversation whose files no longer fit into a request goes on: the oldest are mentioned instead of shown."""

from __future__ import annotations

import io
import random

import msgspec
import pytest
from PIL import Image

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import Message, ProviderState, ThinkingBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import RequestRefusedError
from outrider.providers.base import Request
from outrider.providers.capabilities import capabilities_of
from tests.adapters import ONE_EACH, Case, each
from tests.conversations import STORE


def picture(number: int) -> bytes:
    """A PNG of about 3 kB, different from the others."""
    output = io.BytesIO()
    Image.frombytes("L", (55, 55), random.Random(number).randbytes(55 * 55)).save(output, "PNG")
    return output.getvalue()


def conversation(store: MemoryStore, pictures: int) -> list[Message]:
    messages = [Message.user("Look at them.")]
    for number in range(pictures):
        file = store.put(Attachment(picture(number), "image/png", name=f"p{number}.png"))
        messages.append(Message.assistant(ToolUseBlock(f"c{number}", "look", {})))
        messages.append(Message.user(ToolResultBlock(f"c{number}", (file,))))
    return messages


@each(*ONE_EACH)
@pytest.mark.parametrize("limit", ["images", "request_bytes"])
def test_the_oldest_are_left_out_and_said_to_be(case: Case, limit: str) -> None:
    store = MemoryStore()
    messages = conversation(store, 8)
    can = msgspec.structs.replace(
        capabilities_of(case.prefix, case.model), **{limit: 3 if limit == "images" else 20_000}
    )
    provider = case.adapter(capabilities=can)
    memory: dict[str, object] = {}
    body = provider.render(Request(messages, store, memory=memory)).decode()
    assert len(body) <= can.request_bytes
    assert "p0.png (image/png" in body
    assert "it is left out: the request is too large" in body
    assert "p7.png (image/png" not in body, "the newest is shown"
    again = provider.render(Request(messages, store, memory=memory)).decode()
    assert again == body
    longer = [*messages, Message.assistant("Nice."), Message.user("Thanks.")]
    assert provider.render(Request(longer, store, memory=memory)).decode()[: len(body) // 2] == body[: len(body) // 2]


def test_what_is_too_large_without_any_file_is_refused_with_advice() -> None:
    case = ONE_EACH[0]
    can = msgspec.structs.replace(capabilities_of(case.prefix, case.model), request_bytes=1000)
    with pytest.raises(RequestRefusedError, match="start a new conversation"):
        case.adapter(capabilities=can).render(Request([Message.user("x" * 2000)], STORE))


def test_pictures_of_a_message_that_grew_count_once() -> None:
    store = MemoryStore()
    files = [store.put(Attachment(picture(number), "image/png", name=f"p{number}.png")) for number in range(3)]
    asked = [Message.user("go"), Message.assistant(ToolUseBlock("c", "look", {}))]
    can = msgspec.structs.replace(capabilities_of("anthropic", "claude-sonnet-4-5"), images=4)
    provider = ONE_EACH[0].adapter(capabilities=can)
    memory: dict[str, object] = {}
    for words in ([], ["go on"], ["go on", "please"]):
        answer = Message.user(ToolResultBlock("c", tuple(files)), *words)
        body = provider.render(Request([*asked, answer], store, memory=memory)).decode()
        assert body.count('"type":"image"') == 3


def test_thoughts_do_not_go_back_once_what_stood_before_them_was_changed() -> None:
    store = MemoryStore()
    thought = ThinkingBlock("hm", ProviderState("anthropic", "claude-sonnet-4-5", {"signature": "s"}))
    messages = [*conversation(store, 4), Message.assistant(thought, "Nice."), Message.user("on")]
    known = capabilities_of("anthropic", "claude-sonnet-4-5")
    for images, goes_back in ((100, True), (2, False)):
        can = msgspec.structs.replace(known, images=images)
        body = ONE_EACH[0].adapter(capabilities=can).render(Request(messages, store)).decode()
        assert ('"type":"thinking"' in body) is goes_back
