"""Who may use the page, and what the server says to everyone else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession, DummyCookieJar
from aiohttp.test_utils import TestServer
from yarl import URL

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import AttachmentBlock
from outrider.log.entries import CallResult
from outrider.log.log import Log
from outrider.sync import default_log
from outrider.testing import call
from outrider.web.access import HEADERS, LINK_SECONDS, Access
from outrider.web.aiohttp_front import AiohttpFront
from outrider.web.opener import CodingOpener
from outrider.web.owners import ServerLimits
from outrider.web.server import Server
from tests.web.logs import prints, session


class Client:
    """Sends requests with exactly the headers that a test gives."""

    def __init__(self, http: ClientSession, access: Access, origin: str) -> None:
        self._http = http
        self.access = access
        self.origin = origin
        self.cookie = ""

    async def get(self, path: str, method: str = "GET", **headers: str) -> ClientResponse:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            sent.setdefault("Cookie", self.cookie)
        url = URL(f"{self.origin}{path}", encoded=True)
        async with self._http.request(method, url, headers=sent, allow_redirects=False) as response:
            await response.read()
            return response

    async def enter(self) -> ClientResponse:
        link = self.access.new_link(self.origin)
        response = await self.get(link.removeprefix(self.origin))
        found = SimpleCookie(response.headers["Set-Cookie"])
        self.cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in found.items())
        return response


def stored_file(log: Log, name: str) -> AttachmentBlock:
    """Return the file that the tool of a session has attached."""
    results = [each.entry.result for each in log.records(name) if isinstance(each.entry, CallResult)]
    return results[0].attachments[0]


@pytest.fixture
def log() -> Log:
    return default_log()


@pytest.fixture
async def client(log: Log) -> AsyncIterator[Client]:
    access = Access()
    served = Server(log, CodingOpener(log), ServerLimits(), is_shared=False)
    async with TestServer(AiohttpFront(served, access).app()) as server:
        origin = f"http://127.0.0.1:{server.port}"
        access.origins = [origin]
        async with ClientSession(cookie_jar=DummyCookieJar()) as http:
            yield Client(http, access, origin)
    log.close()


async def test_a_link_lets_one_browser_in_once(client: Client) -> None:
    link = client.access.new_link(client.origin).removeprefix(client.origin)
    assert (await client.get("/")).status == 401
    assert (await client.get(f"{client.access.path}/api/v1/sessions")).status == 401
    first = await client.get(link)
    assert (first.status, first.headers["Location"]) == (303, f"{client.access.path}/")
    assert (await client.get(link)).status == 403  # replayed
    cookie = first.headers["Set-Cookie"]
    for part in ("HttpOnly", "SameSite=Strict", f"Path={client.access.path}/"):
        assert part in cookie
    client.cookie = cookie.partition(";")[0]
    assert (await client.get(f"{client.access.path}/api/v1/sessions")).status == 200


@pytest.mark.parametrize("token", ["", "x", "é", "a" * 2_000])
async def test_a_wrong_token_lets_nobody_in(client: Client, token: str) -> None:
    client.access.new_link(client.origin)
    response = await client.get(f"/?token={URL.build(path=token).raw_path}")
    assert response.status == 403
    assert "Set-Cookie" not in response.headers


async def test_a_link_that_nobody_used_expires() -> None:
    now = [0.0]
    access = Access(now=lambda: now[0])
    token = access.new_link("http://127.0.0.1:1").partition("=")[2]
    now[0] = LINK_SECONDS + 1
    assert access.use_link(token) is None


async def test_a_wrong_cookie_lets_nobody_in(client: Client) -> None:
    await client.enter()
    name = client.cookie.partition("=")[0]
    assert (await client.get(f"{client.access.path}/", Cookie=f"{name}=guess")).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_requests_from_elsewhere_are_refused(client: Client, headers: dict[str, str], method: str) -> None:
    await client.enter()
    for path in (
        "/",
        f"{client.access.path}/",
        f"{client.access.path}/api/v1/sessions",
        f"{client.access.path}/api/v1/links",
    ):
        assert (await client.get(path, method, **headers)).status == 403


async def test_a_change_needs_to_say_where_it_comes_from(client: Client) -> None:
    await client.enter()
    path = f"{client.access.path}/api/v1/links"
    assert (await client.get(path, "POST")).status == 403
    assert (await client.get(path, "POST", Origin=client.origin)).status == 200
    assert (await client.get(path, "POST", Sec_Fetch_Site="same-origin")).status == 200


async def test_every_response_forbids_scripts_of_others(client: Client) -> None:
    responses = [await client.get("/"), await client.get("/nothing"), await client.enter()]
    for path in ("/", "/page/app.js", "/page/nothing.js", "/api/v1/sessions", "/api/v1/sessions/none", "/api/v1/links"):
        responses.append(await client.get(client.access.path + path))
    for response in responses:
        for name, value in HEADERS.items():
            assert response.headers[name] == value, (response.url, name)
        assert "unsafe" not in response.headers["Content-Security-Policy"]
        assert "Server" not in response.headers


@pytest.mark.parametrize(
    "name", ["../access.py", "..%2faccess.py", "%2e%2e/access.py", "vendor/../../access.py", "a\\b.js", "."]
)
async def test_only_files_of_the_page_are_served(client: Client, name: str) -> None:
    await client.enter()
    assert (await client.get(f"{client.access.path}/page/{name}")).status == 404


@pytest.mark.parametrize(
    ("name", "mime_type", "data"),
    [
        ("evil.svg", "image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
        ("evil.html", "text/html", b"<script>alert(1)</script>"),
        ("evil.pdf", "application/pdf", b"%PDF-1.4 <script>alert(1)</script>"),
    ],
)
async def test_files_that_may_hold_scripts_are_downloads(
    client: Client, log: Log, name: str, mime_type: str, data: bytes
) -> None:
    file = Attachment(data, mime_type, name)
    found = await session(log, "Look", [[call("look")], "Seen."], tools=[prints("here", file)])
    stored = stored_file(log, found)
    await client.enter()
    for query in ("", f"?type={mime_type}", "?name=evil.html", f"?type={mime_type}&name=x", "?type=image/png&name=x"):
        response = await client.get(f"{client.access.path}/api/v1/sessions/{found}/files/{stored.sha256}{query}")
        assert response.status == 200
        assert response.headers["Content-Type"] == "application/octet-stream"
        assert response.headers["Content-Disposition"].startswith("attachment")
        assert "sandbox" in response.headers["Content-Security-Policy"]


async def test_a_session_shows_only_its_own_files(client: Client, log: Log) -> None:
    file = Attachment(b"secret", "text/plain", "a.txt")
    owner = await session(log, "Look", [[call("look")], "Seen."], tools=[prints("here", file)])
    other = await session(log, "Nothing", ["Nothing."])
    stored = stored_file(log, owner)
    await client.enter()
    path = f"{client.access.path}/api/v1/sessions/{{}}/files/{stored.sha256}"
    assert (await client.get(path.format(owner))).status == 200
    assert (await client.get(path.format(other))).status == 404


async def test_bad_requests_are_explained(client: Client, log: Log) -> None:
    name = await session(log, "Hello", ["Hello."])
    await client.enter()
    api = f"{client.access.path}/api/v1"
    one = f"{api}/sessions/{name}"
    for path in (
        *(f"{api}/sessions?offset=x", f"{api}/figures/colour"),
        *(f"{api}/sessions?offset={10**30}", f"{one}/entries?before={10**30}"),
    ):
        assert (await client.get(path)).status == 400
    response: Any = await client.get(f"{api}/sessions/doesnotexist")
    assert response.status == 404
