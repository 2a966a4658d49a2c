"""Every history, for every adapter and kind of model: right on the wire, readable, and the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from outrider.conversation.history import repair
from outrider.conversation.messages import Message
from outrider.providers.base import Request
from tests import snapshots
from tests.adapters import ALL, ONE_EACH, Case, each, each_at_length
from tests.conversations import HISTORIES, STORE, SYSTEM, TOOLS, request_of, spoken
from tests.oracles import check
from tests.streams import SIGNATURE, Answer

every_history = pytest.mark.parametrize("history", HISTORIES)
ROOT = Path(__file__).parents[2]


class _Rendered(msgspec.Struct):
    """The items of a request as the bytes that they are, under the name that each API has for them."""

    messages: list[msgspec.Raw] = []
    input: list[msgspec.Raw] = []
    contents: list[msgspec.Raw] = []

    @property
    def items(self) -> list[bytes]:
        return [bytes(item) for item in self.messages or self.input or self.contents]


def items_of(body: bytes) -> list[bytes]:
    return msgspec.json.decode(body, type=_Rendered).items


@every_history
@each(*ALL)
def test_a_history_is_right_on_the_wire(case: Case, history: str) -> None:
    request = request_of(history, case)
    body = case.adapter().render(request)
    check(case, body, request)
    snapshots.compare(case.prefix, history, case.model, body)


@every_history
@each_at_length(*ALL)
def test_rendering_twice_gives_the_same_bytes_and_leaves_the_history_as_it_was(case: Case, history: str) -> None:
    request, before = request_of(history, case), msgspec.json.encode(request_of(history, case).messages)
    first = case.adapter().render(request)
    again = case.adapter().render(request)
    anew = case.adapter().render(msgspec.structs.replace(request, memory={}))
    assert first == again == anew
    assert msgspec.json.encode(request.messages) == before


@every_history
@each_at_length(*ALL)
def test_what_was_sent_in_one_turn_begins_the_request_of_the_next(case: Case, history: str) -> None:
    messages = HISTORIES[history](case)
    adapter, memory = case.adapter(), dict[str, object]()
    sent: list[bytes] = []
    for length in _turns(messages):
        request = Request(repair(messages[:length]), STORE, SYSTEM, TOOLS, memory=memory)
        body = adapter.render(request)
        items = items_of(body)
        assert items[: len(sent)] == sent
        assert body == case.adapter().render(msgspec.structs.replace(request, memory={}))
        sent = items


def _turns(messages: list[Message]) -> list[int]:
    """How many messages there are each time that the model is asked."""
    return [number for number, message in enumerate(messages, 1) if message.role == "user"]


@each(*ONE_EACH)
def test_the_system_prompt_and_the_tools_come_first_and_stay_the_same(case: Case) -> None:
    bodies = [
        case.adapter().render(request_of(name, case)) for name in ("plain", "parallel-calls", "every-kind-of-file")
    ]
    items = ("messages", "input", "contents")
    heads = [{name: each for name, each in json.loads(body).items() if name not in items} for body in bodies]
    assert heads[0] == heads[1] == heads[2]
    assert SYSTEM.encode() in bodies[0]
    assert all(tool.name.encode() in bodies[0] for tool in TOOLS)


@each(*ALL)
def test_a_reminder_is_marked_as_the_runtime_s_and_changes_nothing_before_it(case: Case) -> None:
    request = request_of("reminder", case)
    without = msgspec.structs.replace(request, reminder="", memory={})
    reminded, plain = (items_of(case.adapter().render(each)) for each in (request, without))
    assert reminded[: len(plain)] == plain
    assert b"A reminder from the runtime" in b"".join(reminded[len(plain) :])
    assert b"FINAL turn" in b"".join(reminded[len(plain) :])


@each(*ONE_EACH)
def test_a_model_s_own_state_is_replayed_to_it_and_to_no_other(case: Case) -> None:
    answer = Answer("Fine.", (("c1", "look", {}),), thinking="Hm.")
    messages = repair([Message.user("Hello"), spoken(case, answer)])
    keeps_state = SIGNATURE.encode() in msgspec.json.encode(messages)
    own = case.adapter().render(Request(messages, STORE))
    other = Case(case.prefix, f"{case.model}-turbo").adapter().render(Request(messages, STORE))
    assert (SIGNATURE.encode() in own) is keeps_state
    assert SIGNATURE.encode() not in other


def digests() -> dict[str, str]:
    """The hash of every request, for another process to compare."""
    return {
        f"{case.name} {history}": hashlib.sha256(case.adapter().render(request_of(history, case))).hexdigest()
        for case in ALL
        for history in HISTORIES
    }


def test_another_process_renders_the_same_bytes() -> None:
    program = "import json; from tests.providers.test_wire import digests; print(json.dumps(digests()))"
    environment = os.environ | {"PYTHONHASHSEED": "4711", "PYTHONPATH": str(ROOT), "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, check=True, text=True
    )
    assert json.loads(done.stdout) == digests()
