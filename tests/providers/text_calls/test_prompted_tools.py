"""Tools for models without native calls."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from outrider.conversation.history import repair
from outrider.conversation.messages import Message, TextBlock, ThinkingBlock, ToolUseBlock
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.base import ModelSettings, Request, StopReason, ToolSpec
from outrider.providers.catalogue.capabilities import Capabilities
from outrider.providers.streams.stream import merge_deltas
from outrider.providers.text_calls.prompted_tools import LONGEST_STRING, response_format
from outrider.runtime.agent import Agent
from outrider.runtime.events import TextDelta, ToolCallDelta
from outrider.runtime.session import Session
from tests.adapters import Case
from tests.conversations import HISTORIES, PNG, STORE, SYSTEM, TOOLS, call, exchange, result
from tests.oracles import type_errors
from tests.providers.canned import LOOK, WAIT, CannedTransport, Heard, ask, cuts, delta, events, request

CASE = Case("openai-chat", "m")


def model(**settings: Any) -> OpenAIChat:
    return OpenAIChat("m", base_url="http://127.0.0.1:9/v1", prompted_tools=True, **settings)


def sent(messages: list[Message], adapter: OpenAIChat | None = None, **fields: Any) -> dict[str, Any]:
    body = (adapter or model()).render(Request(repair(messages), STORE, tools=TOOLS, **fields))
    decoded: dict[str, Any] = msgspec.json.decode(body)
    assert not type_errors("openai-chat", decoded)
    return decoded


async def hear(text: str, size: int = 3, finish: str = "stop") -> Heard:
    pieces = (delta(content=text[at : at + size]) for at in range(0, len(text), size))
    return await ask(model(), [events(*pieces, delta(finish))], request(tools=(LOOK, WAIT)))


def blocks(heard: Heard) -> tuple[Any, ...]:
    """The content of the reply, without the model's own text."""
    return tuple(msgspec.structs.replace(block, state=None) for block in heard.reply.message.content)


# The request


def test_the_tools_stand_in_the_system_prompt_and_nowhere_else() -> None:
    body = sent([Message.user("Hello")], system=SYSTEM)
    assert "tools" not in body
    system = body["messages"][0]["content"]
    assert system.startswith(SYSTEM)
    assert '{"final": ' in system
    assert f"{LONGEST_STRING:,} characters" in system
    for tool in TOOLS:
        assert f"## {tool.name}\n\n{tool.description}" in system
        assert msgspec.json.encode(tool.parameters).decode() in system


def test_the_mode_is_chosen_by_capability_or_option() -> None:
    by_capability = OpenAIChat("m", capabilities=Capabilities(tools=False))
    by_option = sent([Message.user("Hello")])
    assert by_option.pop("max_tokens"), "a local server is told where a reply ends"
    assert by_option.pop("temperature") == 0
    assert sent([Message.user("Hello")], by_capability) == by_option
    assert "tools" in sent([Message.user("Hello")], OpenAIChat("m"))


def test_the_reply_is_held_to_a_call_or_a_final_answer() -> None:
    schema = sent([Message.user("Hello")])["response_format"]["json_schema"]["schema"]
    read, look, final = schema["oneOf"]
    assert read == {
        "type": "object",
        "properties": {
            "tool": {"const": "read"},
            "arguments": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "maxLength": LONGEST_STRING},
                    "lines": {"type": "integer"},
                },
                "required": ["path"],
                "additionalProperties": False,
            },
        },
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }
    assert look["properties"] == {"tool": {"const": "look"}}
    assert final["properties"] == {"final": {"type": "string"}}


