"""Hazard: a stream that is cut off anywhere, or in which a value is not what it should be. Never half a reply."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from outrider.errors import IncompleteStreamError, ProviderError
from outrider.providers.api import ApiProvider
from outrider.providers.base import Reply
from tests.adapters import ONE_EACH, Case, each, heard
from tests.conversations import THOUGHTFUL
from tests.providers.test_server_tools import STREAMS as SERVER_TOOLS
from tests.streams import stream_of


def mutations(events: list[bytes]) -> Iterator[bytes]:
    """The stream with one value in it replaced by another that does not belong there, again and again."""
    strangers: list[Any] = [None, 5, "x", [], {}, [None], [{}], {"x": 5}, 10**30]
    for number, event in enumerate(events):
        head, _, text = event.partition(b"data: ")
        if text.startswith(b"{"):
            value = msgspec.json.decode(text)
            for path in paths(value):
                for stranger in strangers:
                    changed = b"%bdata: %b\n\n" % (head, msgspec.json.encode(replaced(value, path, stranger)))
                    yield b"".join((*events[:number], changed, *events[number + 1 :]))


def paths(value: Any) -> Iterator[tuple[Any, ...]]:
    yield ()
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from ((key, *rest) for rest in paths(inner))


def replaced(value: Any, path: tuple[Any, ...], stranger: Any) -> Any:
    if not path:
        return stranger
    changed = copy.copy(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], stranger)
    return changed


def outcome(provider: ApiProvider, data: bytes) -> str:
    try:
        items = heard(provider, data)
    except ProviderError:
        return "error"
    msgspec.json.encode(items)
    return "reply" if isinstance(items[-1], Reply) else "silence"


@pytest.mark.sampled(1)
@each(*ONE_EACH)
def test_a_stream_with_any_value_replaced_is_a_reply_or_an_error_of_the_provider(case: Case) -> None:
    provider = case.adapter()
    seen = {outcome(provider, data) for data in mutations(stream_of(case.api, THOUGHTFUL))}
    assert "reply" in seen
    assert seen <= {"reply", "error"}


@pytest.mark.sampled(1)
@each(*(case for case in ONE_EACH if case.prefix in SERVER_TOOLS))
def test_a_stream_of_server_tools_with_any_value_replaced_is_a_reply_or_an_error(case: Case) -> None:
    events = [event + b"\n\n" for event in SERVER_TOOLS[case.prefix].split(b"\n\n") if event]
    seen = {outcome(case.adapter(), data) for data in mutations(events)}
    assert seen == {"reply", "error"}


@pytest.mark.sampled(1)
@each(*ONE_EACH)
def test_a_stream_that_is_cut_off_anywhere_is_never_half_a_reply(case: Case) -> None:
    whole = b"".join(stream_of(case.api, THOUGHTFUL))
    provider = case.adapter()
    expected = final(provider, whole)
    assert expected is not None
    for place in range(len(whole)):
        reply = final(provider, whole[:place])
        assert reply is None or reply.message == expected.message, whole[:place][-60:]


def final(provider: ApiProvider, data: bytes) -> Reply | None:
    """The reply; none if it is torn."""
    try:
        reply = heard(provider, data)[-1]
    except IncompleteStreamError:
        return None
    assert isinstance(reply, Reply)
    return reply
