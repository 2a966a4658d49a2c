"""The request oracles can fail: each rule is broken on purpose and the oracle reports it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from outrider.providers.base import Request
from outrider.providers.streams.stream import EventParser
from tests.adapters import ONE_EACH, Case, each
from tests.conversations import PNG, STORE, THOUGHTFUL, exchange, request_of, result
from tests.oracles import check, problems, type_errors
from tests.streams import stream_of

CLAUDE, RESPONSES, CHAT, GEMINI = ONE_EACH
Json = dict[str, Any]


def sound_request() -> Request:
    return Request(exchange(result("c1", "one", PNG), result("c2", "no", failed=True)), STORE)


def anthropic() -> Json:
    calls = [{"type": "tool_use", "id": f"c{number}", "name": "read", "input": {}} for number in (1, 2)]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png()}}
    text = {"type": "text", "text": "one"}
    failed = {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "no"}], "is_error": True}
    return {
        "model": "m",
        "max_tokens": 1,
        "stream": True,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look."}]},
            {"role": "assistant", "content": calls},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [text, image]}, failed],
            },
        ],
    }


def png() -> str:
    import base64

    return base64.b64encode(STORE.read(PNG)).decode()


def objections(body: Json, case: Case = CLAUDE) -> list[str]:
    request = sound_request()
    return [*type_errors(case.api, body), *problems(case, body, request.messages, request.store)]


def results(body: Json) -> list[Json]:
    found: list[Json] = body["messages"][2]["content"]
    return found


def test_a_sound_request_passes() -> None:
    assert objections(anthropic()) == []


def test_a_bad_payload_deep_in_a_lazy_field_is_caught() -> None:
    body = anthropic()
    results(body)[0]["content"][1]["source"]["media_type"] = "image/tiff"
    assert any("media_type" in found for found in type_errors("anthropic", body))


def test_an_unknown_field_deep_in_a_request_is_caught() -> None:
    body = anthropic()
    results(body)[0]["content"][0]["colour"] = "red"
    assert any("colour" in found for found in type_errors("anthropic", body))


@pytest.mark.parametrize(
    ("api", "body", "place"),
    [
        ("openai", {"input": [{"role": "user", "content": [{"type": "input_text", "text": 1}]}]}, "text"),
        ("openai", {"input": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "x"}]}]}, "output"),
        ("openai-chat", {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "text"),
        (
            "openai-chat",
            {"messages": [{"role": "tool", "content": "x", "tool_call_id": "c", "is_error": 1}]},
            "is_error",
        ),
        ("gemini", {"contents": [{"role": "user", "parts": [{"txt": "x"}]}]}, "txt"),
        ("gemini", {"contents": [], "model": "m"}, "model"),
    ],
)
def test_every_vendor_s_types_are_consumed_deeply(api: str, body: Json, place: str) -> None:
    whole = body if api == "gemini" else {"model": "m", "stream": True} | body
    assert any(place in found for found in type_errors(api, whole)), type_errors(api, whole)


BREAKAGES: dict[str, tuple[Callable[[Json], object], str]] = {
    "a result is missing": (lambda body: results(body).pop(), "is not answered"),
    "a result comes twice": (lambda body: results(body).append(copy.copy(results(body)[1])), "does not answer"),
    "results in another order": (lambda body: results(body).reverse(), "does not answer"),
    "words among the results": (lambda body: results(body).insert(1, {"type": "text", "text": "x"}), "stands between"),
    "the flag of a failed call": (lambda body: results(body)[1].pop("is_error"), "whether the call failed"),
    "the text of a result": (lambda body: results(body)[0]["content"][0].update(text="?"), "does not have its text"),
    "a picture is lost": (lambda body: results(body)[0]["content"].pop(), "chart.png is lost"),
    "an id with a dot": (lambda body: body["messages"][1]["content"][0].update(id="c.1"), "is refused"),
    "an id twice": (lambda body: body["messages"][1]["content"][0].update(id="c2"), "is used 2 times"),
    "blank text": (lambda body: body["messages"][0]["content"][0].update(text=" "), "an empty user"),
    "five marks": (
        lambda body: body.update(system=[{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5),
        "four marks",
    ),
    "an answer in a later message": (
        lambda body: body["messages"].insert(2, {"role": "user", "content": [{"type": "text", "text": "x"}]}),
        "between calls",
    ),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_broken_rule_is_found(name: str) -> None:
    breakage, expected = BREAKAGES[name]
    body = anthropic()
    breakage(body)
    assert any(expected in found for found in objections(body)), objections(body)


@pytest.mark.parametrize(
    ("after", "is_found"), [("function_call", False), ("message", False), ("function_call_output", True), (None, True)]
)
def test_reasoning_needs_the_item_that_follows_it(after: str | None, is_found: bool) -> None:
    following = {
        "function_call": {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"},
        "message": {"type": "message", "role": "assistant", "content": "x"},
        "function_call_output": {"type": "function_call_output", "call_id": "c", "output": "x"},
    }
    items = [{"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}]
    body = {"input": [*items, *([following[after]] if after else [])]}
    found = [each for each in problems(RESPONSES, body, [], STORE) if "reasoning item without the item" in each]
    assert bool(found) is is_found


@each(*ONE_EACH)
def test_a_moved_file_without_its_label_is_found(case: Case) -> None:
    moving = msgspec.structs.replace(case.adapter().capabilities, image="moved")
    request = request_of("parallel-results-with-files", case)
    body = case.adapter(capabilities=moving).render(request)
    check(case, body, request)
    with pytest.raises(AssertionError, match="has no label"):
        check(case, body.replace(b", from read (call", b", nobody knows whence (call"), request)


@pytest.mark.sampled(1)
@each(*ONE_EACH)
def test_the_streams_of_the_tests_are_those_of_the_vendors(case: Case) -> None:
    parser = EventParser()
    events = [event for piece in stream_of(case.api, THOUGHTFUL) for event in parser.feed(piece)]
    for event in events:
        if event != b"[DONE]" and b'"ping"' not in event:
            _vendor_event(case.api, msgspec.json.decode(event))


def _vendor_event(api: str, event: Json) -> None:
    from pydantic import TypeAdapter

    if api == "anthropic":
        from anthropic.types import RawMessageStreamEvent

        TypeAdapter(RawMessageStreamEvent).validate_python(event)
    elif api == "openai":
        from openai.types.responses import ResponseStreamEvent

        TypeAdapter(ResponseStreamEvent).validate_python(event)
    elif api == "openai-chat":
        from openai.types.chat import ChatCompletionChunk

        ChatCompletionChunk.model_validate(event)
    else:
        from google.genai.types import GenerateContentResponse

        GenerateContentResponse.model_validate_json(msgspec.json.encode(event))
