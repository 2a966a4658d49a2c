"""Tool results as content blocks, and when to start a sub-agent: the document's examples, in our API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider import (
    Agent,
    Limits,
    Message,
    Profile,
    Session,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    dumps,
    loads,
    run,
    think,
    tool,
    with_subagents,
)
from outrider.coding.toolbox import TOOL_NAMES
from outrider.conversation.messages import Block
from outrider.conversation.store import MemoryStore
from outrider.errors import ConversationError
from outrider.providers.base import Request
from outrider.runtime.events import ToolFinished
from outrider.testing import ScriptedModel, Step, call
from tests.adapters import ONE_EACH, Case, each
from tests.modelserver import ModelServer
from tests.oracles import check
from tests.streams import Answer
from tests.subagents.teams import HELPER, Team, bench_in, play, results_of, run_in, task
from tests.watching import Watched

BLOCKS: list[tuple[Block, dict[str, Any]]] = [
    (TextBlock("Hello"), {"type": "text", "text": "Hello"}),
    (
        ToolUseBlock("toolu_1", "Read", {"file_path": "main.rs"}),
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "main.rs"}},
    ),
    (
        ToolResultBlock("toolu_1", (TextBlock("fn main() {}"),)),
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "fn main() {}"}]},
    ),
    (
        ToolResultBlock("toolu_1", (TextBlock("File not found"),), is_error=True),
        {
            "type": "tool_result",
            "tool_use_id": "toolu_1",
            "content": [{"type": "text", "text": "File not found"}],
            "is_error": True,
        },
    ),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and a user who has set nothing."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OUTRIDER_CONFIG", str(tmp_path / "home" / "config.toml"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "main.rs").write_text("fn main() {}\n")
    (folder / "big.txt").write_text("".join(f"line {number} of a long file\n" for number in range(1_500)))
    return folder


@tool(name="Read", effect="read")
def read(file_path: str) -> str:
    """Read a file."""
    return f"the text of {file_path}"


@tool(name="Grep", effect="read")
def grep(pattern: str) -> str:
    """Search."""
    if pattern == "(":
        raise ValueError("unbalanced parenthesis")
    return f"main.rs:1:{pattern}"


def rendered(messages: Sequence[Message], case: Case = ONE_EACH[0]) -> Any:
    """The messages of a request, as they are sent: the document calls this to_llm_messages."""
    request = Request(messages, MemoryStore())
    body = case.adapter().render(request)
    check(case, body, request)
    return json.loads(body)


# Phase 1: content blocks


@pytest.mark.parametrize(("block", "shape"), BLOCKS)
def test_a_block_has_the_documents_shape_and_round_trips(block: Block, shape: dict[str, Any]) -> None:
    """1.1, unit test 1."""
    encoded = json.loads(msgspec.json.encode(block))
    assert encoded == shape
    role = "user" if isinstance(block, ToolResultBlock) else "assistant"
    conversation = [Message(role, (block,))]  # type: ignore[arg-type]
    assert loads(dumps(conversation)) == conversation


@pytest.mark.parametrize("content", ["Hello", [{"type": "text", "text": "Hello"}]])
def test_the_content_of_a_message_is_text_or_blocks(content: Any) -> None:
    """1.1, MessageContent; risk 1: plain text is still taken."""
    assert loads(json.dumps([{"role": "user", "content": content}])) == [Message("user", (TextBlock("Hello"),))]


def test_the_content_of_a_result_is_text_or_blocks() -> None:
    """1.1: the document's ToolResult has a string; ours may have files, so that it is written as blocks."""
    use = ToolUseBlock("c1", "Read", {})
    said = {"type": "tool_result", "tool_use_id": "c1", "content": "42"}
    (_, message) = loads(json.dumps([msgspec.to_builtins(Message.assistant(use)), {"role": "user", "content": [said]}]))
    assert message == Message.user(ToolResultBlock("c1", (TextBlock("42"),)))


