"""Partial updates of tool calls, by the document that asked for them: its examples, its tests, its requirements.

`Engine.change` is what the document calls a builder: it gathers fields, checks them, and merges what comes within the
interval. The difference is by value, not by length or presence, as the document proposes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from outrider.acp.content import to_session_update
from outrider.acp.updates.call_state import FIELDS, CallState, Diff, File, Location, Terminal, Text, Update
from outrider.acp.updates.engine import Engine
from outrider.acp.updates.pacer import Delivery, UpdateTarget
from outrider.conversation.messages import AttachmentBlock
from tests.acp.editor import introduced, running
from tests.acp.updates.observing import Clock, Observer, watched
from tests.cli.asking import everywhere
from tests.modelserver import Answer, ModelServer

ID = "call_001"
STATE = CallState(
    ID,
    title="Analyze",
    name="Analyze",
    kind="read",
    content=(Text("Progress: 0%"),),
    locations=(Location("/project/a.py", 1),),
    raw_input={"path": "a.py"},
)
HALF = {"type": "content", "content": {"type": "text", "text": "Progress: 50%"}}
DONE = {"type": "content", "content": {"type": "text", "text": "Analysis complete"}}


def on_the_wire(update: Update) -> dict[str, Any]:
    """An update as an editor gets it."""
    told: dict[str, Any] = json.loads(msgspec.json.encode(to_session_update(update, lambda file: b"")))
    return told


def announced(**options: Any) -> tuple[Engine, Observer, Clock]:
    """An engine with one call that its observer knows."""
    engine, observer, clock = watched(**options)
    engine.announce(STATE)
    engine.flush()
    observer.updates.clear()
    return engine, observer, clock


def sent(observer: Observer) -> list[dict[str, Any]]:
    """What has gone out, as JSON."""
    return [on_the_wire(update) for update in observer.updates]


# The JSON examples


def test_example_status_only() -> None:
    """Section ACP Specification Requirements."""
    engine, observer, clock = announced()
    engine.change(ID, status="in_progress")
    clock.advance(0.05)
    assert sent(observer) == [
        {"sessionUpdate": "tool_call_update", "toolCallId": "call_001", "status": "in_progress"},
    ]


def test_example_content_only() -> None:
    """Section ACP Specification Requirements."""
    engine, observer, clock = announced()
    engine.change(ID, content=[Text("Progress: 50%")])
    clock.advance(0.05)
    assert sent(observer) == [{"sessionUpdate": "tool_call_update", "toolCallId": "call_001", "content": [HALF]}]


def test_example_multiple_fields() -> None:
    """Section ACP Specification Requirements. A call without locations, as there: they would come with the end."""
    engine, observer, _ = watched()
    engine.announce(CallState(ID, "Analyze", status="in_progress"))
    engine.flush()
    observer.updates.clear()
    engine.finish(ID, "completed", content=[Text("Analysis complete")])
    assert sent(observer) == [
        {"sessionUpdate": "tool_call_update", "toolCallId": "call_001", "status": "completed", "content": [DONE]},
    ]


def test_example_constructors() -> None:
    """Section Partial Update Implementation: `status_only` and `content_only` are updates with one field."""
    assert on_the_wire(Update(ID, status="in_progress")).keys() == {"sessionUpdate", "toolCallId", "status"}
    assert on_the_wire(Update(ID, content=())).keys() == {"sessionUpdate", "toolCallId", "content"}


# The nine named tests


def test_partial_update_first_update_includes_all_fields() -> None:
    """Section Test Coverage, 1: whoever knows nothing gets everything that has a value."""
    engine, observer, _ = watched()
    engine.announce(msgspec.structs.replace(STATE, raw_output={"n": 1}))
    engine.flush()
    (first,) = sent(observer)
    assert first == {
        "sessionUpdate": "tool_call",
        "toolCallId": ID,
        "title": "Analyze",
        "name": "Analyze",
        "kind": "read",
        "status": "pending",
        "content": [{"type": "content", "content": {"type": "text", "text": "Progress: 0%"}}],
        "locations": [{"path": "/project/a.py", "line": 1}],
        "rawInput": {"path": "a.py"},
        "rawOutput": {"n": 1},
    }


def test_partial_update_status_only() -> None:
    """Section Test Coverage, 2."""
    engine, observer, _ = announced()
    engine.change(ID, status="in_progress")
    engine.flush()
    assert observer.take() == [{"status": "in_progress"}]


def test_partial_update_content_only() -> None:
    """Section Test Coverage, 3."""
    engine, observer, _ = announced()
    engine.change(ID, content=(*STATE.content, Text("more")))
    engine.flush()
    assert observer.take() == [{"content": (*STATE.content, Text("more"))}]


def test_partial_update_multiple_fields() -> None:
    """Section Test Coverage, 4."""
    engine, observer, _ = announced()
    engine.change(ID, status="in_progress", title="Analyze more", raw_output=[1])
    engine.flush()
    assert observer.take() == [{"status": "in_progress", "title": "Analyze more", "raw_output": [1]}]


def test_partial_update_no_changes() -> None:
    """Section Test Coverage, 5: not an empty update, but none."""
    engine, observer, clock = announced()
    engine.change(ID, **{name: getattr(STATE, name) for name in FIELDS})
    clock.advance(1)
    assert observer.updates == []


def test_partial_update_location_changes() -> None:
    """Section Test Coverage, 6; also where their number stays the same."""
    engine, observer, _ = announced()
    for locations in ((Location("/project/a.py", 2),), (Location("/project/a.py", 2), Location("/b")), ()):
        engine.change(ID, locations=locations)
        engine.flush()
        assert observer.take() == [{"locations": locations}]


def test_partial_update_title_change() -> None:
    """Section Test Coverage, 7."""
    engine, observer, _ = announced()
    engine.change(ID, title="Analyzed")
    engine.flush()
    assert observer.take() == [{"title": "Analyzed"}]


def test_partial_update_serialization_omits_none_fields() -> None:
    """Section Test Coverage, 8."""
    engine, observer, _ = announced()
    engine.change(ID, status="in_progress", title=None, content=None, raw_input=UNSET)
    engine.flush()
    (update,) = observer.updates
    line = msgspec.json.encode(to_session_update(update, lambda file: b""))
    assert line == b'{"sessionUpdate":"tool_call_update","toolCallId":"call_001","status":"in_progress"}'


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_partial_update_with_context_flag(status: Any) -> None:
    """Section Test Coverage, 9: the end brings content and locations although they have not changed."""
    engine, observer, _ = announced()
    engine.finish(ID, status)
    (end,) = observer.take()
    assert end == {
        "status": "completed" if status == "completed" else "failed",
        "content": STATE.content,
        "locations": STATE.locations,
    }


def test_the_end_does_not_repeat_what_is_large() -> None:
    """Section Content Update Optimization: large content, which the observer has, is not sent again."""
    engine, observer, _ = announced()
    engine.change(ID, content=(Text("x" * 10_000),))
    engine.flush()
    observer.take()
    engine.finish(ID, "completed")
    assert observer.take() == [{"status": "completed", "locations": STATE.locations}]


# The testing requirements

FILE = AttachmentBlock("0" * 64, "image/png", 9)
CHANGES: dict[str, list[Any]] = {
    "title": ["a", "b", ""],
    "name": ["Read", "Grep"],
    "kind": ["read", "edit"],
    "status": ["pending", "in_progress"],
    "content": [
        (Text("aa"),),
        (Text("ab"),),
        (Diff("f", "n", "o"),),
        (Diff("f", "n"),),
        (Terminal("t"),),
        (File(FILE),),
    ],
    "locations": [(Location("f", 1),), (Location("f", 2),), (Location("g", 2),), ()],
    "raw_input": [{"a": 1}, {"a": 2}, {"a": {"b": [1]}}, {"a": {"b": [2]}}],
    "raw_output": ["A", "B", 1, True, [1], [1.0], {"n": {"m": 1}}, {"n": {"m": 2}}],
}


@pytest.mark.parametrize("field", CHANGES)
def test_change_detection_is_accurate_for_every_field(field: str) -> None:
    """Section Testing Requirements: every change is found, also inside of what is nested, and no other."""
    assert CHANGES.keys() == set(FIELDS) - {"parent"}, "a call keeps its parent"
    engine, observer, _ = watched()
    engine.announce(CallState(ID, **{field: CHANGES[field][0]}))
    engine.flush()
    observer.take()
    for value in CHANGES[field][1:]:
        engine.change(ID, **{field: value})
        engine.change(ID, **{field: msgspec.msgpack.decode(msgspec.msgpack.encode(value))} if "raw" in field else {})
        engine.flush()
        assert [repr(update) for update in observer.take()] == [repr({field: value})]


_changes = st.lists(
    st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in CHANGES.items()}), max_size=8
)


@given(_changes)
def test_changes_of_one_interval_are_merged_and_the_later_wins(changes: list[Mapping[str, Any]]) -> None:
    """Section Testing Requirements: merging and precedence, field by field, to the same state as one by one."""
    together, one_by_one = announced(), announced(interval=0)
    for fields in changes:
        together[0].change(ID, **fields)
        one_by_one[0].change(ID, **fields)
    together[2].advance(0.05)
    assert len(together[1].updates) <= 1
    assert repr(together[1].states) == repr(one_by_one[1].states)
    for update in together[1].updates:
        for name, value in update.changes.items():
            given = [fields[name] for fields in changes if name in fields]
            assert value in given


def test_output_that_is_appended_is_merged_into_one_text() -> None:
    """Section Testing Requirements: output is added up where other fields are replaced."""
    engine, observer, _ = announced(appends=True)
    for word in ("one ", "two ", "three"):
        engine.append(ID, word)
    engine.flush()
    assert observer.take() == [{"output": "one two three"}]


def test_an_update_is_built_step_by_step_and_checked_at_each() -> None:
    """Sections Update Builder Pattern and Testing Requirements: gathered, validated, and sent as one."""
    engine, observer, _ = announced()
    assert engine.change(ID, status="in_progress")
    assert engine.change(ID, content=[Text("one")])
    with pytest.raises(ValueError, match="unknown status 'done'"):
        engine.change(ID, status="done")
    with pytest.raises(TypeError, match="a call has no field 'colour'"):
        engine.change(ID, colour="red")
    with pytest.raises(TypeError, match="content items must be Text, File, Diff or Terminal"):
        engine.change(ID, content=["two"])
    assert not engine.change(ID, status="pending"), "no step back"
    known = engine.state(ID)
    assert known
    assert engine.change(ID, content=(*known.content, Text("two")))
    assert observer.updates == []
    engine.flush()
    assert observer.take() == [{"status": "in_progress", "content": (Text("one"), Text("two"))}]


def test_payloads_are_much_smaller_than_whole_calls() -> None:
    """Sections Testing Requirements and Network Savings: 85 % of a call that shows something."""
    engine, observer, _ = watched()
    edit = CallState(
        ID,
        "Edit(server.py)",
        "Edit",
        "edit",
        content=(Diff("/project/server.py", "    return a new line\n" * 30, "    return an old line\n" * 30),),
        locations=(Location("/project/server.py", 12),),
        raw_input={"file_path": "server.py"},
    )
    engine.announce(edit)
    engine.flush()
    engine.change(ID, status="in_progress")
    engine.flush()
    whole, status = (
        len(msgspec.json.encode(to_session_update(update, lambda file: b""))) for update in observer.updates
    )
    assert status < 0.15 * whole


async def test_concurrent_updates_do_not_mix() -> None:
    """Section Testing Requirements: many calls at once, each by its id."""
    observer = Observer()
    engine = Engine(UpdateTarget(observer.send), Delivery(interval=0.001))

    async def work(name: str) -> None:
        engine.announce(CallState(name, title=name))
        for step in range(5):
            engine.change(name, content=(Text(f"{name}: {step}"),), status="in_progress")
            await asyncio.sleep(0)
        engine.finish(name, "completed", raw_output=name)

    names = [f"call_{number}" for number in range(50)]
    await asyncio.gather(*map(work, names))
    engine.close()
    for name in names:
        assert observer.states[name] == CallState(
            name, name, status="completed", content=(Text(f"{name}: 4"),), raw_output=name
        )


def test_streaming_is_batched_and_throttled_and_never_late() -> None:
    """Sections Update Streaming and Batching, Testing Requirements: 1,000 changes in a second, and an end at once."""
    engine, observer, clock = announced()
    for number in range(1_000):
        engine.change(ID, content=(Text(f"Progress: {number / 10}%"),))
        clock.advance(0.001)
    assert len(observer.updates) <= 21
    assert engine.metrics.coalesced >= 950
    observer.take()
    engine.change(ID, title="waits")
    engine.finish(ID, "completed")
    (end,) = observer.take()
    assert (end["status"], end["title"]) == ("completed", "waits")


def test_streamed_output_is_bounded() -> None:
    """Section Content Update Optimization: where nothing can be appended, 4 kB a second beside the final content."""
    engine, observer, clock = watched()
    engine.announce(CallState(ID))
    for number in range(5_000):
        engine.append(ID, f"line {number} of a command that prints a lot\n")
        clock.advance(0.001)
    printed = sum(len(f"line {number} of a command that prints a lot\n") for number in range(5_000))
    assert 0 < observer.content_bytes[ID] < 4_096 * (clock.now + 1)
    engine.finish(ID, "completed")
    assert observer.content_bytes[ID] < printed + 4_096 * (clock.now + 1) + 100


@given(st.sampled_from(list(CHANGES)))
def test_fields_that_did_not_change_are_left_out_of_the_json(field: str) -> None:
    """Section Testing Requirements: field omission in serialization."""
    engine, observer, _ = watched()
    engine.announce(CallState(ID, **{field: CHANGES[field][0]}))
    engine.flush()
    observer.updates.clear()
    engine.change(ID, **{field: CHANGES[field][1]})
    engine.flush()
    (told,) = sent(observer)
    camel = {"raw_input": "rawInput", "raw_output": "rawOutput"}.get(field, field)
    assert told.keys() == {"sessionUpdate", "toolCallId", camel}


def test_metrics_say_what_was_saved_how_often_and_at_what_cost() -> None:
    """Section Performance Measurements."""
    engine, _, clock = announced()
    engine.change(ID, status="in_progress")
    clock.advance(1)
    engine.finish(ID, "completed")
    told = engine.metrics.as_dict()
    assert told["bytes"]["saved"] == told["bytes"]["wanted"] - told["bytes"]["sent"]
    assert told["patterns"] == {"call": 1, "status": 1, "status+content+locations": 1}
    assert told["rate"]["most"] == 2
    assert 0 < told["seconds_detecting"] < 1


# Clients


def test_full_updates_for_clients_that_want_them() -> None:
    """Section Backward Compatibility: each update has every field that has a value."""
    engine, observer, _ = announced(full=True)
    engine.change(ID, status="in_progress")
    engine.flush()
    engine.finish(ID, "completed", raw_output="ok")
    for told in sent(observer):
        assert told.keys() >= {"title", "name", "kind", "status", "content", "locations", "rawInput"}


COMMAND = "echo one; until [ -e seen ]; do sleep 0.02; done; echo two"


@pytest.mark.parametrize("full", [False, True])
async def test_in_the_real_program_updates_are_partial_or_on_demand_whole(tmp_path: Path, full: bool) -> None:
    """Sections Integration Points, Backward Compatibility: status alone, content alone, and an end with both."""
    replies = [Answer("", (("c", "Bash", {"command": COMMAND}),)), Answer("Done.")]
    flags = ("--full-updates",) if full else ()
    async with (
        ModelServer(replies) as server,
        running("--permissions", "all", *flags, **everywhere(server)) as editor,
    ):
        await editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        session = await editor.new(tmp_path)
        request = editor.say(session, "Run it")
        seen = editor.seen(session)
        await editor.until(lambda: "one" in str(seen.calls.get("c", {}).get("content")), "the first line")
        (tmp_path / "seen").touch()
        await editor.answer(request)
        first, *changes = seen.of_call("c")
    assert first["sessionUpdate"] == "tool_call"
    assert seen.calls["c"]["status"] == "completed"
    *before, end = [{name: update[name] for name in update.keys() - {"sessionUpdate"}} for update in changes]
    assert end.keys() >= {"status", "content", "rawOutput"}
    if full:
        assert all(each.keys() >= {"title", "name", "kind", "status", "rawInput"} for each in (*before, end))
        return
    known = dict(first)
    for update in before:
        assert all(known.get(name) != value for name, value in update.items() if name != "toolCallId"), update
        known |= update
    # On a slow machine the arguments may arrive as late as the end; then they have changed as well.
    others = end.keys() - {"toolCallId", "status", "content", "rawOutput"}
    assert all(known.get(name) != end[name] for name in others), end


async def test_in_the_real_program_a_status_after_a_question_comes_alone(tmp_path: Path) -> None:
    """Section Field-Specific Update Optimization: the most common update is an id and a status."""
    replies = [Answer("", (("c", "Bash", {"command": "sleep 0.3; touch made"}),)), Answer("Done.")]

    def permit(params: dict[str, Any]) -> dict[str, Any]:
        return {"outcome": {"outcome": "selected", "optionId": "once"}}

    handlers = {"session/request_permission": permit}
    async with ModelServer(replies) as server, introduced(handlers=handlers, **everywhere(server)) as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Run it")
        updates = editor.seen(session).of_call("c")
    assert {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress"} in updates
