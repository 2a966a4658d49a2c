"""Sessions of Claude Code and Codex: read in their published forms, found by search, continued with any model."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.conversation.history import violations
from outrider.conversation.messages import Message, ThinkingBlock
from outrider.errors import LogError
from outrider.log.entries import AttemptFailed, CompactionEntry, RewindEntry, SubagentLinked
from outrider.log.foreign.importing import ImportedFile, import_file
from outrider.log.log import Log
from outrider.log.state import fold
from outrider.providers.base import Request
from outrider.runtime.agent import Agent
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel
from tests.adapters import ONE_EACH, Case, each
from tests.lengths import examples
from tests.modelserver import ModelServer
from tests.streams import Answer

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
PICTURE = base64.b64encode(PNG).decode()
SIGNATURE = "EuEDCkYICxgCKkDy7ea8NP"
CLAUDE = "claude-opus-4-5-20251101"
BEGAN = 1_770_000_000


@pytest.fixture
def log(place: str) -> Iterator[Log]:
    with Log(place) as log:
        yield log


def moment(second: int) -> str:
    return f"2026-02-02T02:{second // 60 % 60:02}:{second % 60:02}.500Z"


class Project:
    """A session file of Claude Code, written line by line."""

    def __init__(self, name: str = "") -> None:
        self.name = name or str(uuid.uuid4())
        self.lines: list[Any] = []
        self.tip: str | None = None

    def line(self, kind: str, after: str | None = "tip", **fields: Any) -> str:
        uuid_ = f"u{len(self.lines)}"
        self.lines.append(
            {
                "parentUuid": self.tip if after == "tip" else after,
                "isSidechain": False,
                "userType": "external",
                "cwd": "/home/ann/shop",
                "sessionId": self.name,
                "version": "2.1.37",
                "type": kind,
                "uuid": uuid_,
                "timestamp": moment(len(self.lines)),
                **fields,
            }
        )
        if not fields.get("isSidechain"):
            self.tip = uuid_
        return uuid_

    def user(self, content: Any, **fields: Any) -> str:
        return self.line("user", message={"role": "user", "content": content}, **fields)

    def reply(self, *blocks: dict[str, Any], id: str = "", **fields: Any) -> str:
        usage = {
            "input_tokens": 3,
            "cache_read_input_tokens": 40,
            "cache_creation_input_tokens": 5,
            "output_tokens": 7,
        }
        message = {"id": id or f"msg_{len(self.lines)}", "role": "assistant", "model": CLAUDE, "usage": usage}
        return self.line("assistant", message={**message, "content": list(blocks)}, **fields)

    def result(self, call: str, content: Any, **fields: Any) -> str:
        return self.user([{"type": "tool_result", "tool_use_id": call, "content": content}], **fields)

    def bytes(self) -> list[bytes]:
        return [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in self.lines]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(id: str, name: str = "Read", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def rollout(*payloads: tuple[str, dict[str, Any]], name: str = "0199-codex") -> list[bytes]:
    """A session file of Codex."""
    meta = {"id": name, "cwd": "/home/ann/shop", "originator": "codex_cli_rs", "cli_version": "0.128.0"}
    lines = [("session_meta", meta), *payloads]
    return [
        json.dumps({"timestamp": moment(second), "type": kind, "payload": payload}).encode() + b"\n"
        for second, (kind, payload) in enumerate(lines)
    ]


def item(kind: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "response_item", {"type": kind, **fields}


def said(role: str, words: str) -> tuple[str, dict[str, Any]]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": words}])


def messages(log: Log, id: str) -> list[Message]:
    return fold(log.records(id)).history.messages


def words(log: Log, id: str) -> list[str]:
    return [message.text for message in messages(log, id) if message.text]


def only(found: ImportedFile) -> str:
    [session] = found.sessions
    return session.id


def entries(log: Log, id: str, kind: type) -> list[Any]:
    return [record.entry for record in log.records(id) if isinstance(record.entry, kind)]


# Claude Code


def shop() -> Project:
    """A session with everything: parallel calls, a picture, a thought, a sub-agent, a compaction, a branch."""
    said = Project("5a0c9f6e-7ad6-4d0b-9c3c-0d2f2f3b8f11")
    said.lines.append({"type": "summary", "summary": "Shop: the till is slow", "leafUuid": "elsewhere"})
    said.lines.append({"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": False})
    said.user("Caveat: the messages below were made by the user", isMeta=True)
    said.user([text("Why is the till slow?"), {"type": "image", "source": source("image/png", PICTURE)}])
    said.reply({"type": "thinking", "thinking": "Perhaps the till.", "signature": SIGNATURE}, id="msg_a")
    said.reply(text("I look at both."), id="msg_a")
    first = said.reply(call("toolu_1", file_path="till.py"), id="msg_a")
    second = said.reply(call("toolu_2", "Task", prompt="Measure it."), id="msg_a", after=first)
    said.result("toolu_1", "def till(): sleep(9)", after=first, toolUseResult={"type": "text"})
    said.result(
        "toolu_2", [text("9 seconds")], after=second, toolUseResult={"agentId": "a4e80a2", "status": "completed"}
    )
    asked = said.reply(text("It sleeps."))
    said.user("Remove the clock.")
    said.reply(text("The clock is gone."))
    said.user("Remove the sleep.", after=asked)
    said.reply(text("API Error: 529 overloaded"), isApiErrorMessage=True)
    said.reply(text("The sleep is gone."))
    said.line("system", subtype="compact_boundary", after=None, compactMetadata={"trigger": "manual", "preTokens": 900})
    said.user("We made the till fast.", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    said.user("Now the door.")
    said.reply(text("The door is next."), call("toolu_3", "Bash", command="ls"))
    return said


def source(mime_type: str, data: str) -> dict[str, str]:
    return {"type": "base64", "media_type": mime_type, "data": data}


def test_a_session_of_claude_code_comes_in_as_it_was(log: Log) -> None:
    found = import_file(log, shop().bytes())
    name = only(found)
    assert (found.agent, found.damaged, found.unknown) == ("claude-code", [], {})
    assert words(log, name) == [
        "Caveat: the messages below were made by the user",
        "Why is the till slow?",
        "I look at both.",
        "It sleeps.",
        "Remove the sleep.",
        "The sleep is gone.",
        "Now the door.",
        "The door is next.",
    ]
    reply, results = messages(log, name)[2:4]
    assert [use.name for use in reply.tool_calls] == ["Read", "Task"], "one reply, though on four lines"
    assert [result.text for result in results.tool_results] == ["def till(): sleep(9)", "9 seconds"]
    assert [block for block in reply.content if isinstance(block, ThinkingBlock)] == [
        ThinkingBlock("Perhaps the till.")
    ]
    assert SIGNATURE not in str([*log.records(name)]), "only its API could check it"
    [file] = messages(log, name)[1].content[1:]
    assert log.files(name).read(file) == PNG  # type: ignore[arg-type]
    summary = log.session(name)
    assert (summary.title, summary.folder, summary.model) == (
        "Shop: the till is slow",
        "/home/ann/shop",
        f"anthropic/{CLAUDE}",
    )
    assert (summary.usage.input_tokens, summary.usage.cached_tokens, summary.turns) == (48 * 5, 40 * 5, 5)
    assert BEGAN - 4e5 < summary.created < summary.updated < BEGAN + 4e5, "its own times"


def test_what_is_no_message_of_claude_code_is_an_entry_of_its_kind(log: Log) -> None:
    name = only(import_file(log, shop().bytes()))
    [rewind] = entries(log, name, RewindEntry)
    assert (rewind.dropped, rewind.to) == (2, 3)
    [compaction] = entries(log, name, CompactionEntry)
    assert (compaction.reason, compaction.tokens_before, compaction.summary.text) == (
        "manual",
        900,
        "We made the till fast.",
    )
    [failed] = entries(log, name, AttemptFailed)
    assert "529" in failed.reason
    sent = fold(log.records(name)).history.sendable()
    assert sent[0].text.startswith("We made the till fast."), "the summary is sent instead of what it stands for"
    assert "The clock is gone." in [hit.snippet for hit in log.search("clock gone")], "the branch that was left is kept"


def test_sub_agents_belong_to_the_session_that_started_them(log: Log) -> None:
    main, agent = shop(), Project("5a0c9f6e-7ad6-4d0b-9c3c-0d2f2f3b8f11")
    agent.user("Measure it.", isSidechain=True, agentId="a4e80a2", after=None)
    agent.reply(text("9 seconds"), isSidechain=True, agentId="a4e80a2", after="u0")
    assert import_file(log, agent.bytes(), defer=True).is_deferred
    parent = only(import_file(log, main.bytes()))
    child = only(import_file(log, agent.bytes()))
    assert [each.id for each in log.children(parent)] == [child]
    assert [(link.call_id, link.session) for link in entries(log, parent, SubagentLinked)] == [("toolu_2", child)]
    # Earlier versions wrote them into the same file, without a name.
    inline = Project()
    inline.user("Go.")
    inline.reply(call("toolu_9", "Task", prompt="Measure it."))
    root = inline.user("Measure it.", isSidechain=True, after=None)
    inline.reply(text("Measured."), isSidechain=True, after=root)
    inline.result("toolu_9", "Measured.")
    one, two = import_file(log, inline.bytes()).sessions
    assert (words(log, one.id), words(log, two.id)) == (["Go."], ["Measure it.", "Measured."])
    assert [link.session for link in entries(log, one.id, SubagentLinked)] == [two.id]
    assert two.id not in [each.id for each in log.sessions()], "a sub-agent is not in the list"


def test_a_branch_that_was_left_can_be_gone_back_to(log: Log) -> None:
    said = Project()
    said.user("One.")
    one = said.reply(text("First."))
    said.user("Two.", after=one)
    two = said.reply(text("Second."))
    said.user("Instead.", after=one)
    said.reply(text("Other."))
    said.user("Three.", after=two)
    name = only(import_file(log, said.bytes()))
    assert words(log, name) == ["One.", "First.", "Two.", "Second.", "Three."]


# Codex


def test_a_session_of_codex_comes_in_as_it_was(log: Log) -> None:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}
    shell = {"type": "exec", "command": ["ls"]}
    tokens = {"input_tokens": 50, "cached_input_tokens": 40, "output_tokens": 7, "reasoning_output_tokens": 2}
    found = import_file(
        log,
        rollout(
            ("turn_context", {"cwd": "/home/ann/door", "model": "gpt-5-codex", "approval_policy": "never"}),
            said("developer", "Obey the sandbox."),
            said("user", "<environment_context>linux</environment_context>"),
            item("message", role="user", content=[{"type": "input_text", "text": "Why is the door shut?"}, image]),
            ("event_msg", {"type": "user_message", "message": "Why is the door shut?"}),
            item("reasoning", summary=[{"type": "summary_text", "text": "**Looking**"}], encrypted_content="gAAAA"),
            item("function_call", name="exec_command", arguments='{"cmd": "ls"}', call_id="call_1"),
            item("local_shell_call", call_id="call_2", status="completed", action=shell),
            item("function_call_output", call_id="call_1", output='{"output":"door","metadata":{"exit_code":2}}'),
            item("function_call_output", call_id="call_2", output={"content": "lock", "success": True}),
            ("event_msg", {"type": "token_count", "info": {"last_token_usage": tokens}}),
            item("custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="call_3"),
            item("custom_tool_call_output", call_id="call_3", output="Done!"),
            item("function_call", name="broken", arguments="{no", call_id="call_4"),
            said("assistant", "It is open."),
            ("event_msg", {"type": "token_count", "info": {"last_token_usage": tokens}}),
            said("user", "Paint it."),
            said("assistant", "It is red."),
            ("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
            said("user", "Oil it."),
            ("event_msg", {"type": "thread_name_updated", "thread_name": "The door"}),
        ),
    )
    name = only(found)
    assert (found.agent, found.damaged, found.unknown) == ("codex", [], {})
    assert words(log, name)[1:] == ["Why is the door shut?", "It is open.", "Oil it."]
    assert "Obey" not in str([*log.records(name)])
    assert "gAAAA" not in str([*log.records(name)]), "only its API can read it"
    reply, results, patch, *_ = messages(log, name)[2:]
    assert [(use.name, use.input) for use in reply.tool_calls] == [
        ("exec_command", {"cmd": "ls"}),
        ("local_shell", shell),
    ]
    assert [(each.text, each.is_error) for each in results.tool_results] == [("door", True), ("lock", False)]
    assert patch.tool_calls[0].input == {"input": "*** Begin Patch"}
    assert log.search("red")[0].session == name, "what was rolled back is kept"
    summary = log.session(name)
    assert (summary.title, summary.folder, summary.model) == ("The door", "/home/ann/door", "openai/gpt-5-codex")
    assert (summary.usage.input_tokens, summary.usage.reasoning_tokens) == (50, 2)


def test_a_compaction_of_codex_replaces_what_was_said(log: Log) -> None:
    kept = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "The rest."}]}]
    lines = rollout(
        said("user", "Long."),
        said("assistant", "Longer."),
        ("compacted", {"message": "", "replacement_history": kept}),
        said("user", "Go on."),
    )
    history = fold(log.records(only(import_file(log, lines)))).history
    assert [
        block.text  # type: ignore[union-attr]
        for block in history.sendable()[0].content
    ] == ["The rest.", "Go on."]


def test_sessions_of_early_versions_of_codex_have_no_envelope(log: Log) -> None:
    lines = [
        {"id": "early", "timestamp": moment(0), "instructions": None},
        {"record_type": "state"},
        item("message", role="user", content=[{"type": "input_text", "text": "Hello."}])[1],
        item("function_call", name="shell", arguments='{"command":["ls"]}', call_id="c")[1],
        item("function_call_output", call_id="c", output="door")[1],
    ]
    name = only(import_file(log, [json.dumps(line).encode() for line in lines]))
    assert (words(log, name), len(messages(log, name))) == (["Hello."], 3)


def test_a_thread_that_codex_spawned_belongs_to_its_parent(log: Log) -> None:
    parent = only(import_file(log, rollout(said("user", "Go."), name="parent")))
    lines = rollout(said("user", "Look."), name="child")
    meta = json.loads(lines[0])
    meta["payload"]["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": "parent", "depth": 1}}}
    child = only(import_file(log, [json.dumps(meta).encode(), *lines[1:]]))
    assert [each.id for each in log.children(parent)] == [child]


# Either


async def test_importing_again_makes_no_double(log: Log, tmp_path: Path) -> None:
    said = shop()
    name = only(import_file(log, said.bytes()))
    assert import_file(log, said.bytes()).sessions[0][:2] == (name, "known")
    said.result("toolu_3", "door.py")
    said.reply(text("There it is."))
    assert import_file(log, said.bytes()).sessions[0][:2] == (name, "grown")
    assert words(log, name)[-1] == "There it is."
    with Session.open(log, name, Agent(model=ScriptedModel(["Mine."])), cwd=tmp_path) as session:
        await session.run("Here.")
    assert import_file(log, said.bytes()).sessions[0][:2] == (name, "known")
    said.user("More there.")
    other = import_file(log, said.bytes()).sessions[0]
    assert other.outcome == "imported"
    assert other.id != name, "it went on in both places: the log keeps both"
    assert import_file(log, said.bytes()).sessions[0][:2] == (other.id, "known")


def test_what_is_damaged_or_unknown_is_counted_and_the_rest_comes_in(log: Log) -> None:
    said = shop()
    said.lines[4:4] = [b'{"type": "user", "uu\n', b"\xff\xfe\n", b"[1, 2]\n", b"\n"]
    said.lines.append({"type": "hologram", "uuid": "h", "parentUuid": said.tip, "sessionId": said.name, "light": 1})
    said.tip = "h"
    said.reply({"type": "smell", "of": "burning"}, {"type": "image", "source": source("image/png", "!")})
    said.user("\ud800 lone")
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    said.reply(call("toolu_7", deep=deep))
    found = import_file(log, said.bytes())
    name = only(found)
    assert found.damaged == [5, 6, 7]
    assert found.unknown == {"hologram": 1, "smell": 1, "unreadable file": 1, "nested too deeply": 1}
    assert any('"light":1' in each for each in words(log, name))
    assert any('"of":"burning"' in each for each in words(log, name))


def test_a_file_of_no_known_form_is_refused(log: Log) -> None:
    with pytest.raises(LogError, match="not a session of Outrider, Claude Code or Codex"):
        import_file(log, [b'{"type": "other"}\n'])
    assert import_file(log, [b'{"type":"summary","summary":"Empty","leafUuid":"x"}\n']).sessions == []
    assert log.sessions() == []


def test_an_import_chooses_neither_model_nor_folder(log: Log) -> None:
    name = only(import_file(log, shop().bytes()))
    assert (log.settings(name).model, log.settings(name).cwd) == (None, None)
    assert "/home/ann/shop" in log.foreign_note(name)


async def test_sessions_are_listed_where_they_belong_in_time(log: Log, tmp_path: Path) -> None:
    with Session.open(log, agent=Agent(model=ScriptedModel(["Mine."])), cwd=tmp_path) as mine:
        await mine.run("Here.")
    old, older = Project(), Project()
    old.user("Old.", timestamp="2026-03-01T00:00:00Z")
    older.user("Older.", timestamp="2026-01-01T00:00:00Z")
    names = [only(import_file(log, each.bytes())) for each in (old, older)]
    assert [each.id for each in log.sessions()] == [mine.id, *names]


@each(*ONE_EACH)
@pytest.mark.folder_only
async def test_an_import_goes_on_with_every_api(log: Log, case: Case) -> None:
    files = [
        shop().bytes(),
        rollout(said("user", "Go."), item("function_call", name="a b", arguments="[1]", call_id="c")),
    ]
    for file in files:
        name = only(import_file(log, file))
        async with ModelServer([Answer("Done.")]) as server:
            with Session.open(log, name, Agent(model=case.adapter(server.url, key="k"))) as session:
                assert (await session.run("Go on.")).text == "Done."
            body = server.requests[0].body
        assert violations(session.history.sendable()) == []
        assert b"Go on." in body
        assert SIGNATURE.encode() not in body


LINE = st.sampled_from(["user", "reply", "call", "result", "side", "meta", "odd", "damaged", "again", "compact"])


@given(st.lists(st.tuples(LINE, st.integers(0, 9), st.booleans()), min_size=1, max_size=25), st.data())
@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_in_claude_codes_form_comes_in_whole(  # noqa: C901 - a line of each kind
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[str, int, bool]], data: st.DataObject
) -> None:
    """Whatever follows what: every word is kept, what is sent is valid, and another import changes nothing."""
    written = Project("generated")
    written.user("Begin.")
    for number, (kind, pick, jumps) in enumerate(lines):
        known = [each["uuid"] for each in written.lines if isinstance(each, dict) and "uuid" in each]
        after = known[pick % len(known)] if jumps else "tip"
        if kind == "user":
            written.user(f"word{number}", after=after)
        elif kind in ("reply", "call"):
            blocks = [text(f"word{number}"), *([call(f"c{pick}")] if kind == "call" else [])]
            written.reply(*blocks, id=f"msg_{pick}", after=after)
        elif kind == "result":
            written.result(f"c{pick}", f"word{number}", after=after)
        elif kind == "side":
            written.user(f"word{number}", isSidechain=True, after=after)
        elif kind == "meta":
            written.line("progress", after=after, data={})
        elif kind == "odd":
            written.line(f"odd{pick}", after="nowhere" if jumps else after, said=f"word{number}")
        elif kind == "damaged":
            written.lines.append(b'{"type": "us\n')
        elif kind == "again":
            written.lines.append(written.lines[0])
        else:
            written.user(f"word{number}", isCompactSummary=True, after=after)
    with Log(tmp_path_factory.mktemp("log")) as log:
        found = import_file(log, written.bytes())
        assert len(found.damaged) == sum(kind == "damaged" for kind, _, _ in lines)
        everything = "\n".join(str(record) for each in found.sessions for record in log.records(each.id))
        missing = {f"word{n}" for n, (kind, _, _) in enumerate(lines) if kind not in ("meta", "damaged", "again")}
        assert {word for word in missing if word not in everything} == set()
        for each in found.sessions:
            state = fold(log.records(each.id))
            assert violations(state.history.sendable()) == []
            assert not state.open_calls
        case = data.draw(st.sampled_from(ONE_EACH))
        main = found.sessions[0].id
        case.adapter().render(Request(fold(log.records(main)).history.sendable(), log.files(main)))
        again = import_file(log, written.bytes())
        assert [(each.id, "known") for each in found.sessions] == [each[:2] for each in again.sessions]


ITEM = st.sampled_from(["user", "assistant", "developer", "call", "output", "reasoning", "rolled", "odd", "compacted"])


@given(st.lists(st.tuples(ITEM, st.integers(0, 3)), max_size=25))
@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rollout_comes_in_whole(tmp_path_factory: pytest.TempPathFactory, items: list[tuple[str, int]]) -> None:
    made: list[tuple[str, dict[str, Any]]] = [said("user", "Begin.")]
    for number, (kind, pick) in enumerate(items):
        word = f"word{number}"
        made.append(
            {
                "call": item("function_call", name="x", arguments=json.dumps({"a": word}), call_id=f"c{pick}"),
                "output": item("function_call_output", call_id=f"c{pick}", output=word),
                "reasoning": item("reasoning", summary=[{"type": "summary_text", "text": word}]),
                "rolled": ("event_msg", {"type": "thread_rolled_back", "num_turns": pick}),
                "odd": item("odd", text=word),
                "compacted": ("compacted", {"message": word}),
            }.get(kind)
            or said(kind, word)
        )
    with Log(tmp_path_factory.mktemp("log")) as log:
        [session] = import_file(log, rollout(*made)).sessions
        everything = "\n".join(map(str, log.records(session.id)))
        kept = {f"word{n}" for n, (kind, _) in enumerate(items) if kind not in ("developer", "rolled")}
        assert {word for word in kept if word not in everything} == set()
        assert violations(fold(log.records(session.id)).history.sendable()) == []
        assert import_file(log, rollout(*made)).sessions[0].outcome == "known"