@pytest.mark.parametrize("is_error", [True, False])
def test_a_tool_result_is_a_user_message_with_one_block(is_error: bool) -> None:
    """1.2, unit test 2, success criteria 1 and 3: is_error stands there only if it is true."""
    message = Message.user(ToolResultBlock("c1", (TextBlock("42"),), is_error))
    encoded = json.loads(msgspec.json.encode(message))
    assert (encoded["role"], len(encoded["content"])) == ("user", 1)
    assert (encoded["content"][0]["type"], encoded["content"][0]["tool_use_id"]) == ("tool_result", "c1")
    assert encoded["content"][0].get("is_error") == (True if is_error else None)
    assert ("is_error" in encoded["content"][0]) == is_error


@each(*ONE_EACH)
def test_each_provider_gets_results_in_its_own_form(case: Case) -> None:
    """1.3, risk 2: judged by the vendor's own types, and by who answers whom."""
    use, other = ToolUseBlock("c1", "Read", {"file_path": "a"}), ToolUseBlock("c2", "Grep", {"pattern": "b"})
    history = [
        Message.user("Look."),
        Message.assistant("I'll look.", use, other),
        Message.user(ToolResultBlock("c1", (TextBlock("42"),)), ToolResultBlock("c2", (TextBlock("no"),), True)),
    ]
    body = json.dumps(rendered(history, case))
    assert "[Tool result for" not in body, "no plain text in place of a block"
    assert "42" in body


async def test_several_results_are_one_user_message_in_call_order() -> None:
    """1.4, integration test 2, success criterion 2."""
    through = asyncio.Event()

    @tool(name="Read", effect="read")
    async def slow_read(file_path: str) -> str:
        """Read a file, after the other one is through."""
        await asyncio.wait_for(through.wait(), 60)
        return f"the text of {file_path}"

    watched = Watched([[call("Read", file_path="a"), call("Grep", pattern="b")], "Done."], [slow_read, grep])
    watched.session.observe(lambda event: through.set() if isinstance(event, ToolFinished) else None)
    await watched.session.run("Look.")
    _, asked, answered, _ = watched.session.messages
    assert answered.role == "user"
    assert [result.tool_use_id for result in answered.tool_results] == [use.id for use in asked.tool_calls]
    assert [event.name for event in watched.of(ToolFinished)] == ["Grep", "Read"], "whichever was through first"
    watched.check()


async def test_only_the_call_that_failed_is_flagged() -> None:
    """1.4, integration test 3, success criterion 3."""
    watched = Watched([[call("Grep", pattern="("), call("Grep", pattern="fn")], "Done."], [grep])
    await watched.session.run("Look.")
    bad, good = json.loads(msgspec.json.encode(watched.session.messages[2]))["content"]
    assert bad["is_error"] is True
    assert "unbalanced parenthesis" in bad["content"][0]["text"]
    assert "is_error" not in good


# Phase 2: the flow of messages


def test_results_of_ones_own_are_added_as_one_user_message() -> None:
    """2.1, unit test 3."""
    model = ScriptedModel([[call("Read", file_path="a"), call("Read", file_path="b")], "Both."])
    turn = think("Read both.", conversation=[], tools=[read], model=model)
    results = [
        {"tool_use_id": use.id, "content": f"text {number}", "is_error": number == 1}
        for number, use in enumerate(turn.tool_calls)
    ]
    then = think("", conversation=turn.conversation, tools=[read], tool_results=results, model=model)
    assert [message.role for message in then.conversation] == ["user", "assistant", "user", "assistant"]
    first, second = then.conversation[2].tool_results
    assert [(first.text, first.is_error), (second.text, second.is_error)] == [("text 0", False), ("text 1", True)]


def test_a_result_for_a_call_that_nobody_made_is_refused() -> None:
    """2.1: the document looks for the call by its id, and passes over what it does not find; we say so."""
    with pytest.raises(ConversationError, match="nobody"):
        think(
            "",
            conversation=[Message.user("Hi")],
            tool_results=[{"tool_use_id": "nobody", "content": "x"}],
            model="demo",
        )


