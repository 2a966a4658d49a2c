"""Models that the table does not know: their servers are asked once, and what they say is kept."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.providers.adapters import model_lookup
from outrider.providers.adapters.hosted import CompatibleServer, adapter_of
from outrider.providers.adapters.ollama import Ollama
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request
from outrider.providers.catalogue.windows import window_of
from tests.providers.canned import delta, events


class Server:
    """Answers the questions about models with what a test gives, and every chat with a word."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        if request.path.endswith("/chat/completions"):
            return web.Response(body=events(delta("stop", content="Hi.")), content_type="text/event-stream")
        self.asked.append(f"{request.method} {request.path}")
        found = self.answers.get(request.path)
        if found is None:
            return web.Response(status=404)
        return web.Response(body=found if isinstance(found, bytes) else msgspec.json.encode(found))


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    monkeypatch.setenv(model_lookup.SWITCH, "on")
    found, application = Server(), web.Application()
    application.router.add_route("*", "/{path:.*}", found.handle)
    async with TestServer(application) as running:
        found.url = str(running.make_url("")).rstrip("/")
        yield found


async def used(model: ApiProvider) -> ApiProvider:
    items = [item async for item in model.stream(Request([Message.user("Hi")], MemoryStore()))]
    assert items[-1].text == "Hi."  # type: ignore[union-attr]
    return model


def compatible(server: Server, model: str = "unheard-of", **settings: Any) -> CompatibleServer:
    return CompatibleServer(model, f"{server.url}/v1", **settings)


@pytest.mark.parametrize("field", ["max_model_len", "context_length", "context_window", "max_context_length"])
async def test_a_list_of_models_says_the_window(server: Server, field: str) -> None:
    server.answers["/v1/models"] = {"data": [{"id": "other", field: 1}, {"id": "unheard-of", field: 32768}]}
    model = await used(compatible(server))
    assert window_of(model) == 32768
    assert model.capabilities.image == "no"


async def test_openrouter_and_mistral_say_who_sees(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    new = {"id": "some/model", "context_length": 9000, "architecture": {"input_modalities": ["text", "image"]}}
    server.answers["/v1/models"] = {"data": [new, {"id": "new-one", "capabilities": {"vision": True}}]}
    for vendor, name in (("openrouter", "some/model"), ("mistral", "new-one")):
        model = await used(adapter_of(vendor)(name, api_key="k", base_url=f"{server.url}/v1"))
        assert model.capabilities.image == "moved"


async def test_llama_cpp_says_its_window_and_modalities(server: Server) -> None:
    server.answers["/v1/models"] = {"data": [{"id": "unheard-of", "meta": {"n_ctx_train": 131072}}]}
    server.answers["/props"] = {"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": True}}
    model = await used(compatible(server))
    assert (window_of(model), model.capabilities.image) == (8192, "moved")


async def test_ollama_says_what_a_model_can_do(server: Server) -> None:
    info = {"general.architecture": "qwen", "qwen.context_length": 40960}
    server.answers["/api/show"] = {"model_info": info, "capabilities": ["completion", "vision", "tools"]}
    model = await used(Ollama("unheard-of", base_url=server.url))
    assert (window_of(model), model.capabilities.image, model.capabilities.tools) == (40960, "moved", True)
    server.answers["/api/show"] = {"model_info": info, "capabilities": ["completion"], "parameters": "num_ctx   4096"}
    small = await used(Ollama("smaller", base_url=server.url))
    assert (window_of(small), small.capabilities.tools) == (4096, False)


async def test_a_server_is_asked_once_and_the_answer_is_kept_in_a_private_file(
    server: Server, own_data_folder: Path
) -> None:
    server.answers["/v1/models"] = {"data": [{"id": "unheard-of", "max_model_len": 4096}]}
    await used(await used(compatible(server)))
    assert window_of(await used(compatible(server))) == 4096
    assert server.asked == ["GET /v1/models"]
    file = own_data_folder / model_lookup.FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(own_data_folder) == [model_lookup.FILE]
    kept = msgspec.json.decode(file.read_bytes())
    (facts,) = kept.values()
    facts["date"] -= model_lookup.SECONDS_KEPT + 1
    file.write_bytes(msgspec.json.encode(kept))
    await used(compatible(server))
    assert len(server.asked) == 2, "an old answer is asked for again"


@pytest.mark.parametrize(
    "answer",
    [None, b"<html>", b"[]", {"data": 5}, {"data": [{"id": "unheard-of", "max_model_len": "many"}]}, b"[" * 9999],
)
async def test_a_server_that_says_nothing_useful_is_no_error(server: Server, answer: Any) -> None:
    server.answers["/v1/models"] = answer
    model = await used(compatible(server))
    assert window_of(model) is None


async def test_known_models_and_those_the_user_describes_are_not_asked_about(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await used(compatible(server, "qwen2.5-vl-7b"))
    await used(compatible(server, capabilities=compatible(server).capabilities))
    file = tmp_path / "capabilities.json"
    file.write_text(f'{{"{server.url}/v1#mine": {{"image": "moved"}}}}')
    monkeypatch.setenv("OUTRIDER_CAPABILITIES", str(file))
    assert (await used(compatible(server, "mine"))).capabilities.image == "moved"
    monkeypatch.setenv(model_lookup.SWITCH, "off")
    await used(compatible(server))
    assert server.asked == []


async def test_a_folder_that_cannot_be_written_is_no_error(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers["/v1/models"] = {"data": [{"id": "unheard-of", "max_model_len": 4096}]}
    monkeypatch.setenv("OUTRIDER_HOME", os.devnull)
    assert window_of(await used(compatible(server))) == 4096
