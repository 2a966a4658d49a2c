"""Bedrock and Vertex AI: addresses, and requests that prove who sends them."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from outrider.conversation.messages import Message, ThinkingBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import AuthenticationError
from outrider.providers.adapters.bedrock import Credentials, signed_headers
from outrider.providers.adapters.google_token import rs256
from outrider.providers.api import ApiProvider
from outrider.providers.base import Reply, Request
from outrider.providers.resolution import resolve
from tests.streams import SIGNATURE, Answer, stream_of

KEY = """-----BEGIN PRIVATE KEY-----
MIICdQIBADANBgkqhkiG9w0BAQEFAASCAl8wggJbAgEAAoGBAKHnNlcOge/XRaTM
obsdwd9K6T/83/px/26vG/S14SORW/duYwgUr2sjzJCxWXzdBtiJdeSmyIxub+IY
PuizOBj9g4cGEkTC6beRKy3fk9vZzgOimXo05wsyqZtJboFrCsZfFq4V3hXpZcY+
cin4gdWwaXDN4aVkn6KmQkxWQ4OHAgMBAAECgYBGtyeb9ME6UeugZKTLht7UOfMR
ONFXoY0w+hka1IpGr8nclAF7WRWZlWRXWq88g4nm8Htm6JY2CFKkDXUEzKrWRVyM
pgsiE3JehEHQkrgNB6+OXstjbIWASx/nmWibURkffvVxOMN7h+HTbaUZVJaJd92Q
NWw/UHI8oXoXIY7bkQJBANdWFQY8oC84SSNEFcyyd21EhG48nDWPooUMDQKgdrbZ
MwW7Kn20hhEdYLAyCAXWywM9UX+wLlnmjnxQ8mjmdT8CQQDAegj5Q2JbJmZ0jbLy
pwNbQzGS+/uy3liVbmH4ERnCCvQRwi5D4kyyILZ6j87eO+mgq1/3Erh0lofGio+w
J/e5AkByMSIhFpFTuSN/4iE1VgbjGQypcNbdyHfE2mkj1Xhe6ruV9HVKCCt4c/3M
MhvzDL7HzwKjFgjef9dbsYl7e4r9AkBPpK995OIX8WXHqLJ5MZ5z7vPebCIUO2jQ
PGKRcRIFdt7TUlQuhr9RnbOkN0lUL9pWP1NwOvDUXU1FXCRkscURAkA2rDkgxZJP
TxyXPLa8S8AltcG6PQQVWIoeKRHXu9dxwhEZEz1L1E/0CewesIGKzVdG6r06VwmF
KhEKquFIgKfC
-----END PRIVATE KEY-----
"""
"""A key that was made for this test."""
SIGNED = (
    "IL6/t/zsoRxhypc68/2AS5GQNhwXzAh4phZyTd2Xa7QiC17/yICJVXBnJEZHusXpMF7lbMLNOZWe5UmdOJR8xlXyyyoy2ZeSu0r+IEorYxhUMAUO84l+"
    "pfuUAp538/4Bz+yYpQIsefNN3C+2nGGBb3Bk5Lqv5O3b1jgKjt25T3M="
)
"""What the package `cryptography` makes of `header.claims` with it."""
AWS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")


class Cloud:
    """A server for tokens and for models. It keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.api = "anthropic"
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.asked.append((request.path, {name.lower(): value for name, value in request.headers.items()}, body))
        if request.path == "/token":
            return web.json_response({"access_token": "ya29.fresh", "expires_in": 3599})
        stream = stream_of(self.api, Answer("Hello.", thinking="Hm." if self.api == "anthropic" else ""))
        return web.Response(body=b"".join(stream), content_type="text/event-stream")


@pytest.fixture
async def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Cloud]:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "none"))
    found, application = Cloud(), web.Application()
    application.router.add_route("*", "/{path:.*}", found.handle)
    async with TestServer(application) as running:
        found.url = str(running.make_url("")).rstrip("/")
        monkeypatch.setenv("BEDROCK_BASE_URL", found.url)
        monkeypatch.setenv("VERTEX_BASE_URL", found.url)
        yield found


def adapter(name: str) -> ApiProvider:
    found = resolve(name)
    assert isinstance(found, ApiProvider)
    return found


async def reply(model: ApiProvider) -> Reply:
    items = [item async for item in model.stream(Request([Message.user("Hi")], MemoryStore()))]
    assert isinstance(items[-1], Reply)
    assert items[-1].text == "Hello."
    return items[-1]


# Bedrock


