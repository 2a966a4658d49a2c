"""Amazon Bedrock: "bedrock/anthropic.claude-…" through the Messages API, other models through Chat Completions.

The key is a Bedrock API key (`AWS_BEARER_TOKEN_BEDROCK`), or the usual AWS credentials in the environment, with which
requests are signed. Profiles in ~/.aws, roles and single sign-on are not read: export their credentials first, as
`aws configure export-credentials --format env` prints them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

import msgspec

from outrider.errors import MissingKeyError, ProviderError
from outrider.providers.adapters.anthropic import Anthropic
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.api import ApiProvider
from outrider.providers.transport.http import Body

REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
DEFAULT_REGION = "us-east-1"
SERVICE = "bedrock"
_CLAUDE = "anthropic.claude-"
ALGORITHM = "AWS4-HMAC-SHA256"


class Credentials(msgspec.Struct, frozen=True):
    """An access key. Temporary ones have a session token."""

    access_key: str
    secret_key: str
    session_token: str = ""

    @classmethod
    def from_environment(cls) -> Credentials | None:
        """Return the credentials in the usual variables, or None."""
        access, secret = os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", "")
        return cls(access, secret, os.environ.get("AWS_SESSION_TOKEN", "")) if access and secret else None


def signed_headers(
    credentials: Credentials,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    region: str,
    service: str,
    now: datetime | None = None,
) -> dict[str, str]:
    """Return the headers of a POST request with the signature. The URL has no query."""
    moment = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    parts = urlsplit(url)
    signed = {name.lower(): value for name, value in headers.items()} | {"host": parts.netloc, "x-amz-date": moment}
    if credentials.session_token:
        signed["x-amz-security-token"] = credentials.session_token
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{' '.join(signed[name].split())}\n" for name in sorted(signed))
    request = f"POST\n{quote(parts.path or '/')}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    signature = _sign(_signing_key(credentials.secret_key, scope), f"{ALGORITHM}\n{moment}\n{scope}\n{digest}").hex()
    authorization = f"{ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}"
    return {**signed, "authorization": f"{authorization}, Signature={signature}"}


def _signing_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = _sign(key, part)
    return key


def _sign(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class _Bedrock(ApiProvider):
    """The address and the authentication, for both APIs."""

    prefix = "bedrock"
    label = "Amazon Bedrock"
    key_variables: ClassVar[tuple[str, ...]] = ("AWS_BEARER_TOKEN_BEDROCK",)
    base_variable = "BEDROCK_BASE_URL"
    default_base = ""
    path: ClassVar[str]  # the path of the API

    def __init__(self, model: str, **settings: Any) -> None:
        super().__init__(model, **settings)
        self._region = next(filter(None, map(os.environ.get, REGION_VARIABLES)), DEFAULT_REGION)
        self.base_url = f"{self.base_url or f'https://bedrock-runtime.{self._region}.amazonaws.com'}{self.path}"

    def required_key(self) -> str:
        if self.key or Credentials.from_environment():
            return self.key and ApiProvider.required_key(self)
        raise MissingKeyError(
            f"there is no key for {self.label}; set {self.key_variables[0]}, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY"
        )

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of a request. Without a key, a signature is added when the body is known."""
        headers = super().headers(key)  # type: ignore[safe-super]
        headers.pop("x-api-key", None)
        return headers | ({"authorization": f"Bearer {key}"} if key else {})

    def _response(self, key: str, body: Body, idle_seconds: float) -> AsyncIterator[bytes]:
        headers = self.headers(key)
        if not key and (credentials := Credentials.from_environment()):
            headers = signed_headers(credentials, self.url(), headers, bytes(body), self._region, SERVICE)
        return self._transport.post(self.url(), headers, body, partial(self.explain, key=key), idle_seconds)

    def _classify(self, status: int, message: str) -> tuple[type[ProviderError], str]:
        kind, sentence = super()._classify(status, message)
        if status == 404:
            sentence = f"{self.label} has no {self.model} in {self._region} ({message}); check its name and AWS_REGION"
        return kind, sentence


class BedrockClaude(_Bedrock, Anthropic):
    """Claude on Bedrock, through the Messages API. It serves Claude Opus 4.7, Haiku 4.5 and newer models."""

    path = "/anthropic"


class BedrockChat(_Bedrock, OpenAIChat):
    """Other models on Bedrock, through its Chat Completions API."""

    path = "/openai/v1"


def provider(model: str) -> BedrockClaude | BedrockChat:
    """Return the adapter for a model name."""
    return BedrockClaude(model) if _CLAUDE in model else BedrockChat(model)
