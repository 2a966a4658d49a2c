"""Multi-turn conversations for scripts: the document's own examples and statements, against a model server on loopback.

Translated only where the language differs: `exec` is `run`, a tool is a function and not its name, `Value::Map` is an
object that is read by item. The numbers are those of the document's headings of the second level: 1 Overview, 2 Core
Concept, 3 API Changes, 4 Native Tool Use, 5 Message Format, 6 Conversation Management, 7 Tool Loop Rewrite, 8 Max Turn
Handling, 9 Backward Compatibility, 10 Implementation Notes, 11 Example Usage.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from outrider import dumps, loads, run, think
from outrider.errors import ConversationError
from outrider.providers.api import ApiProvider
from outrider.providers.resolution import resolve
from outrider.testing import ScriptedModel, call
from tests.modelserver import ModelServer, Recorded, Status, Step
from tests.streams import Answer, Json

MODEL = "claude-sonnet-4-20250514"
KEY = "sk-ant-a-key"
MAIN = "def main():\n    print('hello')"
FINAL_TURN = "This is your FINAL turn"
READ_MAIN = Answer("Let me read that file...", (("call_123", "read_file", {"path": "main.py"}),))
MIXED: list[Json] = [
    {"type": "text", "text": "Let me read that file..."},
    {"type": "tool_use", "id": "call_123", "name": "read_file", "input": {"path": "main.py"}},
]
"""The document's response with mixed content blocks."""
Says = Callable[..., list[Recorded]]


def read_file(path: str) -> str:
    """Read a text file."""
    return Path(path).read_text()


