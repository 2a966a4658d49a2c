"""Requests made from the OpenAPI document, with values that nobody expects: each gets an answer that it names."""

from __future__ import annotations

import asyncio
import json
import random
import string
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from yarl import URL

from outrider import Agent
from outrider.log.log import Log
from outrider.sync import default_log
from outrider.testing import call
from outrider.web.access import Access
from outrider.web.aiohttp_front import AiohttpFront
from outrider.web.opener import AgentOpener
from outrider.web.owners import ServerLimits
from outrider.web.server import Server
from tests.web.logs import prints, session

TOKEN = "a-token-of-programs-00"
HOSTILE = (
    *("", " ", "0", "-1", "1e309", "NaN", str(10**30), str(2**63), "true", "null", "\0", "\x1b[31m", "../..", "%00"),
    *("'; DROP TABLE session; --", '"', '"*', "a AND", "\u202e", "\ud800", "\U0001f600", "x" * 5_000, "data", "view"),
    *("day", "12.345", "12.", "=", "a=b", "\x00=\x00", "image/svg+xml", "anthropic/none", "demo", "/", "once"),
)


class Fuzzer:
    """Makes one request after another from the document."""

    def __init__(self, document: Any, known: list[str], seed: int) -> None:
        self._document = document
        self._known = known
        self._random = random.Random(seed)
        self.operations = [
            (path, method, found) for path, each in document["paths"].items() for method, found in each.items()
        ]

    def text(self) -> str:
        kind = self._random.random()
        if kind < 0.4:
            return self._random.choice(self._known)
        if kind < 0.9:
            return self._random.choice(HOSTILE)
        return "".join(self._random.choices(string.printable, k=self._random.randrange(30)))

    def value(self, depth: int = 0) -> Any:
        plain = [self.text(), None, True, -1, 10**30, 1.5, [], {}]
        if depth < 3 and self._random.random() < 0.3:
            plain = [[self.value(depth + 1)], {self.text(): self.value(depth + 1)}]
        return self._random.choice(plain)

    def request(self) -> tuple[str, str, str, Any]:
        """Return the path of the operation, its method, an address and a body."""
        path, method, found = self._random.choice(self.operations)
        address, query = path, []
        for each in found["parameters"]:
            if each["in"] == "path":
                wanted = str(self._random.randrange(12)) if each["schema"].get("type") == "integer" else self.text()
                address = address.replace(f"{{{each['name']}}}", quote(wanted or "-", safe="", errors="replace"))
            elif each["in"] == "query" and self._random.random() < 0.4:
                query.append(f"{each['name']}={quote(self.text(), safe='', errors='replace')}")
        body = None
        if "requestBody" in found:
            name = found["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            schema = self._document["components"]["schemas"][name]
            names = [each for each in schema["properties"] if self._random.random() < 0.6]
            names += schema.get("required", []) if self._random.random() < 0.7 else []
            body = {each: self.text() if self._random.random() < 0.6 else self.value() for each in names}
            body = self.value() if self._random.random() < 0.1 else body
        return path, method, f"{address}?{'&'.join(query)}", body


async def known_texts(log: Log) -> list[str]:
    """Return ids and words of sessions that are there."""
    from outrider.conversation.attachments import Attachment

    file = Attachment(b"%PDF-1.4 no pdf", "application/pdf", "a.pdf")
    first = await session(log, "Look", [[call("look")], "Seen."], tools=[prints("here", file)])
    second = await session(log, "An elephant", ["Yes."])
    stored = [each for each in map(str, log.records(first)) if "sha256" in each]
    return [first, second, "elephant", stored[0].partition("sha256='")[2][:64]]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [300, pytest.param(6_000, marks=pytest.mark.long)])
async def test_no_request_makes_the_server_fail(count: int) -> None:
    with default_log() as log:
        known = await known_texts(log)
        access = Access([(TOKEN, "")])
        opener = AgentOpener(log, Agent("demo"))
        server = Server(log, opener, ServerLimits(10**6, 10**6, 10**6), is_shared=False)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with TestServer(AiohttpFront(server, access).app()) as served, aiohttp.ClientSession() as http:
            origin = f"http://127.0.0.1:{served.port}"
            access.origins = [origin]
            async with http.get(f"{origin}/openapi.json") as found:
                fuzzer = Fuzzer(await found.json(), known, seed=count)
            seen: set[tuple[str, int]] = set()
            for _ in range(count):
                path, method, address, body = fuzzer.request()
                if len(address) > 8_000:  # the parser of the server refuses it
                    continue
                sent = {"headers": headers, "data": json.dumps(body)} if body is not None else {"headers": headers}
                sent["headers"] = headers | {"Content-Type": "application/json"}  # type: ignore[assignment]
                url = URL(f"{origin}{address}", encoded=True)
                async with asyncio.timeout(60), http.request(method, url, **sent) as response:  # type: ignore[arg-type]
                    operation = fuzzer._document["paths"][path][method]
                    assert str(response.status) in operation["responses"], (method, address, body, response.status)
                    if response.status >= 400:
                        assert (await response.json())["error"], address
                    seen.add((operation["operationId"], response.status))
            assert len({name for name, _ in seen}) > len(fuzzer.operations) * 0.9
            assert sum(status < 300 for _, status in seen) > 10
