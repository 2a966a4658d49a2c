"""The HTTP library of the program parses certificates when a connection needs them, and verifies as it always does."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from pathlib import Path

import pytest

from tests.cli.program import clean_environment
from tests.modelserver import Answer, ModelServer
from tests.providers.test_transport import certificate

ASK = """
import asyncio, os, ssl, sys
from outrider.cli.late_certificates import defer_certificates

defer_certificates()
import aiohttp

async def ask(url, **options):
    async with aiohttp.ClientSession() as session:
        try:
            async with session.post(url, data=b"{}", **options) as response:
                return "answered"
        except aiohttp.ClientConnectorCertificateError:
            return "not trusted"

async def ask_in_turn(url, chain):
    print(await ask(url))
    print(await ask(url, ssl=ssl.create_default_context(cafile=chain)))
    print(await ask(url, ssl=False))

url, chain, is_trusted = sys.argv[1:]
if is_trusted:
    os.environ["SSL_CERT_FILE"] = chain  # only a context that has parsed nothing yet looks at it
asyncio.run(ask_in_turn(url, chain))
print(aiohttp.connector.ssl is ssl, aiohttp.connector.SSLContext is ssl.SSLContext)
"""


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_the_default_context_trusts_what_the_system_trusts(tmp_path: Path, is_trusted: bool) -> None:
    chain, key = certificate(tmp_path)
    async with ModelServer([Answer("Hello")] * 3, tls=_server_context(chain, key)) as server:
        said = await _output("-c", ASK, f"{server.url}/v1/messages", str(chain), "1" if is_trusted else "")
    first = "answered" if is_trusted else "not trusted"
    assert said.splitlines() == [first, "answered", "answered", "True True"]


async def test_the_program_refuses_a_server_that_is_not_trusted(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    async with ModelServer([Answer("Hello")], tls=_server_context(chain, key)) as server:
        said = await _output("-m", "outrider", "-p", "Hello", "--model", f"{server.url}/v1#any", home=tmp_path)
        assert server.requests == []
    assert "is not trusted" in said


def test_contexts_wait_with_the_settings_that_python_gives_them() -> None:
    from outrider.cli.waiting_context import WaitingContext, ssl_that_waits

    context, usual = ssl_that_waits().create_default_context(), ssl.create_default_context()
    assert isinstance(context, WaitingContext)
    for name in ("verify_mode", "check_hostname", "verify_flags", "options", "protocol", "minimum_version"):
        assert getattr(context, name) == getattr(usual, name)
    assert context.cert_store_stats() == usual.cert_store_stats()


def _server_context(chain: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    return context


async def _output(*arguments: str, home: Path | None = None) -> str:
    """What a fresh process writes, while the server answers on this event loop."""
    environment = clean_environment() | ({"OUTRIDER_HOME": os.fspath(home)} if home else {})
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        environment.pop(name, None)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
    )
    written, _ = await process.communicate()
    return written.decode()
