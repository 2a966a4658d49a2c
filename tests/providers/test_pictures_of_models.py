"""Pictures that models make: attachments of the reply, which go back to the model that made them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider import Agent, Attachment, Session
from outrider.conversation.messages import AttachmentBlock, Message
from outrider.conversation.store import MemoryStore
from outrider.log.log import Log
from outrider.providers.adapters.anthropic import Anthropic
from outrider.providers.adapters.gemini import Gemini
from outrider.providers.adapters.hosted import adapter_of
from outrider.providers.adapters.openai_responses import OpenAIResponses
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request
from tests.conversations import JPEG_BYTES, PNG_BYTES
from tests.oracles import type_errors
from tests.providers.canned import CannedTransport, ask, delta, events, request

PNG = base64.b64encode(PNG_BYTES).decode()


def gemini() -> Gemini:
    return Gemini("gemini-3-pro-image", api_key="k")


def gemini_stream() -> bytes:
    parts: list[dict[str, Any]] = [
        {"text": "Here it is:"},
        {"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": "c2ln"},
    ]
    chunk = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    return b"data: " + msgspec.json.encode(chunk) + b"\r\n\r\n"


def responses() -> OpenAIResponses:
    return OpenAIResponses("gpt-6.1-sol", api_key="k")


def responses_stream() -> bytes:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG, "output_format": "png"}
    text = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Here it is:", "annotations": []}],
    }
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": each}
        for index, each in enumerate([text, item])
    ]
    end = {"type": "response.completed", "response": {"output": [text, item], "usage": {"input_tokens": 3}}}
    return events(*done, end, done=False)


def openrouter() -> ApiProvider:
    return adapter_of("openrouter")("google/gemini-3-pro-image", api_key="k")


def openrouter_stream() -> bytes:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}, "index": 0}
    return events(delta(content="Here it is:"), delta(content="", images=[image]), delta("stop", content=""))


each_api = pytest.mark.parametrize(
    ("make", "stream", "api"),
    [
        (gemini, gemini_stream, "gemini"),
        (responses, responses_stream, "openai"),
        (openrouter, openrouter_stream, "openai-chat"),
    ],
    ids=["gemini", "openai", "openrouter"],
)


@each_api
async def test_a_picture_in_a_reply_is_an_attachment_and_goes_back(make: Any, stream: Any, api: str) -> None:
    store = MemoryStore()
    heard = await ask(make(), [stream()], request(store=store))
    _, picture = heard.reply.message.content
    assert heard.reply.text == "Here it is:"
    assert isinstance(picture, AttachmentBlock)
    assert (picture.mime_type, store.read(picture)) == ("image/png", PNG_BYTES)
    messages = [Message.user("Draw."), heard.reply.message, Message.user("Bigger.")]
    body = msgspec.json.decode(make().render(Request(messages, store)))
    assert type_errors(api, body) == []
    own = str(next(items for name in ("messages", "input", "contents") if (items := body.get(name)))[1:-1])
    assert own.count(PNG) == 1, "in the model's own message, and once"
    if api == "gemini":
        assert body["contents"][1]["parts"][1]["thoughtSignature"] == "c2ln"


@each_api
async def test_another_model_gets_the_picture_with_the_next_message(make: Any, stream: Any, api: str) -> None:
    store = MemoryStore()
    heard = await ask(make(), [stream()], request(store=store))
    messages = [Message.user("Draw."), heard.reply.message, Message.user("What is it?")]
    body = msgspec.json.decode(Anthropic("claude-sonnet-5-5").render(Request(messages, store)))
    assert type_errors("anthropic", body) == []
    label, image, question = body["messages"][2]["content"]
    assert label["text"].endswith("from the assistant's message before this one:")
    assert image["source"]["data"] == PNG
    assert question["text"] == "What is it?"
    blind = adapter_of("groq")("llama-3.3-70b", api_key="k")
    assert "cannot be shown" in blind.render(Request(messages, store)).decode()


async def test_a_picture_that_is_no_picture_is_a_note() -> None:
    chunk = {"candidates": [{"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "%%"}}]}}]}
    end = {"candidates": [{"finishReason": "STOP"}]}
    heard = await ask(gemini(), [events(chunk, end, done=False)])
    assert heard.reply.text == "[The model made a picture that cannot be kept: its data is not base64]"


@each_api
async def test_a_store_that_fails_costs_the_picture_and_not_the_reply(make: Any, stream: Any, api: str) -> None:
    class Failing(MemoryStore):
        def put(self, attachment: Attachment, max_bytes: int = 0) -> AttachmentBlock:
            raise OSError("disk")

    heard = await ask(make(), [stream()], request(store=Failing()))
    assert heard.reply.text == "Here it is:[The model made a picture that cannot be kept: OSError: disk]"


async def test_a_picture_with_the_wrong_type_is_stored_with_its_own() -> None:
    store = MemoryStore()
    image = {"image_url": {"url": "data:image/png;base64," + base64.b64encode(JPEG_BYTES).decode()}}
    heard = await ask(openrouter(), [events(delta("stop", content="", images=[image]))], request(store=store))
    (picture,) = heard.reply.message.content
    assert isinstance(picture, AttachmentBlock)
    assert (picture.mime_type, picture.name[-4:]) == ("image/jpeg", ".jpg")


async def test_a_picture_of_a_model_is_in_the_log(tmp_path: Path) -> None:
    model = gemini()
    model._transport = CannedTransport([gemini_stream()])  # type: ignore[assignment]
    with Log(tmp_path) as log:
        async with Session.open(log, None, Agent(model)) as session:
            result = await session.run("Draw.")
            assert result.status == "done"
            name = session.id
        async with Session.open(log, name, Agent(model)) as again:
            picture = again.history.messages[-1].content[1]
            assert isinstance(picture, AttachmentBlock)
            assert again.store.read(picture) == PNG_BYTES
            assert picture.state is not None
            assert picture.state.data == {"thoughtSignature": "c2ln"}
