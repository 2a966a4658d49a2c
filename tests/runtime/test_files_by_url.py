"""Files by URL: fetched when they are added, with the address checks of WebFetch, and sent by URL where an API can."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from outrider.conversation.attachments import Attachment, sha256
from outrider.conversation.messages import AttachmentBlock
from outrider.conversation.store import MemoryStore
from outrider.errors import AttachmentError
from outrider.log.log import Log
from outrider.providers.transport import fetching
from outrider.providers.transport.fetching import FetchError, WebResponse, fetched
from outrider.runtime.agent import Agent
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, call
from outrider.tools.tool import tool
from tests.adapters import ONE_EACH, Case, each
from tests.conversations import PNG_BYTES
from tests.modelserver import ModelServer, Status
from tests.streams import Answer

URL = "https://example.com/chart.png"


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> dict[str, WebResponse]:
    """The web: responses by URL. Another URL cannot be fetched."""
    pages = {URL: WebResponse(URL, 200, "OK", "image/png", PNG_BYTES)}

    async def fetch(self: Any, address: str, show: Any = None) -> WebResponse:
        if address not in pages:
            raise FetchError("There is no such host.")
        return pages[address]

    monkeypatch.setattr(fetching.Fetcher, "fetch", fetch)
    return pages


@pytest.mark.parametrize(
    "url", ["http://example.com/a", "https://", "file:///etc/passwd", "https://u:p@example.com/a", "https://[", "a b"]
)
def test_only_https_urls_without_a_password_are_attached(url: str) -> None:
    with pytest.raises(AttachmentError, match="begins with https://"):
        Attachment.from_url(url)


def test_a_file_that_was_not_fetched_is_not_stored() -> None:
    with pytest.raises(AttachmentError, match="was not fetched yet"):
        MemoryStore().put(Attachment.from_url(URL))


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1"])
async def test_a_private_address_is_not_fetched(address: str) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return [address]

    with pytest.raises(AttachmentError, match="not a public address") as caught:
        await fetched(Attachment.from_url(URL), resolve)
    assert "web.private_addresses" not in str(caught.value)


async def test_the_log_has_the_url_and_the_hash(web: dict[str, WebResponse], tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        agent = Agent(ScriptedModel(["A square.", "Again."]))
        session = Session.open(log, agent=agent).now()
        await session.run(["What is it?", Attachment.from_url(URL)])
        session.close()
        web.clear()  # it is not fetched again
        reopened = Session.open(log, session.id, agent).now()
        block = next(each for each in reopened.messages[0].content if isinstance(each, AttachmentBlock))
        assert (block.url, block.sha256, block.mime_type) == (URL, sha256(PNG_BYTES), "image/png")
        assert (block.name, reopened.store.read(block)) == ("chart.png", PNG_BYTES)
        reopened.close()


async def test_the_charset_of_the_server_counts(web: dict[str, WebResponse]) -> None:
    web[URL] = WebResponse(URL, 200, "OK", "text/plain; charset=windows-1251", "Привет".encode("cp1251"))
    session = Session(Agent(ScriptedModel(["A greeting."])))
    await session.run([Attachment.from_url(URL, name="a.txt")])
    block = next(each for each in session.messages[0].content if isinstance(each, AttachmentBlock))
    assert (block.mime_type, session.store.read(block).decode()) == ("text/plain", "Привет")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (WebResponse(URL, 404, "Not Found", "", b"no"), "answered 404 Not Found"),
        (WebResponse(URL, 200, "OK", "", b""), "is empty"),
        (None, "There is no such host"),
    ],
)
async def test_a_file_that_cannot_be_fetched_is_a_sentence(
    web: dict[str, WebResponse], page: WebResponse | None, said: str
) -> None:
    web.clear()
    web.update({URL: page} if page else {})
    with pytest.raises(AttachmentError, match=said):
        await Agent(ScriptedModel(["?"])).run([Attachment.from_url(URL)])

    @tool(effect="read")
    def shoot() -> Attachment:
        """Take a picture."""
        return Attachment.from_url(URL)

    model = ScriptedModel([call("shoot"), "I see none."])
    await Agent(model, tools=[shoot]).run("go")
    (result,) = model.requests[1].messages[-1].tool_results
    assert result.is_error
    assert said in result.text


@pytest.mark.usefixtures("web")
@each(*ONE_EACH)
async def test_the_api_gets_the_url_if_it_can_fetch_it(case: Case) -> None:
    async with ModelServer([Answer("A square.")]) as server:
        await Agent(case.adapter(server.url, key="k")).run(["What is it?", Attachment.from_url(URL)])
    body = server.requests[0].body
    assert (URL.encode() in body) == (case.prefix != "gemini")
    assert (b"iVBORw0KGgo" in body) == (case.prefix == "gemini")


@pytest.mark.usefixtures("web")
@each(*ONE_EACH[:3])
async def test_the_bytes_follow_if_the_api_cannot_fetch_it(case: Case) -> None:
    refusal = Status(400, body=b'{"error": {"message": "Unable to download the file at the URL."}}')
    async with ModelServer([refusal, Answer("A square.")]) as server:
        result = await Agent(case.adapter(server.url, key="k")).run(["What is it?", Attachment.from_url(URL)])
    assert result.text == "A square."
    assert b"iVBORw0KGgo" in server.requests[1].body
    assert URL.encode() not in server.requests[1].body
