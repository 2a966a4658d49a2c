"""A small model that writes the beginnings of calls without end neither runs anything nor holds up the loop."""

from __future__ import annotations

from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.text_calls.written_calls import written_calls
from outrider.providers.text_calls.written_calls_stream import LONGEST_HELD
from tests.providers.canned import LOOK, ask, delta, events, request

CALL = '<tool_call>{"name": "look", "arguments": {"path": "a"}}</tool_call>'


async def test_text_that_is_held_back_for_too_long_is_shown_and_no_longer_a_call() -> None:
    endless = [delta(content="<tool_call> "), *(delta(content="x" * 1000) for _ in range(LONGEST_HELD // 1000 + 1))]
    data = events(*endless, delta(content=CALL), delta("stop"))
    heard = await ask(OpenAIChat("small", base_url="http://127.0.0.1:1/v1"), [data], request(tools=(LOOK,)))
    assert heard.reply.message.tool_calls == ()
    assert heard.text == heard.reply.message.text


def test_only_the_first_marks_are_tried() -> None:
    assert written_calls("<tool_call> x " * 5 + CALL, {"look": {}})[1]
    assert not written_calls("<tool_call> x " * 50 + CALL, {"look": {}})[1]


async def test_openai_itself_is_taken_at_its_word() -> None:
    data = events(delta(content=f"One would write: {CALL}"), delta("stop"))
    heard = await ask(OpenAIChat("gpt-5.6", api_key="k"), [data], request(tools=(LOOK,)))
    assert heard.reply.message.tool_calls == ()
