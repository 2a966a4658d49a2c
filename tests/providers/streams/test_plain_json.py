"""A server that does not stream although it was asked to: its plain JSON is the same reply."""

from __future__ import annotations

import pytest

from outrider.errors import IncompleteStreamError, ProviderError, UnavailableError
from outrider.providers.base import Reply, StopReason
from tests.adapters import ONE_EACH, Case, each, heard
from tests.conversations import THOUGHTFUL
from tests.modelserver import ModelServer, Raw
from tests.providers.test_faults import Talk
from tests.streams import Answer, stream_of, whole_of

WITHOUT_STREAM = each(*(case for case in ONE_EACH if case.prefix in ("anthropic", "openai")))


@WITHOUT_STREAM
@pytest.mark.parametrize("answer", [Answer("All is well."), THOUGHTFUL], ids=["text", "calls"])
def test_plain_json_is_the_reply_that_a_stream_would_be(case: Case, answer: Answer) -> None:
    plain, streamed = (
        heard(case.adapter(), whole_of(case.api, answer)),
        heard(case.adapter(), *stream_of(case.api, answer)),
    )
    assert plain[-1] == streamed[-1]
    assert [type(item) for item in plain] != [Reply], "its parts are shown, too"


@WITHOUT_STREAM
async def test_it_is_asked_for_once(case: Case) -> None:
    async with ModelServer([Raw(whole_of(case.api, Answer("All is well.")))]) as server:
        talk = Talk(case, server)
        assert await talk.says() == "done"
        assert (talk.session.messages[-1].text, len(server.requests)) == ("All is well.", 1)


@WITHOUT_STREAM
def test_half_of_it_is_a_broken_stream(case: Case) -> None:
    whole = whole_of(case.api, THOUGHTFUL)
    with pytest.raises(IncompleteStreamError) as raised:
        heard(case.adapter(), whole[: len(whole) // 2])
    assert raised.value.retryable


def test_a_response_that_was_cut_off_or_failed_says_so() -> None:
    openai = ONE_EACH[1].adapter()
    cut = whole_of("openai", Answer("Half")).replace(b'"completed"', b'"incomplete"')
    cut = cut.replace(b'"incomplete_details":null', b'"incomplete_details":{"reason":"max_output_tokens"}')
    reply = heard(openai, cut)[-1]
    assert isinstance(reply, Reply)
    assert (reply.text, reply.stop_reason) == ("Half", StopReason.MAX_TOKENS)
    failed = b'{"object":"response","status":"failed","output":[],"error":{"code":"server_error","message":"oops"}}'
    with pytest.raises(UnavailableError, match="oops"):
        heard(openai, failed)
    with pytest.raises(ProviderError, match="Overloaded"):
        heard(ONE_EACH[0].adapter(), b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}')
