"""Ollama: models on this machine or on another one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

from outrider.errors import ProviderError, RequestRefusedError, UnavailableError
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.transport.http import Body

PORT = 11434


class Ollama(OpenAIChat):
    """A model that Ollama serves, through its Chat Completions API. Needs no key."""

    prefix = "ollama"
    label = "Ollama"
    key_variables = ("OLLAMA_API_KEY",)
    base_variable = "OLLAMA_HOST"
    default_base = f"http://localhost:{PORT}"
    key_required = False
    can_look_up = True

    def __init__(self, model: str, **settings: Any) -> None:
        super().__init__(model, **settings)
        self.base_url = api_base(self.base_url)

    @property
    def route(self) -> str:
        """Empty: a model has the same name and the same weights on every Ollama."""
        return ""

    async def _response(self, key: str, body: Body, idle_seconds: float) -> AsyncIterator[bytes]:
        started = False
        try:
            async with aclosing(super()._response(key, body, idle_seconds)) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    started = True
                    yield chunk
        except UnavailableError as error:
            if started or error.status is not None:
                raise
            sentence = f"{error}: is Ollama running there? Start it with `ollama serve`, or set {self.base_variable}"
            raise UnavailableError(sentence, retryable=error.retryable, retry_seconds=error.retry_seconds) from None

    def _classify(self, status: int, message: str) -> tuple[type[ProviderError], str]:
        if status == 404:
            sentence = f"Ollama has no {self.model} ({message}); get it with `ollama pull {self.model}`"
            return RequestRefusedError, sentence
        if status == 400 and "does not support tools" in message:
            return RequestRefusedError, f"{message}; pass prompted_tools=True to describe the tools in the prompt"
        return super()._classify(status, message)


def api_base(host: str) -> str:
    """Return the base URL of the API. OLLAMA_HOST may be a URL, an address, or a host with or without a port.

    >>> api_base("localhost:11434"), api_base("https://models.example/ollama")
    ('http://localhost:11434/v1', 'https://models.example/ollama/v1')
    """
    base = host.rstrip("/")
    if "://" not in base:
        parts = urlsplit(f"http://{base}")
        try:
            base = f"http://{_reachable(parts.hostname)}:{parts.port or PORT}{parts.path}"
        except ValueError:  # the port is not a number; the request will report it
            base = f"http://{base}"
    return base if base.endswith("/v1") else f"{base}/v1"


def _reachable(host: str | None) -> str:
    """Return a host to connect to. OLLAMA_HOST also tells the server where to listen, which may be 0.0.0.0."""
    if host in (None, "", "0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in str(host) else str(host)
