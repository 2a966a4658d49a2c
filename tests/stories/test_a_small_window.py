"""A run of 200 turns in a window of 8,000 tokens: every request fits, and nothing that was read is lost."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider import Agent, Limits, Session
from outrider.errors import OutriderError
from outrider.events import Compacted, Event, ResultsCleared
from outrider.runtime.run import RunResult
from tests.adapters import ONE_EACH, Case
from tests.lengths import only_long
from tests.modelserver import ModelServer, Raw, Recorded, Status, Step
from tests.oracles import type_errors
from tests.streams import Answer, stream_of

WINDOW = 8_000
TURNS = 200
FACTS = 100
AT_LENGTH = [(case, TURNS) for case in ONE_EACH[1:]]
BYTES_IN_TOKENS = 3.2
"""This model's tokens are shorter than those that Outrider estimates."""
TOO_LONG = b'{"error": {"type": "invalid_request_error", "message": "prompt is too long: 8001 tokens > 8000 maximum"}}'
_LONGEST = ("max_tokens", "max_output_tokens", "max_completion_tokens", "maxOutputTokens")
_LENGTHS = re.compile(rb',?"(max_tokens|max_output_tokens|max_completion_tokens|maxOutputTokens)":\d+')
_INPUT = re.compile(rb'"(input_tokens|prompt_tokens|promptTokenCount|total_tokens|totalTokenCount)":\d+')
_CACHED = re.compile(rb'"(cache_read_input_tokens|cache_creation_input_tokens|cached_tokens)":\d+')


def code(number: int) -> str:
    """The fact that file `number` states."""
    return f"{number * 7919 % 100_000:05}"


def look(number: int) -> str:
    """Look at a file."""
    fact = f"The code of door {number} is {code(number)}." if number <= FACTS else "Nothing is written here."
    return f"File {number}. {fact} " + "The rest of this file is of no use to anyone. " * 42


class SmallWindow:
    """A model that looks at a file a turn, then asks for each fact, and refuses what does not fit."""

    def __init__(self, case: Case, turns: int = TURNS, *, recalls: bool = False) -> None:
        self.case = case
        self.refused = 0
        self.summaries = 0
        self.bodies: list[bytes] = []
        self._turn = 0
        self._turns = turns
        self._last = turns + FACTS if recalls else turns

    def __call__(self, request: Recorded) -> Step:
        self.bodies.append(request.body)
        tokens = int(len(request.body) / BYTES_IN_TOKENS)
        if tokens + (_longest(request.json) or 300) > WINDOW:
            self.refused += 1
            return Status(400, body=TOO_LONG)
        answer = self._answer(request.body)
        events = b"".join(stream_of(request.api, answer))
        counted = _INPUT.sub(lambda found: b'"%b":%d' % (found[1], tokens), events)
        return Raw(_CACHED.sub(lambda found: b'"%b":0' % found[1], counted))

    def _answer(self, body: bytes) -> Answer:
        if b"Write a summary of the conversation so far" in body:
            self.summaries += 1
            return Answer("## Goal\nLook at every file.\n## Open work\n" + "One file after the other. " * 20)
        self._turn += 1
        if self._turn <= self._turns:
            return Answer(calls=((f"toolu_{self._turn:024}", "look", {"number": self._turn}),))
        if self._turn <= self._last:
            query = {"query": f"code of door {self._turn - self._turns} is"}
            return Answer(calls=((f"toolu_{self._turn:024}", "Recall", query),))
        return Answer("All files were seen.")


def _longest(value: Any) -> int | None:
    """The longest reply that a request asks for."""
    found = next((value[name] for name in _LONGEST if name in value), None)
    return found or (_longest(value["generationConfig"]) if "generationConfig" in value else None)


@pytest.fixture(autouse=True)
def small_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "capabilities.json"
    path.write_text(json.dumps({f"{case.name}*": {"context_tokens": WINDOW} for case in ONE_EACH}))
    monkeypatch.setenv("OUTRIDER_CAPABILITIES", str(path))


async def run_through(case: Case, model: SmallWindow, seen: list[Event]) -> RunResult:
    async with ModelServer(model) as server:
        agent = Agent(
            case.adapter(server.url, key="k"),
            tools=[look],
            system="You look at files. " * 60,
            limits=Limits(max_turns=None, max_repeats=None),
        )
        return await Session(agent, observer=seen.append).run("Look at every file, and remember the codes.")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("case", "turns"), [(ONE_EACH[0], TURNS), *((case, 50) for case in ONE_EACH[1:]), *only_long(*AT_LENGTH)]
)
async def test_two_hundred_turns_fit_into_a_small_window(case: Case, turns: int) -> None:
    seen: list[Event] = []
    model = SmallWindow(case, turns)
    result = await run_through(case, model, seen)
    assert (result.status, result.error, model.refused) == ("done", "", 0)
    assert len(result.messages) == 2 * turns + 2
    compactions = sum(isinstance(event, Compacted) for event in seen)
    assert 0 < compactions == model.summaries < turns // 10
    for body in model.bodies[:: 1 if turns < TURNS else 7]:
        assert type_errors(case.api, msgspec.json.decode(body)) == []
    # Between two changes of what is sent, each request extends the one before it, its longest reply aside.
    changes = compactions + sum(isinstance(event, ResultsCleared) for event in seen)
    bodies = [_LENGTHS.sub(b"", body) for body in model.bodies]
    rewritten = [after for before, after in pairwise(bodies) if not after.startswith(before.rstrip(b"]}"))]
    alone = sum(b'"tools":' not in body for body in model.bodies)  # local servers write summaries without tools
    assert len(rewritten) <= changes + alone
    assert changes < turns // 3


@pytest.mark.long
@pytest.mark.skipif(find_spec("outrider.runtime.recall") is None, reason="there is no Recall tool yet")
async def test_every_fact_from_before_the_cuts_is_recalled() -> None:
    case = ONE_EACH[0]
    seen: list[Event] = []
    model = SmallWindow(case, recalls=True)
    result = await run_through(case, model, seen)
    assert (result.status, result.error, model.refused) == ("done", "", 0)
    results = {each.tool_use_id: each.text for message in result.messages for each in message.tool_results}
    missing = [
        number
        for number in range(1, FACTS + 1)
        if f"The code of door {number} is {code(number)}" not in results[f"toolu_{TURNS + number:024}"]
    ]
    assert missing == []
    assert any(isinstance(event, Compacted | ResultsCleared) for event in seen)


async def test_a_prompt_that_is_longer_than_the_window_is_an_error_that_says_so() -> None:
    case = ONE_EACH[0]
    async with ModelServer(SmallWindow(case)) as server:
        session = Session(Agent(case.adapter(server.url, key="k")))
        result = await session.run("words " * 10_000)
    assert result.status == "error"
    assert "the newest messages alone are too long" in result.error
    assert server.requests == []
    with pytest.raises(OutriderError):
        result.raise_for_status()
