"""LiteLLM, with a stand-in for the package: what it is asked, what becomes of its chunks and of its errors."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Iterable
from types import ModuleType
from typing import Any

import pytest

from outrider import Agent, Attachment, Message, Session, ToolResultBlock, ToolUseBlock, Usage
from outrider.conversation.messages import AttachmentBlock, TextBlock
from outrider.errors import (
    AuthenticationError,
    IncompleteStreamError,
    ProviderError,
    RateLimitedError,
    RequestRefusedError,
    UnavailableError,
)
from outrider.messages import ThinkingBlock
from outrider.providers.adapters.litellm import LiteLLM
from outrider.providers.base import Reply, Request, StopReason, ToolSpec
from outrider.providers.resolution import resolve
from outrider.runtime.events import Delta, Notice, TextDelta, ThinkingDelta, ToolCallDelta
from outrider.stores import MemoryStore
from tests.conversations import PDF_BYTES
from tests.waits import without_waiting

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CLAUDE = "anthropic/claude-sonnet-4-5"
GEMINI = "gemini/gemini-3.8-flash"
GEMINI_2 = ["gemini/gemini-2.5-pro", "vertex_ai/gemini-2.0-flash", "gemini/gemini-1.5-pro"]
GPT = "openai/gpt-5.6"
SIGNED = "call_7f2a__thought__" + "CiQBjz1rX+/=" * 20
LOOK = ToolSpec("look", "Look at it.", {"type": "object", "properties": {}})


class Chunk:
    """As LiteLLM's own: a pydantic model, of which only this is used."""

    def __init__(self, plain: dict[str, Any]) -> None:
        self._plain = plain

    def model_dump(self, *, exclude_none: bool, warnings: bool) -> dict[str, Any]:
        assert exclude_none
        assert not warnings
        return self._plain


class Chunks:
    """The stream that acompletion gives; an exception among the items is raised in its place."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)
        self.closed = False

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self

    async def __anext__(self) -> Chunk:
        await asyncio.sleep(0)
        for item in self._items:
            if isinstance(item, BaseException):
                raise item
            return Chunk(item)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed = True


class FakeLiteLLM(ModuleType):
    """The package as far as it is used: answers each request with the next script."""

    def __init__(self) -> None:
        super().__init__("litellm")
        self.requests: list[dict[str, Any]] = []
        self.streams: list[Chunks] = []
        self.scripts: list[Any] = []

    async def acompletion(self, **arguments: Any) -> Chunks:
        self.requests.append(arguments)
        script = self.scripts.pop(0)
        if isinstance(script, BaseException):
            raise script
        self.streams.append(Chunks(script))
        return self.streams[-1]


class LiteLLMError(Exception):
    """As LiteLLM's own: with a status, a message, and the answer of the vendor."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"litellm.SomeError: {message}")
        self.status_code = status
        self.message = message
        self.response = type("Response", (), {"headers": headers or {}})()


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> FakeLiteLLM:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    fake = FakeLiteLLM()
    monkeypatch.setitem(sys.modules, "litellm", fake)
    return fake


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": fields} | ({"finish_reason": finish} if finish else {})
    return {"id": "x", "object": "chat.completion.chunk", "choices": [choice]}


HELLO = [delta(role="assistant", content="Hel"), delta(content="lo"), delta("stop")]


async def ask(provider: LiteLLM, request: Request | None = None) -> list[Delta | Notice | Reply]:
    request = request or Request([Message.user("Hi")], MemoryStore())
    return [item async for item in provider.stream(request)]


async def reply_of(provider: LiteLLM, request: Request | None = None) -> Reply:
    last = (await ask(provider, request))[-1]
    assert isinstance(last, Reply)
    return last


# The reply


async def test_text_comes_as_it_arrives_and_then_the_reply(litellm: FakeLiteLLM) -> None:
    litellm.scripts = [HELLO]
    *deltas, reply = await ask(LiteLLM(CLAUDE))
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert isinstance(reply, Reply)
    assert (reply.message, reply.stop_reason) == (Message.assistant("Hello"), StopReason.END)
    assert litellm.streams[0].closed


