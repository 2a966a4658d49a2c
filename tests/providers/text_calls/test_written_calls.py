"""Calls that small models write as text, and text that only looks like one."""

from __future__ import annotations

import msgspec
import pytest

from outrider.conversation.messages import TextBlock, ToolUseBlock
from outrider.providers.adapters.openai_chat import OpenAIChat
from outrider.providers.base import StopReason, ToolSpec
from outrider.providers.text_calls.written_calls import LONGEST_INTRODUCTION, written_calls
from outrider.runtime.events import ToolCallDelta
from tests.providers.canned import WAIT, ask, delta, events, request

LOOK = ToolSpec(
    "look",
    "Look at a file.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "lines": {"type": "integer"},
            "deep": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    },
)
TOOLS = (LOOK, WAIT)
PARAMETERS = {tool.name: tool.parameters for tool in TOOLS}
CALL = '{"name": "look", "arguments": {"path": "a"}}'
ONE = [("look", {"path": "a"})]
TWO = ONE * 2

WRITTEN: list[tuple[str, str, list[tuple[str, dict[str, object]]]]] = [
    # JSON alone
    (CALL, "", ONE),
    (f"\n\n{CALL}\n", "", ONE),
    ('{\n  "name": "look",\n  "arguments": {\n    "path": "a"\n  }\n}', "", ONE),
    ('{"name": "look", "parameters": {"path": "a"}}', "", ONE),
    ('{"name": "look", "input": {"path": "a"}}', "", ONE),
    ('{"name": "look", "args": {"path": "a"}}', "", ONE),
    ('{"tool": "look", "arguments": {"path": "a"}}', "", ONE),
    ('{"tool_name": "look", "tool_input": {"path": "a"}}', "", ONE),
    ('{"function": "look", "arguments": {"path": "a"}}', "", ONE),
    ('{"action": "look", "action_input": {"path": "a"}}', "", ONE),
    ('{"arguments": {"path": "a"}, "name": "look"}', "", ONE),
    ('{"id": "call_1", "type": "function", "name": "look", "arguments": {"path": "a"}}', "", ONE),
    ('{"type": "function", "function": {"name": "look", "arguments": {"path": "a"}}}', "", ONE),
    ('{"type": "function", "function": {"name": "look", "arguments": "{\\"path\\": \\"a\\"}"}}', "", ONE),
    ('{"name": "look", "arguments": "{\\"path\\": \\"a\\"}"}', "", ONE),
    ('{"name": "wait", "arguments": {}}', "", [("wait", {})]),
    ('{"name": "look", "arguments": {"path": "a\nb"}}', "", [("look", {"path": "a\nb"})]),
    (f"[{CALL}, {CALL}]", "", TWO),
    (f"{CALL}\n{CALL}", "", TWO),
    (f"{CALL},\n{CALL}", "", TWO),
    (f'{{"tool_calls": [{CALL}]}}', "", ONE),
    (f"I will look at the file.\n{CALL}", "I will look at the file.", ONE),
    # In a code block
    (f"```json\n{CALL}\n```", "", ONE),
    (f"```\n{CALL}\n```\n", "", ONE),
    (f"```json\n{CALL}", "", ONE),
    (f"```json\n[{CALL}, {CALL}]\n```", "", TWO),
    (f"```json\n{CALL}\n{CALL}\n```", "", TWO),
    (f"```json\n{CALL}\n```\n\n```json\n{CALL}\n```", "", TWO),
    (f"I'll look first.\n\n```json\n{CALL}\n```", "I'll look first.", ONE),
    (f"```json\n{CALL}\n```\n\nThis shows what the file contains.", "", ONE),
    (f"```tool_call\n{CALL}\n```", "", ONE),
    (f"```xml\n<tool_call>\n{CALL}\n</tool_call>\n```", "", ONE),
    # Marks
    (f"<tool_call>{CALL}</tool_call>", "", ONE),
    (f"I'll look.\n<tool_call>\n{CALL}\n</tool_call>\n", "I'll look.", ONE),
    (f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>{CALL}</tool_call>", "", TWO),
    (f"<tool_call>\n{CALL}\n{CALL}\n</tool_call>", "", TWO),
    (f"a < b [1] <tool_call>{CALL}", "a < b [1]", ONE),
    (f"Not <tool_call> yet: <tool_call>{CALL}</tool_call>", "Not <tool_call> yet:", ONE),
    (f"<tool_call>\n{CALL}\n</tool_call>\n\nThe file contains the word b.", "", ONE),
    (f"<tool_call>{CALL}</tool_call> I wait for the result.", "", ONE),
    ('<tool_call>{"name": "wait"}</tool_call>', "", [("wait", {})]),
    (f"<tools>\n{CALL}\n</tools>", "", ONE),
    (f"<tools>[{CALL}, {CALL}]</tools>", "", TWO),
    (f"<function_call> {CALL} </function_call>", "", ONE),
    (f"<tool_calls>[{CALL}]</tool_calls>", "", ONE),
    (f"<tool_call>```json\n{CALL}\n```</tool_call>", "", ONE),
    (f"<|python_tag|>{CALL}", "", ONE),
    (f"[TOOL_CALLS][{CALL}, {CALL}]", "", TWO),
    (f"Well. [TOOL_CALLS] [{CALL}]", "Well.", ONE),
    ('[TOOL_CALLS]look{"path": "a"}', "", ONE),
    ('[TOOL_CALLS]look[ARGS]{"path": "a"}', "", ONE),
    ('So: <function=look>{"path": "a"}</function>', "So:", ONE),
    ('<function=look>{"path": "a"}', "", ONE),
    ("<function=look>\n<parameter=path>\na\n</parameter>\n</function>", "", ONE),
    ("<tool_call>\n<function=look>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>", "", ONE),
    ("<function=look><parameter=path>a</parameter><parameter=lines>3</parameter></function>", "",
     [("look", {"path": "a", "lines": 3})]),
    ("<function=look>\n<parameter=path>\n7\n</parameter>\n<parameter=deep>\nTrue\n</parameter>\n</function>", "",
     [("look", {"path": "7", "deep": True})]),
    ('<function=look><parameter=tags>["x", "y"]</parameter></function>', "", [("look", {"tags": ["x", "y"]})]),
    ("<function=look>\n<parameter=path>\na\n<parameter=lines>\n2\n</function>", "",
     [("look", {"path": "a", "lines": 2})]),
    ("<function=wait>\n</function>", "", [("wait", {})]),
    (f"I look.\n```json\n{CALL}\n```\nThen I say what it says.", "I look.", ONE),
    (f"{{{CALL}}}", "", ONE),
    ('{{"name": "look", "arguments": {{"path": "a"}}}}', "", ONE),
    ('{"name": "look", // this tool\n "arguments": {"path": "a"}}', "", ONE),
    ('{"name": "look", // see {{\n "arguments": {"path": "http://a/{{b}}"}}', "",
     [("look", {"path": "http://a/{{b}}"})]),
    ('{"name": "package", "arguments": {"path": "a"}}', "", [("package", {"path": "a"})]),
    ('```json\n{"name": "unheard_of",\n "arguments": {}}\n```', "", [("unheard_of", {})]),
    ("<tool_call>look\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>", "", ONE),
]  # fmt: skip

NOT_WRITTEN = [
    "",
    "a < b and x[TOOL",
    "The answer is {1, 2}.",
    '{"answer": 42}',
    '{"name": "Alice", "age": 7}',
    '{"name": "look", "version": "1.0.0", "scripts": {}}',
    '{"name": "package", "arguments": {"path": "a"}, "version": 1}',
    'A package: {"name": "package", "arguments": {"path": "a"}}',
    'I look.\n```json\n{"name": "look", "arguments": {"path": 7}}\n```\nThen I say what it says.',
    '{"name": "server", "parameters": {"port": 80}}',
    '{"name": "look"}',
    '{"name": "look", "arguments": [1]}',
    '[{"name": "look", "arguments": {}}, {"name": "Alice"}]',
    '```json\n{"name": "my-package", "input": {"main": "a.js"}}\n```',
    f"```python\n{CALL}\n```",
    f"A call is written like `{CALL}`.",
    f"{CALL} is how you would call it.",
    f"This is an example of a call:\n\n```json\n{CALL}\n```",
    f"The syntax of a call:\n{CALL}",
    f"```json\n{CALL}\n```\n\nThat is the format which the server takes.",
    f"First I read it:\n\n```json\n{CALL}\n```\n\nThen I write it. Shall I?",
    f"Write `a`:\n\n```sh\nls\n```\n\nand then\n\n```json\n{CALL}\n```",
    f"{'This tool looks at a file. ' * (LONGEST_INTRODUCTION // 20)}\n{CALL}",
    '{"name": "look", "description": "Look at a file.", "parameters": {"type": "object", "properties": {}}}',
    '{"name": "look", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}',
    '<tools>{"type": "function", "function": {"name": "look", "description": "", "parameters": {}}}</tools>',
    f"Models write `<tool_call>{CALL}</tool_call>` for this.",
    f"Here it is:\n```xml\n<tool_call>{CALL}</tool_call>\n```\nThe tag is special.",
    "<tool_call>look</tool_call>",
    "<function=look>no</function>",
    "[TOOL_CALLS][]",
    "[TOOL_CALLS][7]",
    'In the log: <tool_call>{"name": "unheard_of", "arguments": {}}</tool_call> and so on.',
]


def model() -> OpenAIChat:
    return OpenAIChat("small", base_url="http://127.0.0.1:1/v1")


def said(text: str, size: int) -> bytes:
    """A reply with this text, so many characters in a chunk."""
    return events(*(delta(content=text[at : at + size]) for at in range(0, len(text), size)), delta("stop"))


@pytest.mark.parametrize(("text", "before", "expected"), WRITTEN)
async def test_a_written_call_is_made_real(
    text: str, before: str, expected: list[tuple[str, dict[str, object]]]
) -> None:
    for size in (1, 3, 1000):
        heard = await ask(model(), [said(text, size)], request(tools=TOOLS))
        assert [(call.name, call.input) for call in heard.reply.message.tool_calls] == expected
        assert all(call.invalid_input is None for call in heard.reply.message.tool_calls)
        assert heard.reply.message.text == before
        assert heard.reply.stop_reason is StopReason.TOOL_USE
        assert heard.text.rstrip() == before, "no part of a call is shown as text"
        assert sum(isinstance(item, ToolCallDelta) for item in heard.items) == len(expected)


@pytest.mark.parametrize("text", NOT_WRITTEN)
async def test_text_that_is_no_call_stays_text(text: str) -> None:
    for size in (1, 3, 1000):
        heard = await ask(model(), [said(text, size)], request(tools=TOOLS))
        assert heard.reply.message.content == ((TextBlock(text),) if text else ())
        assert heard.text == text


async def test_a_written_call_may_be_cut_at_any_byte() -> None:
    for text in (f"Ü: I look.\n```json\n{CALL}\n```\n", f"<tool_call>{CALL}</tool_call>\nDone."):
        data = said(text, 1000)
        for place in range(1, len(data)):
            heard = await ask(model(), [data[:place], data[place:]], request(tools=TOOLS))
            assert [(call.name, call.input) for call in heard.reply.message.tool_calls] == ONE


@pytest.mark.parametrize("name", ["Look", "lok", "look_at", "functions.look"])
@pytest.mark.parametrize("form", ["{}", "```json\n{}\n```", "<tool_call>{}</tool_call>"])
def test_a_misspelt_name_is_a_call_that_fails(name: str, form: str) -> None:
    text = form.replace("{}", CALL.replace("look", name))
    assert written_calls(text, PARAMETERS)[1] == (ToolUseBlock("", name, {"path": "a"}),)


def test_any_name_after_a_mark_is_a_call_that_fails() -> None:
    found = written_calls('<tool_call>{"name": "unheard_of", "arguments": {}}</tool_call>', PARAMETERS)
    assert found[1] == (ToolUseBlock("", "unheard_of", {}),)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "look", "arguments": {"path": "a',
        '<tool_call>{"name": "look", "arguments": {"path": "say "a""}}</tool_call>',
        '```json\n{"name": "look", "arguments": {"path": "a",}}\n```',
        '{"name": "look", "arguments": "path a"}',
        '<tool_call>{"name": "look", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "look", "path": "a"}</tool_call>',
        '<function=look>{"path": "a',
    ],
)
def test_a_broken_call_is_one_that_cannot_run(text: str) -> None:
    (call,) = written_calls(text, PARAMETERS)[1]
    assert call.name == "look"
    assert call.invalid_input


async def test_an_answer_in_json_is_shown_as_it_comes() -> None:
    for text in (
        '{"name": "my-package", "version": "1"}',
        '```json\n{"age": 7, "more": 1}\n```',
        "```python\nx = 1\n```",
    ):
        live = [event + b"\n\n" for event in said(text, 4).split(b"\n\n")]
        heard = await ask(model(), live, request(tools=TOOLS))
        assert heard.text == text
        assert len(heard.items) > len(text) // 4 - 8


def test_hostile_json_is_no_call() -> None:
    for text in ("[" * 100_000, '{"name": ' * 20_000, '{"name": "look", "arguments": {"lines": NaN}}'):
        before, calls = written_calls(text, PARAMETERS)
        assert before == text or calls[0].invalid_input
    (call,) = written_calls('{"name": "look", "arguments": {"lines": 123456789012345678901234567890}}', PARAMETERS)[1]
    assert msgspec.json.encode(call.input)
