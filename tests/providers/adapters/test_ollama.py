"""Models that Ollama serves."""

from __future__ import annotations

import socket
from typing import Any

import msgspec
import pytest

from outrider.conversation.messages import ProviderState, ThinkingBlock
from outrider.errors import ProviderError, RequestRefusedError, UnavailableError
from outrider.providers.adapters.ollama import Ollama, api_base
from outrider.providers.resolution import resolve
from outrider.providers.transport.http import ErrorResponse
from tests.providers.canned import LOOK, ask, delta, events, request


@pytest.mark.parametrize(
    ("host", "base"),
    [
        ("http://localhost:11434", "http://localhost:11434/v1"),
        ("http://localhost:11434/v1/", "http://localhost:11434/v1"),
        ("localhost", "http://localhost:11434/v1"),
        ("gpu.example:8080", "http://gpu.example:8080/v1"),
        ("https://models.example/ollama/", "https://models.example/ollama/v1"),
        ("0.0.0.0", "http://localhost:11434/v1"),
        ("0.0.0.0:1234", "http://localhost:1234/v1"),
        (":1234", "http://localhost:1234/v1"),
        ("[::1]:1234", "http://[::1]:1234/v1"),
        ("localhost:port", "http://localhost:port/v1"),
    ],
)
def test_the_host_may_be_written_in_any_of_the_usual_ways(
    host: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api_base(host) == base
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert Ollama("llama3.2").url() == f"{base}/chat/completions"


def test_a_model_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    model = resolve("ollama/qwen2.5-coder:1.5b")
    assert isinstance(model, Ollama)
    assert (model.model, model.name) == ("qwen2.5-coder:1.5b", "ollama/qwen2.5-coder:1.5b")
    assert model.url() == "http://localhost:11434/v1/chat/completions"


async def test_no_key_is_needed_and_that_of_openai_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-ollama")
    model = Ollama("m")
    data = events(delta(reasoning="Hm."), delta("stop", content="Hi"))
    heard = await ask(model, [data])
    transport: Any = model._transport
    assert "authorization" not in transport.headers
    assert heard.reply.text == "Hi"
    state = ProviderState("ollama", "m", {"field": "reasoning"})
    assert heard.reply.message.content[0] == ThinkingBlock("Hm.", state)


def test_a_model_that_is_not_there_can_be_pulled() -> None:
    body = msgspec.json.encode({"error": {"message": "model 'm' not found", "type": "not_found_error"}})
    error = Ollama("m").explain(ErrorResponse(404, {}, body), "")
    assert isinstance(error, RequestRefusedError)
    assert "`ollama pull m`" in str(error)


def test_a_model_without_tools_can_have_them_prompted() -> None:
    body = msgspec.json.encode({"error": {"message": "registry.ollama.ai/library/m:latest does not support tools"}})
    assert "prompted_tools=True" in str(Ollama("m").explain(ErrorResponse(400, {}, body), ""))
    prompted = msgspec.json.decode(Ollama("m", prompted_tools=True).render(request(tools=(LOOK,))))
    assert "tools" not in prompted
    assert "response_format" in prompted


async def test_a_server_that_does_not_run_can_be_started() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = Ollama("m", base_url=f"127.0.0.1:{port}")
    with pytest.raises(UnavailableError, match=f"127.0.0.1:{port} cannot be reached.*`ollama serve`") as caught:
        _ = [item async for item in model.stream(request())]
    assert caught.value.retryable


async def test_a_server_that_goes_away_in_the_middle_was_there() -> None:
    class Gone:
        async def post(self, *_: Any) -> Any:
            yield events(delta(content="Hi"), done=False)
            raise UnavailableError("it went away", retryable=True)

    model = Ollama("m")
    model._transport = Gone()  # type: ignore[assignment]
    with pytest.raises(ProviderError, match=r"^it went away$"):
        _ = [item async for item in model.stream(request())]
