"""Tools that the API runs: declared, shown, kept, sent back as they came, and text for another model."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from outrider import (
    Agent,
    Log,
    Message,
    ScriptedModel,
    Session,
    ToolDefinitionError,
    code_execution,
    dumps,
    loads,
    web_fetch,
    web_search,
)
from outrider.conversation.history import repair
from outrider.conversation.messages import (
    AttachmentBlock,
    Citation,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
)
from outrider.conversation.store import MemoryStore
from outrider.errors import ProviderError, RequestRefusedError
from outrider.log.transfer import export, import_session
from outrider.providers.base import Reply, Request, StopReason
from outrider.providers.deltas import ServerToolFinished, ServerToolStarted, TextDelta
from outrider.providers.stream import ReplyParser
from outrider.tools.server_tool import ServerTool
from tests.adapters import ONE_EACH, Case, each, parameter
from tests.conversations import TOOLS
from tests.modelserver import Answer, ModelServer, Raw
from tests.oracles import check
from tests.searches import (
    ANNOTATION,
    CITED,
    COMPUTED,
    FOUND,
    PRINTED,
    RAN,
    REASONING,
    SEARCHED,
    STREAMS,
    USE,
    anthropic_stream,
    sse,
)

ANTHROPIC, RESPONSES, CHAT, GEMINI = ONE_EACH
with_tools = each(ANTHROPIC, RESPONSES, GEMINI)


def read(case: Case, *chunks: bytes) -> tuple[list[Any], Reply]:
    parser = ReplyParser(case.adapter().incoming((), MemoryStore()), "it")
    items = [*(item for chunk in chunks for item in parser.feed(chunk)), *parser.finish()]
    assert isinstance(items[-1], Reply)
    return items[:-1], items[-1]


def sent(case: Case, message: Message, **fields: Any) -> Any:
    request = Request(repair([Message.user("Search."), message, Message.user("More?")]), MemoryStore(), **fields)
    body = case.adapter().render(request)
    check(case, body, request)
    return msgspec.json.decode(body)


def groq(*told: dict[str, Any]) -> bytes:
    chunks = [{"choices": [{"index": 0, "delta": {"executed_tools": [{"index": 0, **each}]}}]} for each in told]
    said = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    return sse(*chunks, said) + b"data: [DONE]\n\n"


ARGUMENTS, OUTPUT = {"arguments": '{"query": "x"}'}, {"output": "found"}


@pytest.mark.parametrize(
    ("case", "stream"),
    [
        *((case, STREAMS[case.api]) for case in (ANTHROPIC, RESPONSES, GEMINI)),
        *((CHAT, groq({"type": "search"}, *told)) for told in ([ARGUMENTS, OUTPUT], [ARGUMENTS], [OUTPUT], [])),
    ],
)
def test_what_is_shown_while_it_comes_is_what_the_message_has(case: Case, stream: bytes) -> None:
    shown, reply = read(case, stream)
    blocks = reply.message.content
    started = {each.call_id: (each.name, each.input) for each in shown if isinstance(each, ServerToolStarted)}
    ended = {each.call_id: (each.text, each.is_error) for each in shown if isinstance(each, ServerToolFinished)}
    assert started
    assert started == {block.id: (block.name, block.input) for block in blocks if isinstance(block, ServerToolUseBlock)}
    results = [block for block in blocks if isinstance(block, ServerToolResultBlock)]
    assert ended == {block.tool_use_id: (block.text, block.is_error) for block in results}


@with_tools
def test_calls_results_and_sources_are_blocks_and_shown_while_they_come(case: Case) -> None:
    shown, reply = read(case, STREAMS[case.api])
    blocks = reply.message.content
    uses = {block.name: block for block in blocks if isinstance(block, ServerToolUseBlock)}
    results = {block.tool_use_id: block for block in blocks if isinstance(block, ServerToolResultBlock)}
    search = uses["web_search"]
    assert "köln" in str(search.input)
    assert "https://a.test" in results[search.id].text
    assert {"web_search"} < uses.keys()
    assert reply.message.tool_calls == (), "no call waits for a result"
    assert [(each.url, each.title) for each in reply.message.citations] == [("https://a.test", "A")]
    assert reply.text.endswith("Köln: a cathedral.")
    assert reply.usage.web_searches == 1
    started = [item for item in shown if isinstance(item, ServerToolStarted)]
    finished = [item for item in shown if isinstance(item, ServerToolFinished)]
    assert {item.call_id for item in started} == {item.call_id for item in finished} == {*results}
    assert "".join(item.text for item in shown if isinstance(item, TextDelta)) == "Köln: a cathedral."


def test_offsets_of_sources_count_characters() -> None:
    for case in (RESPONSES, GEMINI):
        _, reply = read(case, STREAMS[case.api])
        (text,) = (block for block in reply.message.content if isinstance(block, TextBlock))
        (source,) = text.citations
        assert text.text[source.start : source.end] == "a cathedral."


def test_a_picture_of_code_is_an_attachment_and_a_file_id_is_text() -> None:
    _, reply = read(RESPONSES, STREAMS["openai"])
    assert [block.mime_type for block in reply.message.content if isinstance(block, AttachmentBlock)] == ["image/png"]
    _, reply = read(ANTHROPIC, STREAMS["anthropic"])
    results = [block.text for block in reply.message.content if isinstance(block, ServerToolResultBlock)]
    assert "[file file_1]" in results[1]


@with_tools
def test_any_cut_into_chunks_gives_the_same_reply(case: Case) -> None:
    data = STREAMS[case.api]
    _, whole = read(case, data)
    for place in range(1, len(data), 7):
        assert read(case, data[:place], data[place:])[1] == whole


@with_tools
def test_a_stream_that_ends_early_is_an_error_or_the_whole_reply(case: Case) -> None:
    data = STREAMS[case.api]
    _, whole = read(case, data)
    for place in range(1, len(data), 11):
        try:
            _, reply = read(case, data[:place])
        except ProviderError:
            continue
        assert reply.message == whole.message


def test_anthropic_gets_its_blocks_back_as_they_came() -> None:
    _, reply = read(ANTHROPIC, STREAMS["anthropic"])
    content = sent(ANTHROPIC, reply.message)["messages"][1]["content"]
    assert content[:4] == [USE, FOUND, RAN, PRINTED]
    assert content[5] == {"type": "text", "text": "a cathedral.", "citations": [CITED]}


def test_openai_gets_its_items_back_with_the_reasoning_before_them() -> None:
    _, reply = read(RESPONSES, STREAMS["openai"])
    without_picture = Message(
        "assistant", tuple(b for b in reply.message.content if not isinstance(b, AttachmentBlock))
    )
    items = sent(RESPONSES, without_picture)["input"]
    assert items[1:4] == [REASONING, SEARCHED, COMPUTED]
    assert items[4]["content"][0]["annotations"] == [ANNOTATION]
    lost = Message("assistant", without_picture.content[1:])
    said = [item["content"] for item in sent(RESPONSES, lost)["input"][1:-1]]
    assert "köln" in said[0]
    assert "https://a.test" in said[1], "without its reasoning an item would be refused, so it is text"


def test_gemini_gets_its_parts_back_as_they_came() -> None:
    _, reply = read(GEMINI, STREAMS["gemini"])
    parts = sent(GEMINI, reply.message)["contents"][1]["parts"]
    assert parts[0] == {"executableCode": {"language": "PYTHON", "code": "print(1)"}, "thoughtSignature": "c2ln"}
    assert parts[1] == {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}
    assert len(parts) == 3


MOVES = [(here, there) for here in (ANTHROPIC, RESPONSES, GEMINI) for there in ONE_EACH if here is not there]


@pytest.mark.parametrize(("here", "there"), [parameter(*pair) for pair in MOVES])
def test_in_another_models_conversation_they_are_text(here: Case, there: Case) -> None:
    _, reply = read(here, STREAMS[here.api])
    kept = Message("assistant", tuple(b for b in reply.message.content if not isinstance(b, AttachmentBlock)))
    text = msgspec.json.encode(sent(there, kept)).decode()
    assert "web_search was called with" in text
    assert "https://a.test" in text
    assert "srvtoolu_1" not in text


@each(*ONE_EACH)
def test_sources_that_no_result_names_are_named_to_another_model_once(case: Case) -> None:
    source = Citation("https://b.test/a b", "B ]")
    cited = TextBlock("The Rhine.", citations=(source, source))
    text = msgspec.json.encode(sent(case, Message.assistant(cited))).decode()
    assert text.count("[sources: [B \\\\]](https://b.test/a%20b)]") == 1
    found = (ServerToolUseBlock("s", "web_search", {}), ServerToolResultBlock("s", "https://b.test/a b"), cited)
    assert "[sources:" not in msgspec.json.encode(sent(case, Message.assistant(*found))).decode()


def test_a_call_that_was_cut_off_is_not_sent_back_as_a_call() -> None:
    use = {"type": "content_block_start", "index": 0, "content_block": USE}
    end = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}}
    _, reply = read(ANTHROPIC, sse(use, {"type": "content_block_stop", "index": 0}, end, {"type": "message_stop"}))
    assert reply.stop_reason is StopReason.MAX_TOKENS
    (block,) = sent(ANTHROPIC, reply.message)["messages"][1]["content"]
    assert block["type"] == "text"


# Requests


@with_tools
def test_requests_declare_them_as_the_vendors_types_have_them(case: Case) -> None:
    tools = (web_search, code_execution) if case is RESPONSES else (web_search, web_fetch, code_execution)
    body = sent(case, Message.assistant("Well?"), server_tools=tools, tools=TOOLS)
    assert len(body["tools"]) == len(tools) + (1 if case is GEMINI else len(TOOLS))
    sent(case, Message.assistant("Well?"), server_tools=tools)


def test_options_go_where_the_api_has_them_and_others_are_refused() -> None:
    limited = web_search(allowed_domains=["python.org"], max_uses=2)
    (tool,) = sent(ANTHROPIC, Message.assistant("Well?"), server_tools=(limited,))["tools"]
    assert (tool["allowed_domains"], tool["max_uses"]) == (["python.org"], 2)
    (tool,) = sent(RESPONSES, Message.assistant("Well?"), server_tools=(web_search(allowed_domains=["a.test"]),))[
        "tools"
    ]
    assert tool["filters"] == {"allowed_domains": ["a.test"]}
    for case in (RESPONSES, GEMINI):
        with pytest.raises(RequestRefusedError, match="has no max_uses for web_search"):
            sent(case, Message.assistant("Well?"), server_tools=(web_search(max_uses=1),))


@pytest.mark.parametrize(
    ("case", "tool", "sentence"),
    [
        (CHAT, web_search, "has no web_search"),
        (RESPONSES, web_fetch, "has no web_fetch"),
        (Case("bedrock", "anthropic.claude-opus-4-7"), web_search, "has no web_search"),
        (Case("gemini", "gemini-2.5-pro"), web_search, "together with other tools"),
    ],
)
def test_a_model_without_the_tool_is_an_error_that_says_so(case: Case, tool: ServerTool, sentence: str) -> None:
    request = Request((Message.user("Hi"),), MemoryStore(), tools=TOOLS, server_tools=(tool,))
    with pytest.raises(RequestRefusedError, match=sentence):
        case.adapter().render(request)


@pytest.mark.parametrize(
    "wrong", [{"max_uses": 0}, {"allowed_domains": "a.test"}, {"allowed_domains": ["https://a.test"]}]
)
def test_wrong_options_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ToolDefinitionError):
        web_search(**wrong)


OPENROUTER = Case("openrouter", "openai/gpt-5.2")


def test_openrouter_searches_and_its_annotations_are_sources() -> None:
    tools = (web_search(blocked_domains=["b.test"]),)
    (*functions, search) = sent(OPENROUTER, Message.assistant("Well?"), server_tools=tools, tools=TOOLS)["tools"]
    assert search == {"type": "openrouter:web_search", "parameters": {"excluded_domains": ["b.test"]}}
    assert len(functions) == len(TOOLS)
    (search,) = sent(OPENROUTER, Message.assistant("Well?"), server_tools=(web_search,))["tools"]
    assert search == {"type": "openrouter:web_search"}
    with pytest.raises(RequestRefusedError, match="OpenRouter has no max_uses"):
        sent(OPENROUTER, Message.assistant("Well?"), server_tools=(web_search(max_uses=1),))

    def chunk(**delta: Any) -> Any:
        return {"choices": [{"index": 0, "delta": delta}]}

    place = {"url": "https://a.test", "title": "A", "content": "words", "start_index": 6, "end_index": 18}
    noted = [
        {"type": "url_citation", "url_citation": place},
        {"type": "file"},
        "nonsense",
        {"url_citation": {"url": 3}},
    ]
    usage = {"prompt_tokens": 5, "completion_tokens": 9, "server_tool_use": {"web_search_requests": 2}}
    stream = sse(
        chunk(content="Köln: "),
        chunk(content="a cathedral.", annotations=noted),
        chunk(
            content="", annotations=[*noted[:1], {"url_citation": place | {"url": "https://b.test", "end_index": 99}}]
        ),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
    )
    _, reply = read(OPENROUTER, stream)
    (text,) = (block for block in reply.message.content if isinstance(block, TextBlock))
    first, second = text.citations
    assert (first.url, first.text, text.text[first.start : first.end]) == ("https://a.test", "words", "a cathedral.")
    assert (second.url, second.start) == ("https://b.test", None), "a place outside of the text is dropped"
    assert reply.usage.web_searches == 2


# Sessions


async def test_a_session_logs_them_and_a_resumed_one_sends_them_back(tmp_path: Any) -> None:
    async with ModelServer([Raw(anthropic_stream()), Answer("Yes.")]) as server:
        model = type(ANTHROPIC.adapter())(ANTHROPIC.model, base_url=server.url, api_key="k")
        agent = Agent(model, tools=[web_search, code_execution])
        assert (agent.tools, [tool.name for tool in agent.server_tools]) == ((), ["web_search", "code_execution"])
        with Log(tmp_path / "log") as log:
            async with Session.open(log, agent=agent) as session:
                result = await session.run("Search.")
                assert [source.url for source in result.citations] == ["https://a.test"]
            async with Session.open(log, session.id, agent) as resumed:
                assert resumed.messages == session.messages
                await resumed.run("More?")
    first, second = (request.json for request in server.requests)
    assert [tool["name"] for tool in first["tools"]] == ["web_search", "code_execution"]
    assert second["messages"][1]["content"][:4] == [USE, FOUND, RAN, PRINTED]


@with_tools
async def test_a_fork_and_an_imported_export_have_the_same_blocks(case: Case, tmp_path: Any) -> None:
    store = MemoryStore()
    parser = ReplyParser(case.adapter().incoming((), store), "it")
    *_, reply = (*parser.feed(STREAMS[case.api]), *parser.finish())
    assert isinstance(reply, Reply)
    kept = [block for block in reply.message.content if not isinstance(block, AttachmentBlock)]
    said = Reply(Message.assistant(*kept), StopReason.END, reply.usage)
    agent = Agent(ScriptedModel([said]))
    with Log(tmp_path / "log") as log, Log(tmp_path / "other") as other:
        async with Session.open(log, agent=agent) as session:
            await session.run("Search.")
        imported = import_session(other, export(log, session.id, attachments=True))
        for where, name in ((log, log.fork(session.id)), (other, imported.id)):
            async with Session.open(where, name, agent) as copy:
                assert copy.messages == session.messages


@with_tools
def test_their_json_form_reads_back(case: Case) -> None:
    _, reply = read(case, STREAMS[case.api])
    conversation = [Message.user("Search."), reply.message]
    assert loads(dumps(conversation)) == conversation
    assert all(dict(block)["type"] == block.type for block in reply.message.content)
