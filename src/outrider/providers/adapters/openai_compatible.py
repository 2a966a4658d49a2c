"""Any OpenAI-compatible server by its URL: "http://host:port/v1#model"."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from outrider.errors import UnknownModelError
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.catalogue.capabilities import capabilities_of


class CompatibleServer(OpenAIChat):
    """A model of vLLM, LM Studio, llama.cpp or another server with a Chat Completions API.

    The OpenAI key is not sent there. A server that needs a key gets the one in `OPENAI_COMPATIBLE_API_KEY`.
    """

    prefix = "openai-compatible"
    label = "the server"
    key_variables = ("OPENAI_COMPATIBLE_API_KEY",)
    base_variable = "OPENAI_COMPATIBLE_BASE_URL"
    default_base = "http://localhost:8000/v1"
    key_required = False
    can_look_up = True

    def __init__(self, model: str, base_url: str, **settings: Any) -> None:
        name = f"{base_url.rstrip('/')}#{model}"
        known = {"capabilities": capabilities_of(self.prefix, model, name)}
        super().__init__(model, base_url=base_url, **(known | settings))
        self._looked_up = self._looked_up or "capabilities" in settings
        self.name = name


def provider(url: str) -> CompatibleServer:
    """Return the adapter for a URL with the model name after a #."""
    base, _, model = url.partition("#")
    parts = urlsplit(base)
    if "@" in parts.netloc:
        raise UnknownModelError(
            "the URL of a server must not contain a password; put a key into OPENAI_COMPATIBLE_API_KEY"
        )
    if not (model and parts.hostname):
        raise UnknownModelError(f"{url!r} does not name a server and a model; write it as http://host:port/v1#model")
    return CompatibleServer(model, base)