def test_a_tool_whose_call_only_repeated_what_is_known_is_left_out_for_a_while() -> None:
    def offered(*made: str) -> list[str]:
        messages = [Message.user("Read a and look.")]
        for number, each in enumerate(made):
            path, _, said = each.partition("=")
            called = call(f"c{number}", "look") if path == "look" else call(f"c{number}", "read", path=path)
            messages += [Message.assistant(called), Message.user(result(f"c{number}", said or "x"))]
        branches = sent(messages)["response_format"]["json_schema"]["schema"]["oneOf"]
        return [each["properties"].get("tool", {"const": "final"})["const"] for each in branches]

    everything = ["read", "look", "final"]
    for made in (("a", "a"), ("b", "a", "b"), ("a", "a", "look"), ("b", "a", "b", "look", "look=other")):
        assert offered(*made) == ["look", "final"], made
    assert offered("a", "look", "a", "look") == everything, "all tools are offered if none would be left"
    for made in ((), ("a",), ("a", "b"), ("a=1", "a=2"), ("a", "a", "look=1", "look=2", "look=3")):
        assert offered(*made) == everything, made


def test_strings_are_capped_everywhere_and_references_are_written_out() -> None:
    parameters = {
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"], "maxLength": 20},
            "long": {"type": "string", "maxLength": 100_000, "default": {"type": "string"}},
            "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        },
        "$defs": {"Item": {"type": "object", "properties": {"text": {"type": "string"}}}},
    }
    before = msgspec.json.encode(parameters)
    schema = response_format([ToolSpec("t", "", parameters)])["json_schema"]["schema"]
    properties = schema["oneOf"][0]["properties"]["arguments"]["properties"]
    assert properties["name"]["maxLength"] == 20
    assert properties["long"]["maxLength"] == LONGEST_STRING
    assert properties["long"]["default"] == {"type": "string"}
    assert properties["items"]["items"]["properties"]["text"]["maxLength"] == LONGEST_STRING
    assert b"$ref" not in msgspec.json.encode(schema)
    assert msgspec.json.encode(parameters) == before


def test_without_tools_the_reply_is_free() -> None:
    body = msgspec.json.decode(model().render(request(system=SYSTEM)))
    assert "response_format" not in body
    assert body["messages"][0]["content"] == SYSTEM


def test_calls_and_results_of_the_history_are_words() -> None:
    history = [*exchange(result("c1", "one"), result("c2", "no", failed=True))]
    history += [Message.assistant("Done."), Message.user("More"), Message.assistant(call("c3", "look"))]
    messages = sent([*history, Message.user(result("c3", "seen"), "Well?")])["messages"][1:]
    assert messages == [
        {"role": "user", "content": "Look at the files."},
        {
            "role": "assistant",
            "content": 'I\'ll look.\n{"tool":"read","arguments":{"path":"c1.txt"}}\n'
            '{"tool":"read","arguments":{"path":"c2.txt"}}',
        },
        {
            "role": "user",
            "content": "Result of read (call c1):\none\nResult of read (call c2):\n[This call failed]\nno",
        },
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "More"},
        {"role": "assistant", "content": '{"tool":"look"}'},
        {"role": "user", "content": "Result of look (call c3):\nseen\nWell?"},
    ]