def test_messages_are_converted_for_the_model_as_the_document_does() -> None:
    """2.2, unit test 4: blocks, an assistant's text with its calls, and text alone."""
    use = ToolUseBlock("c1", "Read", {"file_path": "a"})
    body = rendered(
        [
            Message.user("Read a."),
            Message.assistant("I'll look.", use),
            Message.user(ToolResultBlock("c1", (TextBlock("42"),))),
            Message.assistant("It says 42."),
            Message.user("And b?"),
        ]
    )
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Read a."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I'll look."},
                {"type": "tool_use", "id": "c1", "name": "Read", "input": {"file_path": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "42"}]},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "It says 42."}]},
        {"role": "user", "content": [{"type": "text", "text": "And b?"}]},
    ]


def test_calls_without_text_make_no_empty_text_block() -> None:
    """2.2: `if !m.content.is_empty()`."""
    use = ToolUseBlock("c1", "Read", {})
    history = [
        Message.user("Go."),
        Message.assistant("", use),
        Message.user(ToolResultBlock("c1", (TextBlock("42"),))),
    ]
    assert [block["type"] for block in rendered(history)["messages"][1]["content"]] == ["tool_use"]


# Phase 3: guidance


def instructions(tools: Sequence[str] = TOOL_NAMES, model: str = "anthropic/balanced") -> str:
    made = [tool(name=name, description=name)(lambda: "") for name in tools]
    return with_subagents(Agent(model=model, system="Be kind.", tools=made)).system_prompt


@pytest.mark.parametrize(
    "point",
    [
        "how authentication works (Explore)",
        "many files (Explore)",
        "finds things out and then changes them (General)",
        "running tests or fetching documentation",
        "a file whose path you know: use Read",
        "such as a class: use Grep or Glob",
        "two or three files that you know: use Read or Grep",
        "a simple command: use Bash directly",
        "Use direct tools for targeted, single operations",
        "use Task for open-ended exploration or multi-step workflows",
    ],
)
def test_the_system_prompt_has_each_point_of_the_document(point: str) -> None:
    """3.1, success criterion 4."""
    assert point in instructions()


@pytest.mark.parametrize(
    ("kind", "model"), [("Explore", "fast"), ("Plan", "balanced"), ("Bash", "fast"), ("General", "balanced")]
)
def test_the_system_prompt_has_each_type_with_its_model(kind: str, model: str) -> None:
    """3.1, the table of types."""
    (line,) = [line for line in instructions().splitlines() if line.startswith(f"- {kind}: ")]
    assert line.endswith(f"Model: {model}.")


def test_the_guidance_is_there_if_and_only_if_task_is() -> None:
    """3.2."""
    alone = Agent(model="demo", system="Be kind.")
    assert alone.system_prompt == "Be kind."
    assert "# Sub-agents" in with_subagents(alone, [HELPER]).system_prompt


async def test_the_document_s_name_for_the_general_type_is_taken() -> None:
    """3.1: Task(GeneralPurpose)."""
    general = Profile(name="General", description="Does all.")
    team = Team(play([[task("a", "GeneralPurpose")], "Done."], {"a": ["Fine."]}), profiles=[general])
    await team.run()
    assert [(result.text, result.is_error) for result in team.results] == [("Fine.", False)]


# Phase 4: results of sub-agents


async def test_a_sub_agent_returns_its_last_words_and_not_its_transcript() -> None:
    """4.1, integration test 4."""
    child: list[Step] = [["Let me look.", call("Read", file_path="secret.rs")], "It is in secret.rs."]
    team = Team(play([[task("find it")], "Found."], {"find it": child}), [read])
    await team.run()
    (result,) = team.results
    assert result.text == "It is in secret.rs."
    said = dumps(team.session.messages)
    assert "Let me look" not in said
    assert "the text of secret.rs" not in said


@pytest.mark.parametrize(("length", "is_cut"), [(9_999, False), (10_000, False), (10_001, True), (250_000, True)])
async def test_a_result_of_a_sub_agent_has_at_most_ten_thousand_characters(length: int, is_cut: bool) -> None:
    """4.2, MAX_RESULT_SIZE; risk 3. The document slices bytes, which would tear these characters apart."""
    words = "⛵" * length
    team = Team(play([[task("a")], "Done."], {"a": [words]}))
    await team.run()
    (result,) = team.results
    assert result.text.count("⛵") == min(length, 10_000)
    assert (result.text == words) == (not is_cut)
    if is_cut:
        assert f"of {length:,} characters left out" in result.text
        assert result.whole is not None
        assert team.session.store.read(result.whole).decode() == words