@pytest.fixture(autouse=True)
def _a_folder_with_main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "main.py").write_text(MAIN)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Iterator[Says]:
    """A function that has the model answer so, one step a request, and gives the list of requests."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    servers: list[ModelServer] = []

    def start(*steps: Step) -> list[Recorded]:
        server = ModelServer(steps)
        asyncio.run_coroutine_threadsafe(server.open(), loop).result(30)
        servers.append(server)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("OUTRIDER_MODEL", MODEL)
        return server.requests

    try:
        yield start
    finally:
        for server in servers:
            asyncio.run_coroutine_threadsafe(server.close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def messages_in(request: Recorded) -> list[Json]:
    """The messages of a request, without what tells the API where to cache."""
    messages: list[Json] = request.json["messages"]
    for message in messages:
        for block in message["content"]:
            block.pop("cache_control", None)
    return messages


def user(text: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def assistant(text: str) -> Json:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def result(id: str, text: str) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": text}]}


# Messages


def test_a_conversation_is_a_list_of_messages_with_role_and_content(says: Says) -> None:
    """2: "role" and "content" of each, "tool_calls" and "has_tool_calls" for tool use."""
    says(READ_MAIN)
    r = think("Read main.py", model=MODEL, tools=[read_file], conversation=[])
    assert isinstance(r["conversation"], list)
    assert [m["role"] for m in r["conversation"]] == ["user", "assistant"]
    assert r["conversation"][0]["content"] == "Read main.py"
    assert r["conversation"][1]["has_tool_calls"] is True
    assert r["conversation"][1]["tool_calls"][0]["name"] == "read_file"


@pytest.mark.parametrize(
    "results",
    [
        [{"role": "tool", "tool_use_id": "call_123", "content": MAIN}],
        [{"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "call_123", "content": MAIN}]}],
        [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_123", "content": MAIN}]}],
    ],
)
def test_every_form_of_a_message_is_accepted_and_sent_alike(says: Says, results: list[Json]) -> None:
    """2, 6: the roles are "user", "assistant" and "tool"; the forms of user, assistant and tool result messages."""
    asked = says(Answer("It prints hello."))
    call = {"id": "call_123", "name": "read_file", "arguments": {"path": "main.py"}}
    conversation = [
        {"role": "user", "content": "Read main.py"},
        {
            "role": "assistant",
            "content": "Let me read that file...",
            "has_tool_calls": True,
            "tool_calls": [call],
        },
        *results,
    ]
    r = think("What does it print?", model=MODEL, conversation=conversation, tools=[read_file])
    assert r["content"] == "It prints hello."
    assert messages_in(asked[0]) == [
        user("Read main.py"),
        {"role": "assistant", "content": MIXED},
        {"role": "user", "content": [result("call_123", MAIN), {"type": "text", "text": "What does it print?"}]},
    ]


def test_content_is_a_string_or_a_list_of_blocks(says: Says) -> None:
    """6: `{"type": "text"}` and `{"type": "tool_result"}` blocks, as they are written and as they are read."""
    asked = says(Answer("Hi."))
    blocks = [{"type": "text", "text": "Look at this."}, {"type": "text", "text": "And this."}]
    r = think("Well?", model=MODEL, conversation=[{"role": "user", "content": blocks}])
    assert messages_in(asked[0])[0]["content"][:2] == blocks
    assert [dict(block) for block in r["conversation"][0]["content"]] == blocks
    assert r["conversation"][1]["content"] == "Well?"


# think()


def test_single_turn_returns_a_string(says: Says) -> None:
    """5, 9: `r = think("Hello", model=…)` gives the string "Hi there!"."""
    asked = says(Answer("Hi there!"))
    r = think("Hello", model="claude-sonnet-4-20250514")
    assert r == "Hi there!"
    assert isinstance(r, str)
    assert messages_in(asked[0]) == [user("Hello")]
    assert "tools" not in asked[0].json


def test_multi_turn_with_a_conversation_returns_a_map(says: Says) -> None:
    """5: `r = think("Hello", model=…, conversation=[])`, and all that the document says it returns."""
    says(Answer("Hi there!"))
    r = think("Hello", model="claude-sonnet-4-20250514", conversation=[])
    assert r["content"] == "Hi there!"
    assert r["conversation"] == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi there!", "has_tool_calls": False},
    ]
    assert json.loads(json.dumps(r["conversation"])) == r["conversation"]
    assert r["has_tool_calls"] is False
    assert {"content", "conversation", "has_tool_calls"} <= dict(r).keys()


def test_the_return_value_has_the_conversation_the_calls_and_whether_there_are_any(says: Says) -> None:
    """3: `result["conversation"]`, `result["tool_calls"]` with id, name and arguments, `result["has_tool_calls"]`."""
    says(READ_MAIN)
    r = think("Read main.py", model=MODEL, tools=[read_file], conversation=[])
    assert len(r["conversation"]) == 2
    assert r["has_tool_calls"] is True
    (asked_for,) = r["tool_calls"]
    assert (asked_for["id"], asked_for["name"], asked_for["arguments"]) == (
        "call_123",
        "read_file",
        {"path": "main.py"},
    )
    assert asked_for["arguments"] == r.tool_calls[0].arguments == r.tool_calls[0].input


def test_the_prompt_is_appended_and_the_whole_conversation_is_sent(says: Says) -> None:
    """1, 3: the conversation accumulates on the client's side; what is given is not changed."""
    asked = says(Answer("Hello again."))
    conversation = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi there!"}]
    before = json.dumps(conversation)
    r = think("It is me.", model=MODEL, conversation=conversation)
    assert messages_in(asked[0]) == [user("Hello"), assistant("Hi there!"), user("It is me.")]
    assert len(r["conversation"]) == 4
    assert json.dumps(conversation) == before


def test_tool_results_are_appended_as_a_user_message(says: Says) -> None:
    """3, 5: `think("", conversation=conv, tool_results=tool_results, tools=[…])`."""
    asked = says(READ_MAIN, Answer("It is the main file."))
    conv = think("Read main.py", model=MODEL, tools=[read_file], conversation=[])["conversation"]
    tool_results = [{"tool_use_id": "call_123", "content": "File contents here"}]
    r = think("", model=MODEL, conversation=conv, tool_results=tool_results, tools=[read_file])
    assert r["content"] == "It is the main file."
    assert messages_in(asked[1])[2] == {"role": "user", "content": [result("call_123", "File contents here")]}
    assert dict(r["conversation"][2]["content"][0]) == {
        "type": "tool_result",
        "tool_use_id": "call_123",
        "content": "File contents here",
    }


