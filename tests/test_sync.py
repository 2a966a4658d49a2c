"""think() and run() as a script uses them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import outrider
from outrider import (
    Agent,
    Attachment,
    Limits,
    Message,
    ProviderError,
    Session,
    ToolResult,
    ToolResultBlock,
    ask,
    dumps,
    loads,
    run,
    think,
)
from outrider.conversation.messages import TextBlock
from outrider.errors import ConversationError, MissingKeyError, UnknownModelError
from outrider.stores import FolderStore, MemoryStore
from outrider.testing import ScriptedModel, call

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


def read_file(path: str) -> str:
    """Read a text file."""
    return f"content of {path}"


# think


def test_think_alone_returns_a_string() -> None:
    assert think("What's 2+2?", model=ScriptedModel(["4"])) == "4"


def test_think_with_a_conversation_returns_a_turn_and_leaves_the_list_alone() -> None:
    conversation: list[Any] = []
    turn = think("Hello", conversation=conversation, model=ScriptedModel(["Hi."]))
    assert (turn.content, turn.has_tool_calls, turn.tool_calls) == ("Hi.", False, ())
    assert turn.conversation == [Message.user("Hello"), Message.assistant("Hi.")]
    assert conversation == []
    assert turn["conversation"] == [dict(message) for message in turn.conversation]
    assert turn["has_tool_calls"] is False
    assert turn["content"] == "Hi."
    with pytest.raises(KeyError):
        turn["nonsense"]


def test_continuing_a_conversation_of_two_gives_four() -> None:
    first = think("What's 2+2?", conversation=[], model=ScriptedModel(["4"]))
    second = think("And 3+3?", conversation=first.conversation, model=ScriptedModel(["6"]))
    assert [message.text for message in second.conversation] == ["What's 2+2?", "4", "And 3+3?", "6"]
    assert len(first.conversation) == 2


def test_calls_are_offered_not_run_and_results_can_be_given_by_hand() -> None:
    model = ScriptedModel([call("read_file", path="main.py"), "It prints hello."])
    turn = think("Read main.py", tools=[read_file], conversation=[], model=model)
    assert turn.has_tool_calls
    (use,) = turn.tool_calls
    assert (use.name, use.input) == ("read_file", {"path": "main.py"})
    results = [{"tool_use_id": use.id, "content": "print('hello')"}]
    done = think("", conversation=turn.conversation, tool_results=results, tools=[read_file], model=model)
    assert done.content == "It prints hello."
    assert done.conversation[2] == Message.user(ToolResultBlock(use.id, (TextBlock("print('hello')"),)))


def test_results_come_before_the_prompt_in_one_message() -> None:
    model = ScriptedModel([call("read_file", path="a"), "ok"])
    turn = think("Read", tools=[read_file], conversation=[], model=model)
    results = [ToolResultBlock(turn.tool_calls[0].id, (TextBlock("x"),), is_error=True)]
    done = think("and be brief", conversation=turn.conversation, tool_results=results, model=model)
    assert done.conversation[2].content == (results[0], TextBlock("and be brief"))


@pytest.mark.parametrize("wrong", ["x", {"tool_use_id": "a"}, b"x", 3])
def test_results_that_are_not_a_list_are_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="tool_results is a list"):
        think("", conversation=[], tool_results=wrong, model=ScriptedModel([]))


def test_a_result_for_a_call_that_nobody_made_is_refused() -> None:
    with pytest.raises(ConversationError, match="no call waits for a result with the id 'zz'; waiting: none"):
        think("", conversation=[], tool_results=[{"tool_use_id": "zz", "content": "x"}], model=ScriptedModel([]))


def test_tools_without_a_conversation_begin_one() -> None:
    model = ScriptedModel([call("read_file", path="main.py"), "It prints hello."])
    turn = think("Read main.py", tools=[read_file], model=model)
    assert (turn.has_tool_calls, len(turn.conversation)) == (True, 2)
    assert [spec.name for spec in model.requests[0].tools] == ["read_file"]
    assert run(turn.conversation, [read_file], model=model).text == "It prints hello."


def test_whether_tools_are_given_decides_and_not_how_many() -> None:
    assert think("Hello", tools=[], model=ScriptedModel(["Hi."])).content == "Hi."
    assert think("Hello", tools=None, model=ScriptedModel(["Hi."])) == "Hi."


def test_no_tools_and_no_results_may_be_none() -> None:
    assert think("Hello", tool_results=None, model=ScriptedModel(["Hi."])) == "Hi."
    turn = think("Hello", conversation=[], tools=None, tool_results=None, model=ScriptedModel(["Hi."]))
    assert turn.conversation == [Message.user("Hello"), Message.assistant("Hi.")]
    assert run("Hello", tools=None, model=ScriptedModel(["Hi."])).text == "Hi."
    assert ask("Hello", tools=None, model=ScriptedModel(["Hi."])) == "Hi."
    session = Session(Agent(model=ScriptedModel(["Hi."])))
    assert asyncio.run(session.think("Hello", tool_results=None)).text == "Hi."


@pytest.mark.parametrize("tools", [None, [read_file]])
def test_results_without_their_conversation_are_refused_before_anything_is_sent(tools: Any) -> None:
    model = ScriptedModel(["never"])
    with pytest.raises(TypeError, match=r"tool_results needs the conversation .* conversation=turn\.conversation"):
        think("", tools=tools, tool_results=[{"tool_use_id": "c1", "content": "x"}], model=model)  # type: ignore[call-overload]
    assert model.requests == []


def test_a_provider_failure_is_raised_by_think() -> None:
    with pytest.raises(ProviderError, match="overloaded"):
        think("hi", model=ScriptedModel([ProviderError("overloaded")]))


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(UnknownModelError, match="there is no model 'llama-17'"):
        think("hi", model="llama-17")


def test_the_system_prompt_is_not_a_message() -> None:
    model = ScriptedModel(["ok"])
    think("hi", model=model, system="Be brief.")
    assert model.requests[0].system == "Be brief."
    assert list(model.requests[0].messages) == [Message.user("hi")]


# run


def test_run_goes_on_from_a_turn_with_pending_calls() -> None:
    model = ScriptedModel([call("read_file", path="main.py"), "It prints hello."])
    turn = think("Read main.py and explain it", tools=[read_file], conversation=[], model=model)
    result = run(turn.conversation, tools=[read_file], max_turns=10, model=model)
    assert (result.status, result.turns, result.text) == ("done", 1, "It prints hello.")
    assert len(result.conversation) == 4
    assert len(turn.conversation) == 2


def test_run_accepts_dicts_and_a_bare_prompt() -> None:
    assert run([{"role": "user", "content": "hi"}], model=ScriptedModel(["ok"])).text == "ok"
    assert run("hi", model=ScriptedModel(["ok"])).text == "ok"


def test_running_out_of_turns_and_going_on() -> None:
    model = ScriptedModel([call("read_file", path="a"), call("read_file", path="b"), "done"])
    first = run("go", [read_file], 2, model=model)
    assert (first.status, first.turns) == ("max_turns", 2)
    second = run(first.conversation, [read_file], 2, model=model)
    assert (second.status, second.text) == ("done", "done")


def test_a_provider_failure_is_a_status_of_run() -> None:
    result = run("go", model=ScriptedModel([ProviderError("overloaded")]))
    assert (result.status, result.error, result.conversation) == ("error", "overloaded", [Message.user("go")])


async def test_a_running_event_loop_is_not_blocked() -> None:
    for verb, instead in ((think, "agent.think"), (run, "agent.run"), (ask, "agent.ask")):
        with pytest.raises(RuntimeError, match="would block the event loop that is running here") as refused:
            verb("hi", model="demo")
        assert f"write await agent.{instead.removeprefix('agent.')}(prompt)" in str(refused.value)


async def test_both_work_in_the_event_loop_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))  # type: ignore[arg-type]
    assert asyncio.get_running_loop().is_running()
    assert think("hi", model=ScriptedModel(["from a notebook"])) == "from a notebook"
    assert run("hi", [read_file], model=ScriptedModel([call("read_file", path="a"), "ok"])).text == "ok"
    with pytest.raises(ProviderError):
        think("hi", model=ScriptedModel([ProviderError("no")]))


def test_many_threads_may_think_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: think("hi", model=ScriptedModel([str(n)])), range(40)))
    assert answers == [str(n) for n in range(40)]


INTERRUPTED = """
import sys, time
from outrider import run, tool
from outrider.testing import ScriptedModel
from outrider.testing import call