async def test_a_sub_agent_cannot_send_out_others() -> None:
    """Gap analysis, "Subagent nesting"; risk 4."""
    team = Team(play([[task("a")], "Done."], {"a": [[task("b")], "I could not."]}))
    await team.run()
    assert "Task" not in [each.name for each in team.model.requests[1].tools]
    (refused,) = team.inside(ToolFinished)
    assert refused.result.is_error
    assert "There is no tool named 'Task'" in refused.result.text


# The testing plan


async def test_a_single_call_flows_from_assistant_to_user() -> None:
    """Integration test 1."""
    watched = Watched([call("Read", file_path="a"), "Done."], [read])
    await watched.session.run("Read a.")
    assert [
        (message.role, [type(block).__name__ for block in message.content]) for message in watched.session.messages
    ] == [
        ("user", ["TextBlock"]),
        ("assistant", ["ToolUseBlock"]),
        ("user", ["ToolResultBlock"]),
        ("assistant", ["TextBlock"]),
    ]


def test_a_conversation_of_several_turns_is_sound_all_the_way() -> None:
    """Integration test 5."""
    model = ScriptedModel(
        [
            [call("Read", file_path="a"), call("Grep", pattern="b")],
            call("Grep", pattern="("),
            "First answer.",
            call("Read", file_path="c"),
            "Second answer.",
        ]
    )
    first = run("Look.", tools=[read, grep], model=model)
    second = run([*first.conversation, Message.user("And c?")], tools=[read, grep], model=model)
    assert (first.text, second.text) == ("First answer.", "Second answer.")
    for request in model.requests:
        rendered(request.messages)
    assert len(second.conversation) == 10


async def test_the_payload_on_the_wire_is_the_anthropic_format(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Manual tests 1 and 2: what the terminal program sends, over a real connection."""
    calls = (
        ("t1", "Read", {"file_path": "main.rs"}),
        ("t2", "Grep", {"pattern": "main"}),
        ("t3", "Read", {"file_path": "no"}),
    )
    async with ModelServer([Answer("I'll look.", calls), Answer("Done.")]) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        bench = bench_in(folder)
        session = Session(bench.agent(model="anthropic/claude-sonnet-4-5"), cwd=folder, approve=bench.permissions)
        assert (await session.run("Look.")).status == "done"
        bench.close()
    asked, answered = server.requests[1].json["messages"][1:]
    assert [block["type"] for block in asked["content"]] == ["text", "tool_use", "tool_use", "tool_use"]
    assert answered["role"] == "user"
    assert [(block["type"], block["tool_use_id"]) for block in answered["content"]] == [
        ("tool_result", "t1"),
        ("tool_result", "t2"),
        ("tool_result", "t3"),
    ]
    assert [block.get("is_error") for block in answered["content"]] == [None, None, True]


async def test_large_reads_of_a_sub_agent_do_not_bloat_the_sender(folder: Path) -> None:
    """Manual test 3."""
    child: list[Step] = [[call("Read", file_path="big.txt")], "1,500 lines."]
    model = play([[task("count", "Explore")], "1,500."], {"count": child})
    session = await run_in(bench_in(folder), model)
    _, first, second, sender = model.requests
    assert "line 700 of a long file" in str(second.messages)
    assert first.messages[0].text == "count"
    assert len(dumps(sender.messages)) < 2_000
    assert results_of(session)[0].text == "1,500 lines."


async def test_a_limit_of_the_whole_agent_holds_for_sub_agents_too() -> None:
    """Risk 3: "already have truncation, add size limits"."""
    team = Team(play([[task("a")], "Done."], {"a": ["x" * 500]}), limits=Limits(result_characters=100))
    await team.run()
    assert team.results[0].text.count("x") == 100