def test_conversation_and_tool_results_are_optional_and_none_by_default(says: Says) -> None:
    """3, 9: `none` is the same as nothing; only `conversation=[]` or tools begin a conversation."""
    says(Answer("Hi there!"), Answer("Hi there!"), READ_MAIN)
    assert think("Hello", model=MODEL, conversation=None, tool_results=None) == "Hi there!"
    assert think("Hello", model=MODEL, conversation=[], tool_results=None)["content"] == "Hi there!"
    assert think("Read main.py", model=MODEL, tools=[read_file])["has_tool_calls"] is True


def test_results_without_a_conversation_are_an_error_that_says_what_to_do() -> None:
    """3: tool results respond to calls, which only a conversation has."""
    results = [{"tool_use_id": "call_123", "content": "x"}]
    with pytest.raises(TypeError, match=r"needs the conversation .* conversation=turn\.conversation"):
        think("", model=ScriptedModel([]), tool_results=results)  # type: ignore[call-overload]


# On the wire


def test_tools_are_sent_natively_with_their_schemas(says: Says) -> None:
    """4: name, docstring as the description, parameters as the properties; nothing goes into the system prompt."""
    asked = says(Answer("Hello."))
    think("Hello", model=MODEL, tools=[read_file], conversation=[])
    (tool,) = asked[0].json["tools"]
    assert (tool["name"], tool["description"]) == ("read_file", "Read a text file.")
    assert tool["input_schema"]["type"] == "object"
    assert tool["input_schema"]["properties"] == {"path": {"type": "string"}}
    assert "read_file" not in json.dumps(asked[0].json.get("system", ""))


def test_requests_go_to_the_messages_api_with_key_and_version(says: Says) -> None:
    """10: endpoint, `x-api-key` from ANTHROPIC_API_KEY, `anthropic-version: 2023-06-01`."""
    provider = resolve(MODEL)
    assert isinstance(provider, ApiProvider)
    assert provider.url() == "https://api.anthropic.com/v1/messages"
    asked = says(Answer("Hello."))
    think("Hello", model=MODEL)
    assert asked[0].path == "/v1/messages"
    assert asked[0].headers["x-api-key"] == KEY
    assert asked[0].headers["anthropic-version"] == "2023-06-01"
    assert asked[0].json["model"] == MODEL


def test_mixed_content_blocks_of_a_response_are_read_as_they_are(says: Says) -> None:
    """4, 10: text and tool_use blocks, and the stop reason "tool_use"."""
    says(READ_MAIN)
    r = think("Read main.py", model=MODEL, tools=[read_file], conversation=[])
    assert r["content"] == "Let me read that file..."
    assert r["stop_reason"] == "tool_use"
    assert [dict(block) for block in r["conversation"][1]["content"]] == MIXED


def test_tool_results_in_user_messages_are_the_documents_blocks(says: Says) -> None:
    """10: `{"type": "tool_result", "tool_use_id": "call_123", "content": "def main():…"}`."""
    asked = says(READ_MAIN, Answer("It prints hello."))
    r = think("Read main.py", model=MODEL, tools=[read_file], conversation=[])
    done = run(r["conversation"], tools=[read_file], model=MODEL)
    written = [{"type": "tool_result", "tool_use_id": "call_123", "content": MAIN}]
    assert [dict(block) for block in done["conversation"][2]["content"]] == written
    assert messages_in(asked[1])[2] == {"role": "user", "content": [result("call_123", MAIN)]}


# run()


