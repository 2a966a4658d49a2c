"""HTTP to model APIs: connections that are used again, proxies, certificates, redirects, hosts that are not there."""

from __future__ import annotations

import asyncio
import datetime
import gc
import gzip
import logging
import os
import socket
import ssl
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.errors import AuthenticationError, ProviderError, RequestRefusedError, UnavailableError
from outrider.providers.api import ApiProvider
from outrider.providers.base import Reply, Request
from outrider.providers.transport.http import ErrorResponse, Timeouts, Transport, retry_delay
from outrider.providers.transport.network import CA_VARIABLES
from outrider.runtime.agent import Agent
from outrider.runtime.session import Session
from tests.adapters import ONE_EACH, Case, each
from tests.modelserver import ModelServer, Paced, Status
from tests.streams import Answer

KEY = "hunter2-hunter2-hunter2"
ANSWER = Answer("All is well.")
CLAUDE = ONE_EACH[0]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def ask(provider: ApiProvider) -> Reply:
    async with asyncio.timeout(20):
        items = [item async for item in provider.stream(Request([Message.user("Hello")], MemoryStore()))]
    assert isinstance(items[-1], Reply)
    return items[-1]


def claude(url: str, **options: Any) -> ApiProvider:
    return CLAUDE.adapter(url, key=KEY, **options)


def explained(refusal: ErrorResponse) -> ProviderError:
    return RequestRefusedError(f"{refusal.status}")


# Connections


@pytest.mark.sampled(4)
@each(*ONE_EACH)
@pytest.mark.parametrize("pace", ["whole", "events", "bytes"])
async def test_one_connection_serves_turn_after_turn(case: Case, pace: Any) -> None:
    async with ModelServer([Paced(ANSWER, pace)] * 4) as server:
        provider = case.adapter(server.url, key=KEY)
        for _ in range(4):
            await ask(provider)
        assert [request.connection for request in server.requests] == [1, 1, 1, 1]


async def test_a_connection_is_used_again_after_a_refusal() -> None:
    async with ModelServer([Status(400), ANSWER]) as server:
        provider = claude(server.url)
        with pytest.raises(RequestRefusedError):
            await ask(provider)
        await ask(provider)
        assert server.connections == 1


async def test_a_connection_that_the_server_gave_up_meanwhile_costs_no_reply() -> None:
    async with ModelServer([ANSWER, ANSWER]) as server:
        session = Session(Agent(claude(server.url)))
        await session.run("Hello")
        await server.close()
        await server.open(server.port)
        assert (await session.run("Again")).text == ANSWER.text


async def test_many_first_requests_at_once_each_get_their_answer() -> None:
    async with ModelServer([ANSWER] * 20) as server:
        provider = claude(server.url)
        replies = await asyncio.gather(*(ask(provider) for _ in range(20)))
        assert [reply.text for reply in replies] == [ANSWER.text] * 20


def test_the_end_of_the_event_loop_closes_the_connections(caplog: pytest.LogCaptureFixture) -> None:
    provider = CLAUDE.adapter("unset", key=KEY)

    async def turn() -> str:
        async with ModelServer([ANSWER]) as server:
            provider.base_url = server.url
            return (await ask(provider)).text

    with caplog.at_level(logging.DEBUG):
        # One provider, several event loops one after the other, as in a script that calls think() again and again.
        assert [asyncio.run(turn()) for _ in range(3)] == [ANSWER.text] * 3
        gc.collect()
    assert "Unclosed" not in caplog.text


def test_a_loop_that_ends_in_the_middle_of_a_reply_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def leave() -> None:
        async with ModelServer([Paced(ANSWER, "events")]) as server:
            stream = claude(server.url).stream(Request([Message.user("Hello")], MemoryStore()))
            await anext(stream)

    with caplog.at_level(logging.DEBUG):
        asyncio.run(leave())
        gc.collect()
    assert "Unclosed" not in caplog.text


# Hosts that are not there


async def test_a_port_where_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(UnavailableError, match=rf"127\.0\.0\.1:{port} cannot be reached: ") as raised:
            await ask(claude(f"http://127.0.0.1:{port}"))
    assert raised.value.retryable


async def test_a_host_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(UnavailableError, match=r"no-such-host\.example cannot be reached: Name or service not known"):
        await ask(claude("http://no-such-host.example"))


@each(*ONE_EACH)
@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://files.example", "http://127.0.0.1:99999"])
async def test_a_base_url_that_is_none(case: Case, url: str) -> None:
    with pytest.raises(ProviderError, match="check the base URL"):
        await ask(case.adapter(url, key=KEY))