def test_a_signature_is_the_one_that_aws_publishes() -> None:
    moment = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
    headers = signed_headers(AWS, "https://example.amazonaws.com/", {}, b"", "us-east-1", "service", moment)
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        "SignedHeaders=host;x-amz-date, Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
    )


def test_bedrock_has_two_apis_in_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    base = "https://bedrock-runtime.eu-central-1.amazonaws.com"
    assert adapter("bedrock/eu.anthropic.claude-opus-5-5").url() == f"{base}/anthropic/v1/messages"
    assert adapter("bedrock/openai.gpt-oss-120b-1:0").url() == f"{base}/openai/v1/chat/completions"


async def test_claude_on_bedrock_takes_a_bearer_token(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "ABSKtoken")
    model = adapter("bedrock/anthropic.claude-opus-5-5")
    heard = await reply(model)
    ((path, headers, body),) = cloud.asked
    assert (path, headers["authorization"]) == ("/anthropic/v1/messages", "Bearer ABSKtoken")
    assert "x-api-key" not in headers
    assert json.loads(body)["model"] == "anthropic.claude-opus-5-5"
    thought = heard.message.content[0]
    assert isinstance(thought, ThinkingBlock)
    messages = [Message.user("Hi"), heard.message, Message.user("And?")]
    assert SIGNATURE in model.render(Request(messages, MemoryStore())).decode(), "its own thinking goes back"
    assert SIGNATURE not in adapter("anthropic/claude-opus-5-5").render(Request(messages, MemoryStore())).decode()


async def test_a_request_to_bedrock_is_signed_with_credentials(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.api = "openai-chat"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", AWS.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", AWS.secret_key)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a session")
    await reply(adapter("bedrock/openai.gpt-oss-120b-1:0"))
    ((path, headers, body),) = cloud.asked
    moment = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    own = {"content-type": headers["content-type"]}
    credentials = msgspec.structs.replace(AWS, session_token="a session")
    expected = signed_headers(credentials, f"{cloud.url}{path}", own, body, "us-east-1", "bedrock", moment)
    assert headers["authorization"] == expected["authorization"]
    assert headers["x-amz-security-token"] == "a session"


async def test_bedrock_without_a_key_says_what_to_set(cloud: Cloud) -> None:
    with pytest.raises(AuthenticationError, match="set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID"):
        await reply(adapter("bedrock/anthropic.claude-opus-5-5"))


# Vertex AI


def test_a_token_is_signed_as_other_programs_sign_it() -> None:
    assert base64.b64encode(rs256(KEY, b"header.claims")).decode() == SIGNED


def service_account(cloud: Cloud, folder: Path, **more: Any) -> str:
    file = folder / "account.json"
    fields = {
        "type": "service_account",
        "project_id": "from-the-file",
        "client_email": "me@example.com",
        "private_key": KEY,
        "private_key_id": "k1",
        "token_uri": f"{cloud.url}/token",
    }
    file.write_text(json.dumps(fields | more))
    return str(file)


async def test_gemini_on_vertex_takes_a_token_for_a_service_account(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.api = "gemini"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", service_account(cloud, tmp_path))
    model = adapter("vertex/gemini-3-pro")
    await reply(model)
    await reply(model)
    paths = [path for path, _, _ in cloud.asked]
    place = "/v1/projects/from-the-file/locations/global/publishers/google/models/gemini-3-pro:streamGenerateContent"
    assert paths == ["/token", place, place], "a token is used until it ends"
    assert cloud.asked[1][1]["authorization"] == "Bearer ya29.fresh"
    assert b"assertion=" in cloud.asked[0][2]


async def test_claude_on_vertex_has_its_model_in_the_url(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERTEX_ACCESS_TOKEN", "ya29.mine")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p1")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west1")
    await reply(adapter("vertex/claude-opus-5-5"))
    ((path, headers, body),) = cloud.asked
    assert path == "/v1/projects/p1/locations/europe-west1/publishers/anthropic/models/claude-opus-5-5:streamRawPredict"
    assert headers["authorization"] == "Bearer ya29.mine"
    assert json.loads(body)["anthropic_version"] == "vertex-2023-10-16"
    assert "model" not in json.loads(body)


async def test_vertex_says_what_is_missing(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p1")
    with pytest.raises(AuthenticationError, match="set GOOGLE_APPLICATION_CREDENTIALS"):
        await reply(adapter("vertex/gemini-3-pro"))
    broken = service_account(cloud, tmp_path, private_key="-----BEGIN PRIVATE KEY-----\nAAAA\n")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", broken)
    with pytest.raises(AuthenticationError, match=r"private key .* cannot be read"):
        await reply(adapter("vertex/gemini-3-pro"))