def test_the_loop_thinks_acts_and_thinks_again_until_there_are_no_calls(says: Says) -> None:
    """7: steps 1 to 5, with the results of several calls in one message."""
    Path("other.py").write_text("pass")
    calls = (("c1", "read_file", {"path": "main.py"}), ("c2", "read_file", {"path": "other.py"}))
    again = Answer(calls=(("c3", "read_file", {"path": "main.py"}),))
    asked = says(Answer("Both.", calls), again, Answer("Done."))
    done = run("Read both.", tools=[read_file], max_turns=10, model=MODEL)
    assert (done["status"], done["turns"], done["text"]) == ("done", 3, "Done.")
    assert [m["role"] for m in done["conversation"]] == ["user", "assistant"] * 3
    assert messages_in(asked[1])[2] == {"role": "user", "content": [result("c1", MAIN), result("c2", "pass")]}
    assert done["conversation"][-1]["has_tool_calls"] is False


def test_the_loop_can_be_written_by_hand(says: Says) -> None:
    """7: the same steps with think() alone."""
    says(READ_MAIN, Answer("It prints hello."))
    r = think("Read main.py", model=MODEL, tools=[read_file], conversation=[])
    while r["has_tool_calls"]:
        results = [{"tool_use_id": c["id"], "content": read_file(**c["arguments"])} for c in r["tool_calls"]]
        r = think("", model=MODEL, conversation=r["conversation"], tool_results=results, tools=[read_file])
    assert r["content"] == "It prints hello."
    assert len(r["conversation"]) == 4


def test_nothing_of_a_long_conversation_is_cut_off(says: Says) -> None:
    """7: no sliding window, no truncation; the last request has every word of the first."""
    turns = 60
    for n in range(turns):
        Path(f"{n}.txt").write_text(f"{n} " * 1000)
    steps = [Answer(f"Step {n}.", ((f"c{n}", "read_file", {"path": f"{n}.txt"}),)) for n in range(turns)]
    asked = says(*steps, Answer("Done."))
    done = run("Begin.", tools=[read_file], max_turns=100, model=MODEL)
    assert (done["status"], len(done["conversation"])) == ("done", 2 * turns + 2)
    sent = messages_in(asked[-1])
    assert sent[0] == user("Begin.")
    assert [message["content"][0]["text"] for message in sent[1::2]] == [f"Step {n}." for n in range(turns)]
    assert [message["content"] for message in sent[2::2]] == [[result(f"c{n}", f"{n} " * 1000)] for n in range(turns)]


def test_the_last_turn_is_announced_and_only_the_last(says: Says) -> None:
    """8: "This is your FINAL turn" goes to the model, and not into the conversation."""
    again = Answer(calls=(("c2", "read_file", {"path": "main.py"}),))
    asked = says(READ_MAIN, again)
    done = run("Read main.py", tools=[read_file], max_turns=2, model=MODEL)
    assert [FINAL_TURN in request.body.decode() for request in asked] == [False, True]
    assert FINAL_TURN in json.dumps(messages_in(asked[1])[-1])
    assert FINAL_TURN not in dumps(done["conversation"])
    assert (done["status"], done["turns"]) == ("max_turns", 2)


def test_the_return_status_says_how_it_ended(says: Says) -> None:
    """8: `{"status": "done"|"max_turns"|"error", "turns": N, "conversation": […]}`."""
    says(Answer("Done."), READ_MAIN, Status(400))
    outcomes = [run("Go.", tools=[read_file], max_turns=1, model=MODEL) for _ in range(3)]
    assert [(o["status"], o["turns"]) for o in outcomes] == [("done", 1), ("max_turns", 1), ("error", 1)]
    assert [len(o["conversation"]) for o in outcomes] == [2, 3, 1]
    for outcome in outcomes:
        assert {"status", "turns", "conversation"} <= dict(outcome).keys()


def test_the_caller_goes_on_with_more_turns(says: Says) -> None:
    """8: `run` again with the conversation that came back."""
    asked = says(READ_MAIN, Answer("It prints hello."))
    first = run("Read main.py", tools=[read_file], max_turns=1, model=MODEL)
    assert first["status"] == "max_turns"
    second = run(first["conversation"], tools=[read_file], max_turns=5, model=MODEL)
    assert (second["status"], second["turns"], second["text"]) == ("done", 1, "It prints hello.")
    assert second["conversation"][:3] == first["conversation"]
    assert messages_in(asked[1])[2]["content"] == [result("call_123", MAIN)]


