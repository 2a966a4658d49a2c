"""A conversation whose files no longer fit into a request goes on: the oldest are mentioned instead of shown."""

from __future__ import annotations

import base64
import io
import random

import msgspec
import pytest
from PIL import Image

from outrider import Agent, Session
from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import Message, ProviderState, ThinkingBlock, ToolResultBlock, ToolUseBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import RequestRefusedError
from outrider.providers.adapters.hosted import CompatibleServer
from outrider.providers.base import Request
from outrider.providers.catalogue.capabilities import capabilities_of
from outrider.runtime.events import Event, Notice
from tests.adapters import ONE_EACH, Case, each
from tests.conversations import STORE
from tests.modelserver import ModelServer
from tests.providers.rendering.test_documents import scan
from tests.streams import Answer


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
    assert f"it is left out: {provider.label} takes at most" in body
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


def shown_in(body: str, count: int) -> list[int]:
    """The numbers of the pictures whose bytes are in a request."""
    return [number for number in range(count) if base64.b64encode(picture(number)).decode() in body]


@each(*ONE_EACH, Case("mistral", "mistral-medium-3-5"))
@pytest.mark.parametrize("limit", ["images", "request_bytes"])
def test_of_one_message_as_many_as_fit_are_shown(case: Case, limit: str) -> None:
    store = MemoryStore()
    files = [store.put(Attachment(picture(number), "image/png", name=f"p{number}.png")) for number in range(9)]
    can = msgspec.structs.replace(
        capabilities_of(case.prefix, case.model), **{limit: 8 if limit == "images" else 37_000}
    )
    provider = case.adapter(capabilities=can)
    body = provider.render(Request([Message.user("Look.", *files)], store)).decode()
    assert len(body) <= can.request_bytes
    assert shown_in(body, 9) == list(range(1, 9)), "the newest are shown"
    assert body.count("it is left out") == 1


def test_what_claude_and_pixtral_take_is_filled() -> None:
    for provider, most in (
        (Case("anthropic", "claude-sonnet-4-5").adapter(), 100),
        (CompatibleServer("pixtral-12b", "https://api.mistral.ai/v1"), 8),
    ):
        store = MemoryStore()
        files = [store.put(Attachment(picture(number), name=f"p{number}.png")) for number in range(most + 1)]
        body = provider.render(Request([Message.user(*files)], store)).decode()
        assert shown_in(body, most + 1) == list(range(1, most + 1))


def test_a_file_that_cannot_fit_does_not_take_the_others_with_it() -> None:
    store = MemoryStore()
    small = store.put(Attachment(picture(0), name="p0.png"))
    large = store.put(Attachment(scan(1) + b"\n%" + b"x" * 60_000, name="large.pdf"))
    can = msgspec.structs.replace(capabilities_of("anthropic", "claude-sonnet-4-5"), request_bytes=50_000)
    for messages in (
        [Message.user("Look.", small, large)],
        [Message.user("Look.", small), Message.assistant("Nice."), Message.user("And this?", large)],
    ):
        body = ONE_EACH[0].adapter(capabilities=can).render(Request(messages, store)).decode()
        assert shown_in(body, 1) == [0]
        assert "large.pdf (application/pdf" in body


def test_one_picture_stays_if_only_one_may_be_there() -> None:
    store = MemoryStore()
    messages = [*conversation(store, 3), Message.assistant("Nice."), Message.user("on")]
    can = msgspec.structs.replace(capabilities_of("anthropic", "claude-sonnet-4-5"), images=1)
    body = ONE_EACH[0].adapter(capabilities=can).render(Request(messages, store)).decode()
    assert shown_in(body, 3) == [2]


def test_of_a_long_scan_as_many_pages_are_shown_as_the_api_takes() -> None:
    store = MemoryStore()
    block = store.put(Attachment(scan(4), name="scan.pdf"))
    can = msgspec.structs.replace(capabilities_of("openai-chat", "gpt-5.6"), pdf="text", images=3)
    body = Case("openai-chat", "gpt-5.6").adapter(capabilities=can).render(Request([Message.user(block)], store))
    assert body.count(b'"image_url":') == 3
    assert b"First pages of scan.pdf, of 4:" in body


@each(*ONE_EACH)
async def test_observers_are_told_how_many_and_why(case: Case) -> None:
    notices: list[str] = []

    def observe(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)

    async with ModelServer([Answer("All is well.")] * 2) as server:
        can = msgspec.structs.replace(capabilities_of(case.prefix, case.model), images=2)
        model = case.adapter(server.url, key="k", capabilities=can)
        session = Session(Agent(model=model), observer=observe)
        files = [Attachment(picture(number), name=f"p{number}.png") for number in range(5)]
        assert (await session.run(["Look.", *files])).status == "done"
        assert (await session.run("Thanks.")).status == "done"
    said = f"3 files are not shown to the model: {model.label} takes at most 2 images in a request"
    assert [notice for notice in notices if said in notice] == notices != []
    assert len(notices) == 1
