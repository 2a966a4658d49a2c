"""The test model: valid calls of every tool, and then an answer."""

from __future__ import annotations

import asyncio
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest

from outrider import Agent, Profile, ask, run, think, tool, with_subagents
from outrider.providers.base import Provider
from outrider.testing import TestModel


class Order(msgspec.Struct):
    number: Annotated[int, msgspec.Meta(ge=1000)]
    state: Literal["sent", "lost"]
    lines: dict[str, int]
    note: str | None = None


def test_it_is_a_provider() -> None:
    assert isinstance(TestModel(), Provider)


def test_every_tool_is_called_once_with_arguments_that_it_takes() -> None:
    seen: list[Any] = []

    def typed(day: date, at: datetime, price: Decimal, id: UUID, order: Order, path: Path, also: int = 7) -> None:
        "Take many types."
        seen.append((day, at, price, id, order, path, also))

    @tool(schema={"type": "object", "properties": {"code": {"pattern": "^[A-Z]{2}$"}}, "required": ["code"]})
    def raw(code: str) -> str:
        "Take a code."
        seen.append(code)
        return code

    model = TestModel()
    result = run("Go.", tools=[typed, raw], model=model)
    assert (result.status, result.text, len(model.requests)) == ("done", "Done.", 2)
    assert not [each.text for message in result.conversation for each in message.tool_results if each.is_error]
    assert len(seen) == 2


def test_each_prompt_calls_the_tools_again() -> None:
    seen: list[str] = []
    model = TestModel(text="So it is.")
    look = tool(name="look")(lambda: seen.append("look"))
    first = run("One.", tools=[look], model=model)
    turn = think("Two.", conversation=first.conversation, tools=[look], model=model)
    assert (len(seen), [call.name for call in turn.tool_calls]) == (1, ["look"])


@pytest.mark.parametrize("kind", [Order, list[int], bool, Literal["a", "b"], dict[str, date]])
def test_an_answer_of_a_type_is_valid(kind: Any) -> None:
    assert msgspec.convert(msgspec.to_builtins(ask("Go.", kind, model=TestModel())), kind) is not None


def test_the_answer_comes_after_the_calls() -> None:
    order: list[str] = []
    assert ask("Go.", int, tools=[tool(name="look")(lambda: order.append("look"))], model=TestModel()) == 0
    assert order == ["look"]


def test_arguments_may_be_given() -> None:
    seen: list[str] = []

    def look(where: str) -> None:
        seen.append(where)

    run("Go.", tools=[look], model=TestModel(arguments={"look": {"where": "left"}}))
    assert seen == ["left"]


def test_a_schema_that_is_too_hard_fails_the_test_and_says_what_to_do() -> None:
    hard = tool(name="hard", schema={"type": "object", "properties": {"a": {"not": {}}}, "required": ["a"]})(print)
    with pytest.raises(AssertionError, match=r"the schema of hard; give them: TestModel\(arguments=\{'hard': "):
        run("Go.", tools=[hard], model=TestModel())


def test_sub_agents_are_started_too() -> None:
    model = TestModel(arguments={"Task": {"prompt": "Read."}})
    team = with_subagents(Agent(model), [Profile(name="Reader", description="Reads.")])
    assert asyncio.run(team.run("Go.")).status == "done"
    assert len(model.requests) == 3