async def test_the_first_delta_does_not_wait_for_the_second_chunk(litellm: FakeLiteLLM) -> None:
    gate = asyncio.Event()

    async def held() -> AsyncIterator[Chunk]:
        yield Chunk(HELLO[0])
        await gate.wait()
        for each in HELLO[1:]:
            yield Chunk(each)

    async def acompletion(**arguments: Any) -> AsyncIterator[Chunk]:
        return held()

    litellm.acompletion = acompletion  # type: ignore[method-assign, assignment]
    items = LiteLLM(CLAUDE).stream(Request([Message.user("Hi")], MemoryStore()))
    assert await anext(items) == TextDelta("Hel")
    gate.set()
    assert isinstance([item async for item in items][-1], Reply)


async def test_calls_thoughts_and_usage_are_read(litellm: FakeLiteLLM) -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 600},
        "cache_creation_input_tokens": 300,
        "completion_tokens_details": {"reasoning_tokens": 40},
    }
    call = {"index": 0, "id": SIGNED, "type": "function", "function": {"name": "look", "arguments": '{"pa'}}
    litellm.scripts = [
        [
            delta(reasoning_content="Hm."),
            delta(tool_calls=[call]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": 'th": "a"}'}}]),
            delta("tool_calls"),
            {"choices": [], "usage": usage},
        ]
    ]
    *deltas, reply = await ask(LiteLLM(CLAUDE), Request([Message.user("Hi")], MemoryStore(), tools=(LOOK,)))
    assert [type(each) for each in deltas] == [ThinkingDelta, ToolCallDelta, ToolCallDelta]
    assert isinstance(reply, Reply)
    thought, made = reply.message.content
    assert isinstance(thought, ThinkingBlock)
    assert made == ToolUseBlock(SIGNED, "look", {"path": "a"})
    assert reply.stop_reason == StopReason.TOOL_USE
    assert reply.usage == Usage(
        1000, 100, 600, 300, 40, cost=pytest.approx((100 * 3 + 600 * 0.3 + 300 * 3.75 + 1500) / 1e6)
    )


async def test_a_model_without_a_known_price_has_no_cost(litellm: FakeLiteLLM) -> None:
    litellm.scripts = [[*HELLO, {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}]]
    assert (await reply_of(LiteLLM("ollama/llama3.3"))).usage == Usage(5, 2)


async def test_a_stream_that_ends_without_a_finish_is_torn(litellm: FakeLiteLLM) -> None:
    litellm.scripts = [HELLO[:-1]]
    with pytest.raises(IncompleteStreamError):
        await ask(LiteLLM(CLAUDE))
    assert litellm.streams[0].closed


async def test_a_cancelled_request_closes_the_stream(litellm: FakeLiteLLM) -> None:
    litellm.scripts = [[HELLO[0], asyncio.CancelledError()]]
    with pytest.raises(asyncio.CancelledError):
        await ask(LiteLLM(CLAUDE))
    assert litellm.streams[0].closed


# The request


async def test_it_is_asked_in_the_form_of_chat_completions(litellm: FakeLiteLLM) -> None:
    litellm.scripts = [HELLO]
    request = Request([Message.user("Hi")], MemoryStore(), "Be brief.", (LOOK,), "Last turn.")
    await ask(LiteLLM(CLAUDE, options={"temperature": 0}), request)
    (asked,) = litellm.requests
    assert asked["model"] == CLAUDE
    assert asked["stream"] is True
    assert asked["stream_options"] == {"include_usage": True}
    assert asked["num_retries"] == 0, "Outrider retries, and tells"
    assert asked["temperature"] == 0
    assert asked["tools"][0]["function"]["name"] == "look"
    assert [message["role"] for message in asked["messages"]] == ["system", "user", "user"]
    assert "api_key" not in asked, "LiteLLM reads the vendors' variables itself"
    assert "base_url" not in asked