@tool
def wait() -> str:
    print("waiting", flush=True)
    time.sleep(60)

try:
    run("go", tools=[wait], model=ScriptedModel([["Hm.", call("wait")]]))
except KeyboardInterrupt as interrupt:
    messages = interrupt.conversation
    print(len(messages), messages[-1].tool_results[0].is_error)
"""


def test_an_interrupt_hands_back_the_conversation_with_every_call_answered() -> None:
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "waiting\n"
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "3 True\n"


# Storing


def test_a_conversation_round_trips_through_json() -> None:
    result = run("go", [read_file], model=ScriptedModel([["Hm.", call("read_file", path="ä")], "ok"]))
    text = dumps(result.conversation)
    assert loads(text) == result.conversation
    assert loads(text.encode()) == result.conversation
    assert json.loads(text)[1]["content"][1]["input"] == {"path": "ä"}


def test_another_process_finds_the_files_of_a_saved_conversation() -> None:
    def chart() -> ToolResult:
        return ToolResult("chart", attachments=[Attachment(PNG, name="q3.png")])

    text = dumps(run("go", [chart], model=ScriptedModel([call("chart"), "ok"])).conversation)
    script = (
        "import sys, outrider; from outrider.conversation.store import default_store\n"
        "conversation = outrider.loads(sys.stdin.read())\n"
        "file, = conversation[2].tool_results[0].attachments\n"
        "print(len(default_store().read(file)))"
    )
    ended = subprocess.run([sys.executable, "-c", script], input=text, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == str(len(PNG))


async def test_agents_and_sessions_have_the_files_of_a_saved_conversation() -> None:
    def chart() -> ToolResult:
        return ToolResult("chart", attachments=[Attachment(PNG, name="q3.png")])

    agent = Agent(ScriptedModel([call("chart"), "ok"]), tools=[chart])
    saved = dumps((await agent.run("go")).conversation)
    session = Agent(ScriptedModel(["A chart."])).session(loads(saved))
    [file] = session.messages[2].tool_results[0].attachments
    assert session.store.read(file) == PNG


def test_inline_carries_the_files_to_another_machine(tmp_path: Path) -> None:
    here, there = FolderStore(tmp_path / "here"), FolderStore(tmp_path / "there")
    turn = think(["Look", Attachment(PNG, name="a.png")], conversation=[], model=ScriptedModel(["ok"]), store=here)
    assert "base64" not in dumps(turn.conversation)
    moved = loads(dumps(turn.conversation, inline=True, store=here), store=there)
    assert moved == turn.conversation
    assert there.read(moved[0].content[1]) == PNG  # type: ignore[arg-type]


def test_the_data_folder_is_for_the_owner_alone(own_data_folder: Path) -> None:
    think(["Look", Attachment(PNG)], conversation=[], model=ScriptedModel(["ok"]))
    made = list(own_data_folder.rglob("*"))
    assert any(path.is_file() for path in made)
    assert all(path.stat().st_mode & 0o077 == 0 for path in made)


@pytest.mark.parametrize(
    "model", [None, "fast", "anthropic/fast", "gemini/fast", "bedrock/anthropic.claude-sonnet-5-5"]
)
def test_without_a_key_nothing_answers_and_the_variables_are_named(model: str | None) -> None:
    for verb in (think, run, ask):
        with pytest.raises(MissingKeyError, match=r"no (key|credentials) for .*; set [A-Z_]+") as refused:
            verb("What's 2+2?", model=model)
        assert "the model `demo` needs no key" in str(refused.value)


async def test_a_run_without_a_key_raises_and_can_be_repeated_with_another_model() -> None:
    session = Session(Agent("openai/fast"))
    with pytest.raises(MissingKeyError, match="OPENAI_API_KEY"):
        await session.run("What's 2+2?")
    session.agent = Agent("demo")
    assert (await session.run()).text == "4"


def test_the_default_model_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MODEL", "demo")
    assert think("What's 2+2?") == "4"
    monkeypatch.setenv("OUTRIDER_MODEL", "nonsense/1")
    with pytest.raises(UnknownModelError, match="nonsense/1"):
        outrider.think("hi")


def test_limits_count_unless_turns_are_given() -> None:
    model = ScriptedModel(lambda request: call("read_file", path="a"))
    assert run("go", [read_file], limits=Limits(max_turns=3), model=model).turns == 3
    assert run("go", [read_file], 2, limits=Limits(max_turns=3), model=model).turns == 2


def test_a_turn_reads_like_a_dict() -> None:
    turn = think("hi", conversation=[], model=ScriptedModel(["Hello."]))
    assert "content" in turn
    assert "nonsense" not in turn
    fields = ["content", "conversation", "tool_calls", "usage", "stop_reason", "has_tool_calls"]
    assert list(dict(turn)) == list({**turn}) == fields
    assert dict(turn)["content"] == turn["content"] == "Hello."


def test_a_result_reads_like_a_dict() -> None:
    result = run("hi", model=ScriptedModel(["Hello."]))
    assert (result["status"], result["turns"], result["text"]) == ("done", 1, "Hello.")
    assert result["conversation"] == [dict(message) for message in result.conversation]
    assert dict(result)["usage"] == dict(result.usage)
    assert list(dict(result))[:5] == ["status", "text", "turns", "usage", "conversation"]


def test_calls_and_messages_of_a_turn_read_like_dicts() -> None:
    turn = think("Read", tools=[read_file], conversation=[], model=ScriptedModel([call("read_file", path="a")]))
    assert turn["tool_calls"][0]["arguments"] == turn.tool_calls[0].arguments == {"path": "a"}
    assert turn["conversation"][0]["role"] == "user"
    assert turn["conversation"][1]["content"][0]["type"] == "tool_use"


def test_a_turn_or_a_result_in_the_place_of_a_conversation_is_refused() -> None:
    turn = think("hi", conversation=[], model=ScriptedModel(["Hello."]))
    with pytest.raises(TypeError, match=r"not Turn; write …\.conversation to go on with its messages"):
        run(turn, model=ScriptedModel([]))  # type: ignore[call-overload]
    with pytest.raises(ConversationError, match="a conversation is a list of messages, not RunResult"):
        think("on", conversation=run("hi", model=ScriptedModel(["ok"])), model=ScriptedModel([]))  # type: ignore[call-overload]


def test_an_empty_store_of_ones_own_is_used() -> None:
    class Sized(MemoryStore):
        def __len__(self) -> int:
            return len(self._files)

    store = Sized()
    think(["Look", Attachment(PNG)], conversation=[], model=ScriptedModel(["ok"]), store=store)
    assert len(store) == 1
