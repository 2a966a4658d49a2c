"""Hazard: a key in an error, an event or a log, where it is copied into bug reports. Also when a server repeats it."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Iterator

import msgspec
import pytest

from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.errors import ProviderError
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request
from outrider.providers.credentials.secrets import masked
from outrider.providers.transport import http as transport
from outrider.providers.transport.http import Timeouts
from outrider.runtime import retry
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event
from outrider.runtime.session import Session
from tests.adapters import ONE_EACH, Case, each
from tests.modelserver import Broken, Endless, Flood, ModelServer, Page, Raw, Status, Step
from tests.streams import Answer

KEY = "correct-horse-battery-staple-4711"
ANSWER = Answer("All is well.")
HELLO = Request([Message.user("Hello")], MemoryStore())
ECHO = b'{"error": {"type": "invalid_request_error", "message": "wrong key: %b", "code": 400}}' % KEY.encode()

FAULTS: dict[str, Step] = {
    **{str(status): Status(status, body=ECHO) for status in (400, 401, 403, 404, 408, 413, 418, 429, 500, 529)},
    "words": Status(400, body=f"no, not with {KEY}".encode()),
    "headers": Status(400, {"request-id": KEY, "x-request-id": KEY, "retry-after": KEY}, ECHO),
    "redirect": Status(307, {"location": f"http://127.0.0.1:1/?key={KEY}"}, ECHO),
    "page": Page(f"<html>{KEY}</html>"),
    "error event": Raw(b"data: %b\n\n" % ECHO),
    "named error event": Raw(b'event: error\ndata: {"type": "error", %b\n\n' % ECHO[1:]),
    "failed response": Raw(b'data: {"type": "response.failed", "response": %b}\n\n' % ECHO),
    "nonsense": Raw(f"data: {KEY}\n\n".encode()),
    "a field of the wrong kind": Raw(b'data: {"type": ["%b"], "choices": "%b"}\n\n' % (KEY.encode(), KEY.encode())),
    "reset": Broken(ANSWER, "first delta", "reset"),
    "close": Broken(ANSWER, "first delta", "close"),
    "end": Broken(ANSWER, "nothing", "end"),
    "broken off": Broken(ANSWER, "first delta", "error"),
    "flood": Flood(3),
    "silence": Endless(silent=True),
}


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_RESPONSE_BYTES", 1_000_000)
    monkeypatch.setattr(retry.Attempts, "delay_after", once_more)


def once_more(self: retry.Attempts, error: ProviderError, *, shown: bool) -> float | None:
    """One retry of what is retried at all, at once."""
    self.number += 1
    return 0.0 if error.retryable and self.number == 2 else None


def said_by(error: BaseException | None) -> Iterator[str]:
    """All that an error says, and all that it is chained to, whether that would be shown or not."""
    while error is not None:
        yield f"{error} {error!r} {error.args}"
        yield "".join(traceback.format_exception(error))
        yield str(vars(error))
        error = error.__cause__ or error.__context__


async def provoked(provider: ApiProvider) -> list[str]:
    """What the adapter itself says, and what a session with it says."""
    said = [repr(provider), str(provider), provider.name]
    try:
        async for item in provider.stream(HELLO):
            said.append(repr(item))
    except ProviderError as error:
        said += said_by(error)
    events: list[Event] = []
    session = Session(Agent(model=provider), observer=events.append)
    async with asyncio.timeout(20):
        result = await session.run("Hello")
    return [*said, repr(result), msgspec.json.encode(events).decode(), repr(events), repr(session)]


@pytest.mark.sampled(25)
@each(*ONE_EACH)
@pytest.mark.parametrize("fault", FAULTS)
async def test_no_fault_shows_the_key(case: Case, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    asyncio.get_running_loop().set_debug(True)
    with caplog.at_level(logging.DEBUG):
        async with ModelServer([FAULTS[fault]] * 5) as server:
            provider = case.adapter(server.url, key=KEY, timeouts=Timeouts(read=0.05))
            said = await provoked(provider)
            assert any(KEY in str(request.headers) for request in server.requests), "a test of a key needs one"
            assert not any(KEY in request.path for request in server.requests), "URLs end up in logs"
    for text in (*said, caplog.text):
        assert KEY not in text


@each(*ONE_EACH)
@pytest.mark.parametrize("url", ["http://me:{}@127.0.0.1:1", "http://me:{}@h:99999", "me:{}@nonsense", "ftp://me:{}@x"])
async def test_no_password_in_a_url_is_shown(case: Case, url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        said = await provoked(case.adapter(url.format("pass-word-4711"), key=KEY))
    for text in (*said, caplog.text):
        assert KEY not in text
        assert "pass-word-4711" not in text


@each(*ONE_EACH)
async def test_the_key_is_not_in_the_request_that_can_be_looked_at(case: Case) -> None:
    body = case.adapter(key=KEY).render(HELLO)
    assert KEY.encode() not in body


@each(*ONE_EACH)
async def test_a_reply_that_repeats_the_key_is_the_model_s_own_business(case: Case) -> None:
    async with ModelServer([Answer(f"Is it {KEY}?")]) as server:
        items = [item async for item in case.adapter(server.url, key=KEY).stream(HELLO)]
        assert KEY in repr(items[-1])


@pytest.mark.parametrize(
    "key",
    [
        "sk-ant-REDACTED",
        "sk-proj-abcdefghijklmnop",
        "sk-0123456789abcdef",
        "AIzaSyA-0123456789abcdefghijklmnop",
        "gsk_0123456789abcdef",
        "hf_0123456789abcdef",
    ],
)
def test_what_looks_like_a_key_of_a_known_vendor_is_masked_whosever_it_is(key: str) -> None:
    assert masked(f"Incorrect API key provided: {key}.").startswith("Incorrect API key provided: …")
    assert key[8:] not in masked(f"({key})")