async def test_a_key_and_a_base_url_are_handed_on(litellm: FakeLiteLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    litellm.scripts = [HELLO, HELLO]
    await ask(LiteLLM(CLAUDE, api_key="mine", base_url="http://127.0.0.1:9"))
    assert (litellm.requests[0]["api_key"], litellm.requests[0]["base_url"]) == ("mine", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "for-openai")
    await ask(LiteLLM(CLAUDE))
    assert not {"api_key", "base_url"} & litellm.requests[1].keys()


def exchange(call_id: str, *attachments: AttachmentBlock, is_error: bool = False) -> list[Message]:
    return [
        Message.user("Look"),
        Message.assistant(ToolUseBlock(call_id, "look", {})),
        Message.user(ToolResultBlock(call_id, (TextBlock("It is there."), *attachments), is_error)),
    ]


async def rendered(
    model: str, messages: list[Message], litellm: FakeLiteLLM, store: MemoryStore
) -> list[dict[str, Any]]:
    litellm.scripts = [HELLO]
    await ask(LiteLLM(model), Request(messages, store))
    messages_asked: list[dict[str, Any]] = litellm.requests[-1]["messages"]
    return messages_asked


@pytest.mark.parametrize("model", [GEMINI, "vertex_ai/gemini-4-argon", *GEMINI_2])
async def test_for_gemini_the_id_that_hides_a_signature_is_not_changed(model: str, litellm: FakeLiteLLM) -> None:
    _, asked, result = await rendered(model, exchange(SIGNED), litellm, MemoryStore())
    assert asked["tool_calls"][0]["id"] == result["tool_call_id"] == SIGNED


@pytest.mark.parametrize("model", [CLAUDE, GPT, "mistral/mistral-large-latest"])
async def test_for_others_an_id_that_they_might_refuse_is_made_safe(model: str, litellm: FakeLiteLLM) -> None:
    _, asked, result = await rendered(model, exchange(SIGNED), litellm, MemoryStore())
    sent = asked["tool_calls"][0]["id"]
    assert sent == result["tool_call_id"] != SIGNED
    assert len(sent) <= 40
    _, asked, _ = await rendered(model, exchange("toolu_01A"), litellm, MemoryStore())
    assert asked["tool_calls"][0]["id"] == "toolu_01A"


@pytest.mark.parametrize("model", [CLAUDE, GEMINI, GPT])
async def test_a_failed_call_is_said_in_words(model: str, litellm: FakeLiteLLM) -> None:
    *_, result = await rendered(model, exchange("c1", is_error=True), litellm, MemoryStore())
    assert result["content"] == "[This call failed]\nIt is there."
    assert "is_error" not in result


@pytest.mark.parametrize("model", [CLAUDE, GEMINI])
async def test_claude_and_gemini_get_files_in_the_result(model: str, litellm: FakeLiteLLM) -> None:
    store = MemoryStore()
    picture = store.put(Attachment(PNG, "image/png", name="a.png"))
    paper = store.put(Attachment(PDF_BYTES, "application/pdf", name="b.pdf"))
    *_, result = await rendered(model, exchange("c1", picture, paper, is_error=True), litellm, store)
    assert [part["type"] for part in result["content"]] == ["text", "text", "text", "image_url", "text", "file"]
    failed, _, label, image, title, file = result["content"]
    assert [failed["text"], label["text"], title["text"]] == ["[This call failed]", "a.png:", "b.pdf:"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert file["file"]["file_data"].startswith("data:application/pdf;base64,")


@pytest.mark.parametrize("model", [GPT, *GEMINI_2])
async def test_openai_and_older_gemini_get_files_in_a_message_after_the_results(
    model: str, litellm: FakeLiteLLM
) -> None:
    store = MemoryStore()
    paper = store.put(Attachment(PDF_BYTES, "application/pdf", name="b.pdf"))
    picture = store.put(Attachment(PNG, "image/png", name="a.png"))
    *_, result, moved = await rendered(model, exchange("c1", paper, picture), litellm, store)
    assert isinstance(result["content"], str)
    assert moved["role"] == "user"
    assert [part["type"] for part in moved["content"] if part["type"] != "text"] == ["file", "image_url"]


# Errors


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (401, AuthenticationError, "anthropic does not accept the key that LiteLLM has"),
        (403, AuthenticationError, "check its variable"),
        (400, RequestRefusedError, "LiteLLM refused the request: bad luck"),
        (404, RequestRefusedError, f"does not know {CLAUDE}"),
        (422, RequestRefusedError, "bad luck"),
        (429, RateLimitedError, "too many requests"),
        (408, UnavailableError, "is not available: 408"),
        (500, UnavailableError, "is not available: 500"),
        (503, UnavailableError, "is not available: 503"),
    ],
)
async def test_its_errors_become_ours(status: int, kind: type[ProviderError], said: str, litellm: FakeLiteLLM) -> None:
    litellm.scripts = [LiteLLMError(status, "bad luck")]
    with pytest.raises(kind, match=said) as caught:
        await ask(LiteLLM(CLAUDE))
    assert type(caught.value) is kind
    assert caught.value.status == status


