"""Google Cloud's Vertex AI: "vertex/gemini-…" and "vertex/claude-…".

The project and the region come from `GOOGLE_CLOUD_PROJECT` and `GOOGLE_CLOUD_LOCATION` (`global` if not set); see
`google_token.py` for the credentials.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, ClassVar

import msgspec

from outrider.errors import AuthenticationError, RequestRefusedError
from outrider.providers.adapters.anthropic import Anthropic
from outrider.providers.adapters.gemini import Gemini
from outrider.providers.adapters.google_token import TOKEN_VARIABLE, GoogleToken
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request
from outrider.providers.rendering.transcript import Transcript
from outrider.providers.transport.http import Body

CLAUDE_VERSION = "vertex-2023-10-16"


class _Vertex(ApiProvider):
    """The address and the authentication, for both APIs."""

    prefix = "vertex"
    label = "Vertex AI"
    key_variables: ClassVar[tuple[str, ...]] = (TOKEN_VARIABLE,)
    base_variable = "VERTEX_BASE_URL"
    default_base = ""
    key_required = False
    publisher: ClassVar[str]
    method: ClassVar[str]

    def __init__(self, model: str, **settings: Any) -> None:
        super().__init__(model, **settings)
        self._location = os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
        region = "" if self._location == "global" else f"{self._location}-"
        self.base_url = self.base_url or f"https://{region}aiplatform.googleapis.com"
        self._token = GoogleToken()

    @property
    def route(self) -> str:
        """The host: signatures are valid only where they were made."""
        return self.host

    def url(self) -> str:
        project = os.environ.get("GOOGLE_CLOUD_PROJECT") or self._token.project
        place = f"projects/{project or 'PROJECT'}/locations/{self._location}/publishers/{self.publisher}"
        return f"{self.base_url}/v1/{place}/models/{self.model}:{self.method}"

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of a request. The key is an access token."""
        return {"content-type": "application/json", "authorization": f"Bearer {key}"}

    async def _response(self, key: str, body: Body, idle_seconds: float) -> AsyncIterator[bytes]:
        if not (os.environ.get("GOOGLE_CLOUD_PROJECT") or self._token.project):
            raise RequestRefusedError("there is no project for Vertex AI; set GOOGLE_CLOUD_PROJECT")
        token = key or await self._token.get(self._transport)
        if not token.isascii() or not token.isprintable():
            raise AuthenticationError(f"the access token for Vertex AI has invalid characters; check {TOKEN_VARIABLE}")
        chunks = self._transport.post(
            self.url(), self.headers(token), body, lambda response: self.explain(response, token), idle_seconds
        )
        async with aclosing(chunks) as received:  # type: ignore[type-var]
            async for chunk in received:
                yield chunk


class VertexGemini(_Vertex, Gemini):
    publisher = "google"
    method = "streamGenerateContent"

    def url(self) -> str:
        return f"{super().url()}?alt=sse"


class VertexClaude(_Vertex, Anthropic):
    publisher = "anthropic"
    method = "streamRawPredict"

    def body(self, request: Request, transcript: Transcript) -> Body:
        """Return the request. The model is in the URL; the version of the API is in the body."""
        version = {"anthropic_version": CLAUDE_VERSION}
        settings = msgspec.structs.replace(request.settings, options=version | request.settings.options)
        return super().body(msgspec.structs.replace(request, settings=settings), transcript)

    def _head(self) -> dict[str, Any]:
        head = super()._head()
        del head["model"]
        return head


def provider(model: str) -> VertexGemini | VertexClaude:
    """Return the adapter for a model name."""
    return VertexClaude(model) if model.startswith("claude-") else VertexGemini(model)