# The examples


def test_basic_multi_turn(says: Says) -> None:
    """11: the first example, as it stands there."""
    asked = says(Answer("4"), Answer("6"))
    # Start conversation
    r1 = think("What's 2+2?", conversation=[])
    conv = r1["conversation"]

    # Continue conversation
    r2 = think("What about 3+3?", conversation=conv)
    conv = r2["conversation"]
    assert [message["content"] for message in conv] == ["What's 2+2?", "4", "What about 3+3?", "6"]
    assert messages_in(asked[1]) == [user("What's 2+2?"), assistant("4"), user("What about 3+3?")]


def test_with_tool_use(says: Says) -> None:
    """11: the second example, as it stands there."""
    says(READ_MAIN, Answer("It prints hello."))
    # Start with tool-enabled conversation
    r = think("Read main.py and explain it", tools=[read_file], conversation=[])

    if r["has_tool_calls"]:
        # Use run to handle the tool loop
        result = run(r["conversation"], tools=[read_file], max_turns=10)
        final_conv = result["conversation"]
    assert [message["role"] for message in final_conv] == ["user", "assistant", "user", "assistant"]
    assert final_conv[-1]["content"] == "It prints hello."


def test_a_conversation_is_kept_as_json_and_goes_on(says: Says) -> None:
    """1, 2: it is data on the client's side; also in the document's form it comes back the same."""
    says(READ_MAIN, Answer("It prints hello."))
    kept = dumps(run("Read main.py", tools=[read_file], model=MODEL)["conversation"])
    assert dumps([dict(message) for message in loads(kept)]) == kept


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "assistant", "content": "Hi", "has_tool_calls": True}, "has_tool_calls of message 2 is true"),
        ({"role": "tool", "content": "42"}, "message 2 has the role 'tool' and no tool_use_id"),
    ],
)
def test_a_message_that_contradicts_itself_never_reaches_the_model(message: Json, words: str) -> None:
    """6: the structure of messages is checked, and the place is named."""
    model = ScriptedModel([call("read_file", path="main.py")])
    conversation: list[Any] = [{"role": "user", "content": "Hello"}, message]
    with pytest.raises(ConversationError, match=words):
        think("Go on", model=model, conversation=conversation)
    assert model.requests == []


# The document's scripts, as they are written


def test_the_script_of_several_turns_runs_as_it_is_written(says: Says) -> None:
    """11: "Basic Multi-Turn", and what a script does next: it saves the list, and goes on with what it has read."""
    asked = says(Answer("4"), Answer("6"), Answer("8"))
    r1 = think("What's 2+2?", conversation=[])
    conv = r1["conversation"]
    r2 = think("What about 3+3?", conversation=conv)
    conv = r2["conversation"]
    saved = json.dumps(conv)
    assert conv[0] == {"role": "user", "content": "What's 2+2?"}
    r3 = think("And 4+4?", conversation=json.loads(saved))
    assert json.loads(json.dumps(r3["conversation"]))[:4] == conv
    said = [user("What's 2+2?"), assistant("4"), user("What about 3+3?"), assistant("6"), user("And 4+4?")]
    assert messages_in(asked[2]) == said


def test_the_script_with_tools_runs_with_exec_as_run(says: Says) -> None:
    """11: "With Tool Use"; `exec` is `run`, and a tool is its function. Every step survives JSON."""
    says(READ_MAIN, Answer("It prints hello."))
    r = think("Read main.py and explain it", tools=[read_file], conversation=[])
    assert r["has_tool_calls"]
    assert json.loads(json.dumps(r["tool_calls"]))[0]["arguments"] == {"path": "main.py"}
    done = run(json.loads(json.dumps(r["conversation"])), tools=[read_file], max_turns=10)
    final_conv = done["conversation"]
    assert json.loads(json.dumps(dict(done)))["conversation"] == final_conv
    assert final_conv[2] == {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "call_123", "content": MAIN}],
    }