@pytest.mark.parametrize(
    "error",
    [TypeError("acompletion() got an unexpected keyword"), ValueError("x"), LiteLLMError(0, "odd"), OSError("y")],
)
async def test_whatever_else_it_raises_is_a_provider_error_too(error: Exception, litellm: FakeLiteLLM) -> None:
    litellm.scripts = [error]
    with pytest.raises(ProviderError, match=f"LiteLLM failed: {type(error).__name__}: "):
        await ask(LiteLLM(CLAUDE))


async def test_a_passing_fault_is_tried_again_and_the_server_says_when(
    litellm: FakeLiteLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = without_waiting(monkeypatch)
    litellm.scripts = [LiteLLMError(429, "slow down", {"Retry-After": "7"}), LiteLLMError(503, "overloaded"), HELLO]
    assert (await Session(Agent(LiteLLM(CLAUDE))).run("Hi")).text == "Hello"
    assert (waits[0], len(waits)) == (7.0, 2)


async def test_an_error_in_the_middle_ends_the_reply_and_it_is_asked_for_again(
    litellm: FakeLiteLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = without_waiting(monkeypatch)
    litellm.scripts = [[HELLO[0], LiteLLMError(503, "overloaded")], HELLO]
    assert (await Session(Agent(LiteLLM(CLAUDE))).run("Hi")).text == "Hello"
    assert (len(litellm.requests), len(waits)) == (2, 1)
    assert litellm.streams[0].closed


async def test_no_key_stands_in_an_error(litellm: FakeLiteLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", "plain-looking-secret")
    message = "no: plain-looking-secret, given-secret, sk-ant-REDACTED"
    for error in (LiteLLMError(401, message), ValueError(message)):
        litellm.scripts = [error]
        with pytest.raises(ProviderError) as caught:
            await ask(LiteLLM("mistral/mistral-large-latest", api_key="given-secret"))
        shown = f"{caught.value} {caught.value.__cause__}"
        assert "no: …, …, …" in shown
        assert "secret" not in shown
        assert caught.value.__suppress_context__


# The package


async def test_without_the_package_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    monkeypatch.setitem(sys.modules, "litellm", None)
    provider = resolve(f"litellm/{CLAUDE}")
    with pytest.raises(ProviderError, match=r"pip install 'PATH\[litellm\]', with the path"):
        await ask(provider)  # type: ignore[arg-type]


async def test_it_is_kept_from_printing_and_from_the_network(
    litellm: FakeLiteLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.delenv("LITELLM_LOCAL_MODEL_COST_MAP")
    litellm.scripts = [HELLO]
    await ask(LiteLLM(CLAUDE))
    assert os.environ.pop("LITELLM_LOCAL_MODEL_COST_MAP") == "True"
    assert litellm.__dict__["suppress_debug_info"] is True


def test_a_request_can_be_rendered_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    assert b'"messages":[{"role":"user"' in LiteLLM(CLAUDE).render(Request([Message.user("Hi")], MemoryStore()))