@each(*ONE_EACH)
async def test_half_an_address_as_base_url(case: Case) -> None:
    with pytest.raises(ProviderError, match="check the base URL"):
        await ask(case.adapter("http://[::1", key=KEY))


async def test_a_server_that_says_nothing_is_not_waited_for_for_ever() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(UnavailableError, match="took too long"):
            await ask(claude(f"http://127.0.0.1:{silent.getsockname()[1]}", timeouts=Timeouts(read=0.05)))


# Keys


@each(*ONE_EACH)
@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_not_accepted_names_its_variable(case: Case, status: int) -> None:
    async with ModelServer([Status(status)]) as server:
        provider = case.adapter(server.url, key=KEY)
        with pytest.raises(AuthenticationError, match=provider.key_variables[0]) as raised:
            await ask(provider)
        assert raised.value.status == status


@each(*ONE_EACH)
async def test_no_key_at_all_names_its_variable_and_asks_nobody(case: Case) -> None:
    provider = case.adapter()
    with pytest.raises(AuthenticationError, match=f"set {provider.key_variables[0]}"):
        await ask(provider)


async def test_a_key_is_taken_from_its_variable_without_the_line_feed_of_its_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"{KEY}\n")
    async with ModelServer([ANSWER]) as server:
        await ask(CLAUDE.adapter(server.url))
        assert server.requests[0].headers["x-api-key"] == KEY


@pytest.mark.parametrize("key", ["schlüssel-schlüssel", "two\nlines-of-a-key", "half \ud83d pair"])
async def test_a_key_that_cannot_be_one_is_said_so_and_not_shown(key: str) -> None:
    async with ModelServer([ANSWER]) as server:
        with pytest.raises(AuthenticationError, match="check ANTHROPIC_API_KEY") as raised:
            await ask(CLAUDE.adapter(server.url, key=key))
        assert (key in str(raised.value), server.requests) == (False, [])


async def test_a_request_has_an_id_for_the_support_of_the_provider() -> None:
    async with ModelServer([Status(400, {"request-id": "req_42"})]) as server:
        with pytest.raises(RequestRefusedError, match=r"\(request req_42\)") as raised:
            await ask(claude(server.url))
        assert raised.value.request_id == "req_42"


# Redirects


@each(*ONE_EACH)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_with_the_key(case: Case, status: int) -> None:
    async with ModelServer([ANSWER]) as elsewhere, ModelServer([Status(status, {"location": elsewhere.url})]) as server:
        with pytest.raises(RequestRefusedError, match="check the base URL"):
            await ask(case.adapter(server.url, key=KEY))
        assert elsewhere.requests == []