def test_files_of_results_are_shown_after_them() -> None:
    sees = OpenAIChat("m", capabilities=Capabilities(tools=False, image="moved"))
    content = sent(exchange(result("c1", PNG)), sees)["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["text", "text", "text", "text", "image_url"]
    assert content[0]["text"] == "Result of read (call c1):"
    assert content[3]["text"] == "chart.png (a red square), from read (call c1):"


@pytest.mark.parametrize("name", HISTORIES)
def test_every_history_is_what_the_api_takes_and_always_the_same(name: str) -> None:
    messages = repair(HISTORIES[name](CASE))
    bodies = []
    for length in range(1, len(messages) + 1):
        body = model().render(Request(messages[:length], STORE, SYSTEM, TOOLS))
        assert not type_errors("openai-chat", msgspec.json.decode(body))
        assert body == model().render(Request(messages[:length], STORE, SYSTEM, TOOLS))
        bodies.append(body.removesuffix(b"]}").partition(b'"messages":[')[2])  # the format is no part of the prompt
    assert all(bodies)
    assert all(later.startswith(earlier) for earlier, later in pairwise(bodies))


# The reply


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_a_final_answer_is_shown_as_it_comes(size: int) -> None:
    text = 'Grüß "dich"\n\\ 🌍 \x01 done'
    for written in (
        msgspec.json.encode({"final": text}).decode(),
        '{"final": "Gr\\u00fc\\u00df \\"dich\\"\\n\\\\ \\ud83c\\udf0d \\u0001 done"}',
    ):
        heard = await hear(written, size)
        assert heard.text == text
        assert blocks(heard) == (TextBlock(text),)
        assert heard.reply.stop_reason is StopReason.END


async def test_the_first_words_of_a_final_answer_do_not_wait_for_the_last() -> None:
    pieces = ('{"final": "one', ' two three"}')
    live = [*(events(delta(content=piece), done=False) for piece in pieces), events(delta("stop"))]
    heard = await ask(model(), live, request(tools=(LOOK,)))
    assert heard.items[:2] == [TextDelta("one"), TextDelta(" two three")]


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize(
    ("written", "calls"),
    [
        ('{"tool": "look", "arguments": {"path": "ä"}}', [("look", {"path": "ä"})]),
        ('{"tool": "wait"}', [("wait", {})]),
        ('{"tool": "wait", "arguments": null}', [("wait", {})]),
        ('  ```json\n{"tool": "look", "arguments": {"path": "a"}}\n```\n', [("look", {"path": "a"})]),
        ('{"tool": "look", "arguments": {"path": "a"}}\nNow I know that', [("look", {"path": "a"})]),
        ('{"tool": "wait"}\n{"tool": "look", "arguments": {"path": "a"}}', [("wait", {}), ("look", {"path": "a"})]),
        ('{"tool": "look", "arguments": {"path": "a\nb"}}', [("look", {"path": "a\nb"})]),
        ('{"tool": "look", "arguments": "{\\"path\\": \\"a\\"}"}', [("look", {"path": "a"})]),
        ('{"tool": "unheard_of", "arguments": {"x": 1}}', [("unheard_of", {"x": 1})]),
    ],
)
async def test_a_call_in_json_is_made_real(written: str, calls: list[tuple[str, Any]], size: int) -> None:
    heard = await hear(written, size)
    assert blocks(heard) == tuple(ToolUseBlock("", name, arguments) for name, arguments in calls)
    assert heard.reply.stop_reason is StopReason.TOOL_USE
    assert heard.text == ""
    shown = [
        (item.name, msgspec.json.decode(item.arguments)) for item in heard.items if isinstance(item, ToolCallDelta)
    ]
    assert shown == calls


@pytest.mark.parametrize(
    "written",
    [
        "The answer is 4.",
        "It is {not} JSON",
        '{"price": 3}',
        '{"tool": "hammer", "price": 3}',
        '{"final": 7}',
        "{broken",
        "[1, 2]",
        "`code` first",
        "```python\nprint()\n```",
        "null",
    ],
)
async def test_a_reply_that_is_not_of_the_form_is_the_final_answer(written: str) -> None:
    for size in (1, 1000):
        heard = await hear(written, size)
        assert heard.reply.message.content == (TextBlock(written),)
        assert heard.text == written


async def test_a_final_answer_that_was_cut_off_is_what_was_shown() -> None:
    heard = await hear('{"final": "one tw', finish="length")
    assert heard.text == heard.reply.text == "one tw"
    assert heard.reply.stop_reason is StopReason.MAX_TOKENS


async def test_a_call_that_was_cut_off_is_told_to_the_model() -> None:
    written = '{"tool": "look", "arguments": {"path": "a'
    heard = await hear(written, finish="length")
    assert blocks(heard) == (ToolUseBlock("", "look", {}, invalid_input=written),)
    assert heard.text == ""


@pytest.mark.parametrize(
    "written",
    ['{ "tool": "look",\n"arguments": {"path": "a"} }', '{"final":   "One."}', '```json\n{"tool": "wait"}\n```'],
)
async def test_a_reply_goes_back_as_the_model_wrote_it(written: str) -> None:
    reply = (await hear(written)).reply.message
    history = [Message.user("Hello"), msgspec.structs.replace(reply, content=tuple(map(identified, reply.content)))]
    answers = [result(use.id, "seen") for use in history[1].tool_calls]
    history.append(Message.user(*answers, "More"))
    assert sent(history)["messages"][2]["content"] == written
    other = OpenAIChat("other", base_url="http://127.0.0.1:9/v1", prompted_tools=True)
    assert sent(history, other)["messages"][2]["content"] != written, "another model's cache holds nothing of it"


def identified(block: Any) -> Any:
    return msgspec.structs.replace(block, id="c1") if isinstance(block, ToolUseBlock) else block


REPORT = ToolSpec("report", "Report.", {"type": "object", "properties": {"n": {"type": "integer"}}}, is_answer=True)


def test_a_report_that_is_wanted_is_the_only_answer() -> None:
    body = msgspec.json.decode(model().render(request(tools=(LOOK, REPORT))))
    branches = body["response_format"]["json_schema"]["schema"]["oneOf"]
    assert [branch["properties"]["tool"]["const"] for branch in branches] == ["look", "report"]
    assert "final" not in body["messages"][0]["content"]
    assert "use report: that is your answer" in body["messages"][0]["content"]


def test_a_required_call_leaves_no_final_answer() -> None:
    settings = ModelSettings(tool_choice="required")
    body = msgspec.json.decode(model().render(request(tools=(LOOK,), settings=settings)))
    (branch,) = body["response_format"]["json_schema"]["schema"]["oneOf"]
    assert branch["properties"]["tool"] == {"const": "look"}


async def test_an_empty_final_answer_has_no_words() -> None:
    assert (await hear('{"final": ""}')).reply.message.content == ()


async def test_lone_surrogates_do_not_get_through() -> None:
    heard = await hear('{"tool": "look", "arguments": {"path": "\\ud800"}}')
    assert heard.reply.message.tool_calls[0].input == {"path": "\ufffd"}


async def test_thoughts_and_native_calls_pass() -> None:
    native = {"index": 0, "id": "c1", "function": {"name": "wait", "arguments": "{}"}}
    data = events(delta(reasoning="Hm."), delta("tool_calls", tool_calls=[native]))
    heard = await ask(model(), [data], request(tools=(LOOK, WAIT)))
    thinking, use = heard.reply.message.content
    assert isinstance(thinking, ThinkingBlock)
    assert use == ToolUseBlock("c1", "wait", {})
    data = events(delta(reasoning="Hm."), delta("stop", content='{"tool": "wait"}'))
    heard = await ask(model(), [data], request(tools=(LOOK, WAIT)))
    assert [type(block) for block in heard.reply.message.content] == [ThinkingBlock, ToolUseBlock]


async def test_a_reply_is_the_same_however_its_bytes_arrive() -> None:
    data = events(delta(content='{"final": "Gr'), delta(content='\\u00fc\\u00df"}'), delta("stop"))
    asked = request(tools=(LOOK,))
    whole = await ask(model(), [data], asked)
    for chunks in cuts(data):
        assert merge_deltas((await ask(model(), chunks, asked)).items) == whole.items


async def test_a_session_runs_tools_with_such_a_model() -> None:
    seen: list[str] = []

    def look(path: str) -> str:
        """Look at a file."""
        seen.append(path)
        return "It says hello."

    def answer(body: Any) -> str:
        last = body["messages"][-1]["content"]
        return '{"final": "Hello."}' if "It says hello." in last else '{"tool": "look", "arguments": {"path": "a"}}'

    class Server(CannedTransport):
        async def post(self, url: str, headers: Any, body: bytes, explain: Any, idle: float) -> Any:
            yield events(delta(content=answer(msgspec.json.decode(body))), delta("stop"))

    adapter = model()
    adapter._transport = Server([])  # type: ignore[assignment]
    run = await Session(Agent(model=adapter, tools=[look])).run("What does a say?")
    assert (seen, run.status, run.text) == (["a"], "done", "Hello.")
