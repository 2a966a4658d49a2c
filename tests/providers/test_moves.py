"""A conversation that began with one provider goes on with another, in any order, with thoughts, calls and files."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest

from outrider.conversation.history import repair, violations
from outrider.conversation.messages import AttachmentBlock, Message
from outrider.providers.base import Request
from tests.adapters import ALL, ONE_EACH, Case, parameter
from tests.conversations import CSV, JPEG, PDF, PNG, STORE, SYSTEM, TOOLS, WAV, result, spoken, thinking_in_between
from tests.oracles import check
from tests.streams import SIGNATURE, Answer

MODELS = tuple(case for case in ALL if case.model not in ("unheard-of", "llama3.2"))
all_moves = pytest.mark.parametrize(
    ("here", "there"),
    [parameter(*pair, marks=[] if {*pair} <= {*ONE_EACH} else [pytest.mark.long]) for pair in permutations(MODELS, 2)],
)
"""From each API to each other one; between all models only in long runs."""


def files_and_calls(case: Case, prefix: str, pictures: tuple[AttachmentBlock, ...] = (PNG, JPEG)) -> list[Message]:
    """A reply with a thought and parallel calls, and their results with files, one of them failed."""
    calls = tuple((f"{prefix}_{number}", "read", {"path": f"{number}.txt"}) for number in range(3))
    asking = spoken(case, Answer("I'll read three.", calls, thinking=f"Three files of {prefix}."))
    first, second, third = (call.id for call in asking.tool_calls)
    answers = Message.user(
        result(first, "A chart", *pictures), result(second, "no such file", failed=True), result(third, PDF, CSV, WAV)
    )
    return [asking, answers]


def rendered(case: Case, messages: list[Message]) -> tuple[bytes, Request]:
    request = Request(repair(messages), STORE, SYSTEM, TOOLS)
    assert violations(request.messages) == []
    return case.adapter().render(request), request


@all_moves
def test_a_conversation_moves_and_goes_on(here: Case, there: Case) -> None:
    messages = thinking_in_between(here)
    body, request = rendered(there, messages)
    check(there, body, request)

    messages += [*files_and_calls(there, "there"), spoken(there, Answer("Done.", thinking="All read."))]
    messages += [Message.user("And once more?")]
    body, request = rendered(there, messages)
    check(there, body, request)


@all_moves
def test_a_conversation_moves_in_the_middle_of_calls_and_comes_back(here: Case, there: Case) -> None:
    messages = [Message.user("Read them all."), *files_and_calls(here, "here")]
    check(there, *rendered(there, messages))
    messages += files_and_calls(there, "there")
    check(here, *rendered(here, messages))
    messages += files_and_calls(here, "again")
    check(there, *rendered(there, messages))


@all_moves
def test_the_state_of_one_provider_is_not_shown_to_another(here: Case, there: Case) -> None:
    body, _ = rendered(there, thinking_in_between(here))
    assert SIGNATURE.encode() not in body
    assert b"Both files matter." not in body, "a thought is no part of what was said"


def test_a_conversation_that_has_been_everywhere_is_right_everywhere() -> None:
    cases = list(MODELS)
    messages = [Message.user("Read them all.")]
    for number, case in enumerate(cases):
        pictures = (PNG, JPEG) if case in ONE_EACH else ()  # Mistral takes no more than eight
        messages += files_and_calls(case, f"turn{number}", pictures)
    for case in cases:
        check(case, *rendered(case, messages))


def test_a_move_changes_no_message() -> None:
    cases = list(MODELS)
    messages = repair(thinking_in_between(cases[0]))
    before = msgspec.json.encode(messages)
    for case in cases:
        rendered(case, messages)
    assert msgspec.json.encode(messages) == before