# Proxies


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("with_scheme", [True, False])
async def test_the_proxy_of_the_environment_is_used(
    variable: str, with_scheme: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ModelServer([ANSWER]) as proxy:
        monkeypatch.setenv(variable, proxy.url if with_scheme else proxy.url.removeprefix("http://"))
        assert (await ask(claude("http://api.example"))).text == ANSWER.text
        assert [request.path for request in proxy.requests] == ["http://api.example/v1/messages"]


@pytest.mark.parametrize(
    "exempt", ["127.0.0.1", "*", "example.com, 127.0.0.1", "127.0.0.1:PORT", "10.0.0.0/8, x/y, 127.0.0.0/8"]
)
async def test_hosts_that_need_no_proxy_are_asked_directly(exempt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer() as proxy, ModelServer([ANSWER]) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", exempt.replace("PORT", str(server.port)))
        await ask(claude(server.url))
        assert (len(proxy.requests), len(server.requests)) == (0, 1)


@pytest.mark.parametrize("exempt", ["10.0.0.0/8", "127.0.0.1:1", "example.com", "::1/128"])
async def test_other_hosts_are_asked_through_the_proxy(exempt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer([ANSWER]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", exempt)
        await ask(claude("http://127.0.0.1:9"))
        assert len(proxy.requests) == 1


@pytest.mark.parametrize(
    "variables",
    [{}, {"NO_PROXY": "x.example"}, {"HTTPS_PROXY": "P"}, {"HTTP_PROXY": "P", "NO_PROXY": "localhost, 127.1"}],
)
@pytest.mark.parametrize("host", ["localhost", "127.1", "127.0.0.1", "[::ffff:127.0.0.1]"])
async def test_a_private_address_is_refused_whatever_proxies_there_are(
    variables: dict[str, str], host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ModelServer([ANSWER]) as server, ModelServer([ANSWER]) as proxy:
        for name, value in variables.items():
            monkeypatch.setenv(name, proxy.url if value == "P" else value)
        with pytest.raises(ProviderError, match=r"is not a public address|is this machine's own"):
            await Transport(public_only=True).get(f"http://{host}:{server.port}/", {}, explained)
        assert (len(server.requests), len(proxy.requests)) == (0, 0)


@pytest.mark.parametrize(
    "host",
    [
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "127.0.0.1.",
        "１２７.０.０.１",
        "169.254.169.２５４",
        "localhost",
        "printer",
        "x.ｌocal",
    ],
)
async def test_a_proxy_is_not_asked_for_a_private_address(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer([ANSWER]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        with pytest.raises(ProviderError, match="is not a public address"):
            await Transport(public_only=True).get(f"http://{host}/", {}, explained)
        assert proxy.requests == []


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://me:sec/ret@host/v1", "host"),
        ("http://me:secret@host:99999/v1?key=secret", "host:99999"),
        ("http://host:x/v1?key=secret", "host:x"),
        ("http://[::1]:99999/v1?user=secret@x", "[::1]:99999"),
    ],
)
async def test_an_unusable_url_shows_its_host_and_no_secret(url: str, host: str) -> None:
    with pytest.raises(ProviderError) as raised:
        await Transport().get(url, {}, explained)
    assert str(raised.value).startswith(f"{host!r} is not a usable URL; ")


@pytest.mark.parametrize("encoding", ["br", "none", "gzip"])
async def test_a_refusal_keeps_its_status_whatever_its_body_is(encoding: str) -> None:
    async with ModelServer([Status(401, headers={"content-encoding": encoding}, body=b"no such key")]) as server:
        with pytest.raises(ProviderError) as raised:
            await ask(claude(server.url))
        assert "401" in str(raised.value) or "key" in str(raised.value)
        assert not raised.value.retryable


async def test_a_proxy_that_is_not_there_is_said_to_be_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:pass-word@127.0.0.1:1")
    with pytest.raises(UnavailableError, match=r"through the proxy: Connection refused; check") as raised:
        await ask(claude("http://api.example"))
    assert "pass-word" not in str(raised.value)


async def test_a_proxy_that_refuses_to_connect_is_said_to_be_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer([Status(407)]) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("http://", "http://me:pass-word@"))
        with pytest.raises(UnavailableError, match="through the proxy: 407") as raised:
            await ask(claude("https://api.example"))
        assert proxy.requests[0].path == "api.example:443"
        assert "pass-word" not in str(raised.value)


async def test_a_proxy_of_a_kind_that_cannot_be_used_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    with pytest.raises(ProviderError, match="a socks5 proxy is not supported"):
        await ask(claude("http://api.example"))


# Certificates


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    signed = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return files


@pytest.mark.parametrize("variable", CA_VARIABLES)
async def test_a_certificate_is_trusted_if_a_variable_names_its_issuer_and_only_then(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in CA_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    chain, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    async with ModelServer([ANSWER], tls=context) as server:
        with pytest.raises(UnavailableError, match="is not trusted") as raised:
            await ask(claude(server.url))
        assert not raised.value.retryable
        assert server.requests == []
        monkeypatch.setenv(variable, str(chain))
        assert (await ask(claude(server.url))).text == ANSWER.text


async def test_certificates_that_cannot_be_read_are_named_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "gone.pem"))
    provider = claude("https://127.0.0.1:1")
    for _ in range(2):
        with pytest.raises(ProviderError, match="certificates in REQUESTS_CA_BUNDLE"):
            await ask(provider)


# Small questions


async def test_what_nobody_reads_is_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(os.urandom(3_000_000))
    monkeypatch.setattr(zlib, "decompressobj", None)
    async with ModelServer([Status(200, {"content-encoding": "gzip"}, packed), ANSWER]) as server:
        transport = Transport()
        for _ in range(2):
            async with transport.open("GET", server.url, {}) as response:
                assert response.status == 200
        assert server.connections == 1
        await transport.close()


async def test_a_whole_answer_can_be_asked_for() -> None:
    async with ModelServer([Status(200, body=b'{"data": []}'), Status(404)]) as server:
        transport = Transport()
        assert await transport.get(f"{server.url}/v1/models", {}, explained) == b'{"data": []}'
        with pytest.raises(RequestRefusedError, match="404"):
            await transport.get(f"{server.url}/v1/models", {}, explained)


# How long to wait


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after-ms": "20"}, 0.02),
        ({"retry-after-ms": "20", "retry-after": "9"}, 0.02),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 60.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
    ],
)
def test_the_seconds_that_a_server_asks_to_wait(headers: Mapping[str, str], seconds: float | None) -> None:
    assert retry_delay(headers, lambda: 40.0) == seconds
