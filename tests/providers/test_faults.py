"""Each adapter and each fault: a reply, a retry that succeeds, or a typed error. Never a hang, nor half a reply."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from email.utils import formatdate
from typing import Any

import pytest

from outrider.conversation.history import violations
from outrider.conversation.messages import Message
from outrider.conversation.store import MemoryStore
from outrider.errors import (
    AuthenticationError,
    ContextExceededError,
    IncompleteStreamError,
    ProviderError,
    RequestRefusedError,
)
from outrider.providers.api import ApiProvider
from outrider.providers.base import Reply, Request
from outrider.providers.transport import http as transport
from outrider.providers.transport.http import Timeouts
from outrider.runtime import retry
from outrider.runtime.agent import Agent
from outrider.runtime.events import Event, ReplyDiscarded, Retrying, RunFinished, TextDelta
from outrider.runtime.retry import Retry
from outrider.runtime.session import Session
from tests.adapters import ONE_EACH, Case, each
from tests.conversations import THOUGHTFUL
from tests.modelserver import Broken, Endless, Flood, Held, ModelServer, Paced, Page, Raw, Status, Step
from tests.streams import Answer
from tests.waits import Waits, without_waiting

KEY = "hunter2-hunter2-hunter2"
ANSWER = Answer("All is well.")
EVERY_API = each(*ONE_EACH)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    return without_waiting(monkeypatch)


def adapter(case: Case, server: ModelServer, **options: Any) -> ApiProvider:
    return case.adapter(server.url, key=KEY, **options)


class Talk:
    """A session with a server, and what its observers saw."""

    def __init__(self, case: Case, server: ModelServer, *, retry: Retry | None = None, **options: Any) -> None:
        self.events: list[Event] = []
        agent = Agent(model=adapter(case, server, **options), retry=retry or Retry())
        self.session = Session(agent, observer=self.events.append)

    async def says(self, prompt: str = "Hello") -> str:
        """The status of a run, which never takes long."""
        async with asyncio.timeout(20):
            result = await self.session.run(prompt)
        assert violations(self.session.history.sendable()) == []
        return result.status

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


async def ask(provider: ApiProvider) -> Reply:
    """One request without a session: what the adapter itself does."""
    async with asyncio.timeout(20):
        items = [item async for item in provider.stream(Request([Message.user("Hello")], MemoryStore()))]
    assert isinstance(items[-1], Reply)
    return items[-1]


# What passes


PASSING: dict[str, Step] = {
    "429": Status(429),
    "408": Status(408),
    "409": Status(409),
    "500": Status(500, body=b""),
    "529": Status(529, {"content-type": "text/html"}, b"<h1>overloaded</h1>"),
    "400 that asks to be retried": Status(400, {"x-should-retry": "true"}),
    "a reset before anything": Broken(ANSWER, "nothing", "reset"),
    "a reset before the first words": Broken(ANSWER, "preamble", "reset"),
    "a close before anything": Broken(ANSWER, "nothing", "close"),
    "an end before anything": Broken(ANSWER, "nothing", "end"),
    "an end before the first words": Broken(ANSWER, "preamble", "end"),
    "an error before the first words": Broken(ANSWER, "preamble", "error"),
    "comments and nothing else": Raw(b": thinking\n\n: still thinking\n\n"),
}


@EVERY_API
@pytest.mark.parametrize("fault", PASSING)
async def test_a_fault_that_passes_is_retried_until_the_reply_comes(case: Case, fault: str, waits: Waits) -> None:
    async with ModelServer([PASSING[fault], PASSING[fault], ANSWER]) as server:
        talk = Talk(case, server)
        assert await talk.says() == "done"
        assert talk.session.messages[-1].text == ANSWER.text
        assert len(server.requests) == 3
        assert server.requests[0].body == server.requests[2].body
        assert waits == [event.delay for event in talk.events if isinstance(event, Retrying)]
        assert len(waits) == 2
        shown = "".join(event.text for event in talk.events if isinstance(event, TextDelta))
        assert shown == ANSWER.text, "nothing had to be discarded"


@EVERY_API
async def test_retries_wait_longer_each_time_and_end_after_minutes(case: Case, waits: Waits) -> None:
    async with ModelServer([Status(503)] * 40) as server:
        talk = Talk(case, server)
        assert await talk.says() == "error"
        assert all(0.5 * 2**n * 0.7 <= wait <= 0.5 * 2**n * 1.3 for n, wait in enumerate(waits[:6]))
        assert all(30 * 0.7 <= wait <= 30 * 1.3 for wait in waits[6:-1])
        assert sum(waits) == pytest.approx(300), "the last attempt is at the end of the time"
        assert len(server.requests) == len(waits) + 1
        assert talk.session.messages == [Message.user("Hello")]
        assert str(talk.events[-1]).count("is not available") == 1
        assert f"tried {len(server.requests)} times, try again later" in str(talk.events[-1])


async def test_the_time_for_retries_can_be_set(waits: Waits) -> None:
    async with ModelServer([Status(503)] * 9) as server:
        assert await Talk(ONE_EACH[0], server, retry=Retry(seconds=0)).says() == "error"
        assert (len(server.requests), waits) == (1, [])
        assert await Talk(ONE_EACH[0], server, retry=Retry(seconds=3)).says() == "error"
        assert sum(waits) == pytest.approx(3)


@EVERY_API
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"Retry-After-Ms": "250", "Retry-After": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3.0),
    ],
)
async def test_a_retry_waits_as_long_as_the_server_says(
    case: Case, headers: dict[str, str], seconds: float, waits: Waits
) -> None:
    async with ModelServer([Status(429, headers), ANSWER]) as server:
        assert await Talk(case, server).says() == "done"
        assert waits == [seconds]


async def test_a_retry_waits_until_the_date_that_the_server_names(waits: Waits) -> None:
    async with ModelServer([Status(503, {"retry-after": formatdate(time.time() + 60, usegmt=True)}), ANSWER]) as server:
        await Talk(ONE_EACH[0], server).says()
        assert len(waits) == 1
        assert 50 < waits[0] <= 60


async def test_a_server_that_asks_for_no_delay_is_not_flooded(waits: Waits) -> None:
    async with ModelServer([Status(429, {"retry-after": "0"})] * 40) as server:
        assert await Talk(ONE_EACH[0], server).says() == "error"
        assert waits[:4] == [0.0] * 4
        assert len(server.requests) < 25


async def test_a_port_where_nobody_listens_is_tried_for_seconds_only(waits: Waits) -> None:
    async with ModelServer() as server:
        pass
    talk = Talk(ONE_EACH[0], server)
    assert await talk.says() == "error"
    assert sum(waits) == pytest.approx(transport.REFUSED_SECONDS)


@EVERY_API
@pytest.mark.parametrize("headers", [{"retry-after": "3600"}, {"x-should-retry": "false"}])
async def test_a_server_that_wants_no_retry_soon_gets_none(case: Case, headers: dict[str, str], waits: Waits) -> None:
    async with ModelServer([Status(429, headers), ANSWER]) as server:
        talk = Talk(case, server)
        assert await talk.says() == "error"
        assert "no luck" in str(talk.events[-1])
        assert (len(server.requests), waits) == (1, [])


# What does not pass


LASTING: dict[str, tuple[Step, type[ProviderError], str]] = {
    "400": (Status(400), RequestRefusedError, "no luck"),
    "403": (Status(403), AuthenticationError, "check"),
    "404": (Status(404), RequestRefusedError, "check its name"),
    "413": (Status(413), ContextExceededError, "fewer or smaller files"),
    "418 with nonsense": (Status(418, body=b"\xff" * 2000), RequestRefusedError, "refused"),
    "400 with a deep body": (Status(400, body=b"[" * 50_000), RequestRefusedError, "refused"),
    "a web page": (Page(), ProviderError, "web page, not with a reply"),
    "a redirect": (Status(307, {"location": "https://elsewhere.example/"}), RequestRefusedError, "check the base URL"),
}


@EVERY_API
@pytest.mark.parametrize("fault", LASTING)
async def test_a_fault_that_lasts_is_a_typed_error_that_says_what_to_do(case: Case, fault: str, waits: Waits) -> None:
    step, kind, words = LASTING[fault]
    async with ModelServer([step, ANSWER]) as server:
        with pytest.raises(kind, match=words) as raised:
            await ask(adapter(case, server))
        assert type(raised.value) is kind
        assert (len(server.requests), waits) == (1, [])


@EVERY_API
@pytest.mark.parametrize("how", ["reset", "close", "end", "error"])
@pytest.mark.parametrize("after", ["first delta", "all but the end"])
async def test_a_reply_that_breaks_off_is_discarded_and_asked_for_again(
    case: Case, how: Any, after: Any, waits: Waits
) -> None:
    async with ModelServer([Broken(ANSWER, after, how), Broken(ANSWER, after, how), ANSWER]) as server:
        talk = Talk(case, server)
        assert await talk.says() == "done"
        assert (len(server.requests), len(waits)) == (3, 2)
        assert len({request.body for request in server.requests}) == 1
        assert [message.text for message in talk.session.messages] == ["Hello", ANSWER.text]
        assert shown_at_the_end(talk.events) == ANSWER.text
        kinds = [type(event) for event in talk.events if isinstance(event, ReplyDiscarded | Retrying)]
        assert kinds == [ReplyDiscarded, Retrying] * 2


@EVERY_API
async def test_streams_that_always_break_off_end_the_run_with_one_error_and_the_session_goes_on(
    case: Case, waits: Waits
) -> None:
    async with ModelServer([Broken(ANSWER, "first delta", "end")] * 6 + [ANSWER]) as server:
        talk = Talk(case, server)
        assert await talk.says() == "error"
        assert len(server.requests) == retry.MAX_BROKEN + 1
        assert shown_at_the_end(talk.events) == ""
        assert talk.session.messages == [Message.user("Hello")]
        assert await talk.says("Once more") == "done"
        assert talk.session.messages[-1].text == ANSWER.text


async def test_a_part_of_a_reply_gives_the_time_for_retries_anew(waits: Waits) -> None:
    late = [Status(503, {"retry-after": "250"}), Broken(ANSWER, "first delta", "reset")]
    async with ModelServer([*late, *late, ANSWER]) as server:
        assert await Talk(ONE_EACH[0], server).says() == "done"
        assert sum(waits) > 500


def shown_at_the_end(events: Sequence[Event]) -> str:
    """The text that an observer shows who heeds what is discarded."""
    shown = ""
    for event in events:
        if isinstance(event, TextDelta):
            shown += event.text
        elif isinstance(event, ReplyDiscarded):
            shown = ""
    return shown


@EVERY_API
@pytest.mark.parametrize("how", ["reset", "close", "end"])
async def test_a_reply_that_breaks_off_is_torn(case: Case, how: Any) -> None:
    async with ModelServer([Broken(ANSWER, "first delta", how)]) as server:
        with pytest.raises(IncompleteStreamError):
            await ask(adapter(case, server))


@EVERY_API
async def test_an_error_after_a_good_beginning_is_told(case: Case) -> None:
    async with ModelServer([Broken(ANSWER, "first delta", "error")]) as server:
        with pytest.raises(ProviderError, match="Overloaded"):
            await ask(adapter(case, server))


# What does not end


@EVERY_API
@pytest.mark.parametrize("silent", [True, False], ids=["silence", "comments"])
async def test_a_stream_that_never_ends_does(case: Case, silent: bool) -> None:
    patience = Timeouts(read=0.05) if silent else Timeouts(total=0.1)
    async with ModelServer([Endless(silent), ANSWER]) as server:
        talk = Talk(case, server, timeouts=patience, retry=Retry(seconds=0))
        assert await talk.says() == "error"
        assert isinstance(talk.events[-1], RunFinished)
        assert "took too long" in talk.events[-1].error
        await asyncio.wait_for(server.left.wait(), 60)


@EVERY_API
@pytest.mark.parametrize("one_line", [True, False], ids=["one line", "many events"])
async def test_an_answer_that_is_too_large_is_not_read_to_its_end(
    case: Case, one_line: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_RESPONSE_BYTES", 3_000_000)
    async with ModelServer([Flood(8, one_line), ANSWER]) as server:
        talk = Talk(case, server)
        assert await talk.says() == "error"
        assert talk.session.messages == [Message.user("Hello")]
        assert await talk.says("Once more") == "done"


async def test_a_hundred_megabytes_are_refused() -> None:
    async with ModelServer([Flood(100)]) as server:
        with pytest.raises(ProviderError, match="too large for a reply"):
            await ask(adapter(ONE_EACH[0], server))


async def test_a_line_of_a_hundred_megabytes_is_refused() -> None:
    async with ModelServer([Flood(100, one_line=True)]) as server:
        with pytest.raises(ProviderError, match="too large"):
            await ask(adapter(ONE_EACH[0], server))


# What comes when


@EVERY_API
@pytest.mark.parametrize("pace", ["whole", "events", "bytes"])
async def test_a_reply_is_the_same_at_every_pace(case: Case, pace: Any) -> None:
    async with ModelServer([Paced(THOUGHTFUL, pace), THOUGHTFUL]) as server:
        provider = adapter(case, server)
        slow, whole = await ask(provider), await ask(provider)
        assert slow == whole
        assert [(call.name, call.input) for call in slow.message.tool_calls] == [
            ("read", {"path": "a.txt"}),
            ("look", {}),
        ]
        assert slow.text == THOUGHTFUL.text
        assert (slow.usage.input_tokens, slow.usage.output_tokens, slow.usage.cached_tokens) == (19, 7, 5)


@EVERY_API
async def test_the_first_delta_is_there_before_the_second_chunk_is_sent(case: Case) -> None:
    async with ModelServer([Held(ANSWER)]) as server:
        stream = adapter(case, server).stream(Request([Message.user("Hello")], MemoryStore()))
        first = await asyncio.wait_for(anext(stream), 60)
        assert first == TextDelta(ANSWER.halves[0])
        assert server.held.is_set()
        server.release.set()
        rest = [item async for item in stream]
        assert rest[0] == TextDelta(ANSWER.halves[1])
        assert isinstance(rest[-1], Reply)


@EVERY_API
async def test_a_cancel_in_the_middle_closes_the_connection_and_keeps_the_words(case: Case) -> None:
    async with ModelServer([Held(ANSWER), Answer("Gladly.")]) as server:
        talk = Talk(case, server)
        talk.session.observe(lambda event: talk.session.cancel() if event == TextDelta(ANSWER.halves[0]) else None)
        assert await talk.says() == "cancelled"
        await asyncio.wait_for(server.left.wait(), 60)
        assert talk.session.messages[1].text.startswith(ANSWER.halves[0])
        assert await talk.says("Go on") == "done"
        assert ANSWER.halves[0].strip().encode() in server.requests[1].body


@EVERY_API
async def test_a_cancel_while_it_waits_for_a_retry_ends_at_once(case: Case) -> None:
    async with ModelServer([Status(429, {"retry-after": "100"}), ANSWER]) as server:
        talk = Talk(case, server)
        talk.session.observe(lambda event: talk.session.cancel() if isinstance(event, Retrying) else None)
        assert await talk.says() == "cancelled"
        assert len(server.requests) == 1


@EVERY_API
async def test_a_stream_that_is_left_early_closes_its_connection(case: Case) -> None:
    async with ModelServer([Held(ANSWER)]) as server:
        stream = adapter(case, server).stream(Request([Message.user("Hello")], MemoryStore()))
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        await asyncio.wait_for(server.left.wait(), 60)
