"""Profiles that say what data their sub-agents return."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from outrider.errors import SchemaError
from outrider.subagents import Profile
from tests.subagents.reporting import HELPER, Team, offered, report_back, task


class Person(msgspec.Struct):
    name: str
    age: int


ADA = {"name": "Ada", "age": 36}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
CENSUS = Profile(name="Census", description="Says who it is.", output=Person)


def ask_census(**more: Any) -> Any:
    return task("Who?", subagent_type="Census", **more)


@pytest.mark.parametrize("output", [Person, SCHEMA])
async def test_its_sub_agents_return_data(output: Any) -> None:
    census = Profile(name="Census", description="Says who it is.", output=output)
    team = Team([ask_census()], {"Who?": [report_back(age=1), report_back(**ADA)]}, profiles=[census])
    await team.run()
    (finished,) = team.results
    assert json.loads(finished.result.text) == finished.details["structured_output"] == ADA
    assert msgspec.convert(finished.details["structured_output"], Person) == Person("Ada", 36)


async def test_a_sub_agent_that_does_not_report_fails() -> None:
    team = Team([ask_census()], {"Who?": ["Ada.", "Ada!"]}, profiles=[CENSUS])
    await team.run()
    assert team.results[0].result.is_error
    assert "structured_output" not in team.results[0].details


async def test_a_call_has_no_schema_for_it() -> None:
    team = Team([ask_census(output_schema=SCHEMA)], {}, profiles=[CENSUS, HELPER])
    await team.run()
    assert "Census takes no output_schema: leave it out" in team.results[0].result.text
    shown = offered(team.model.requests[0], "Task")
    assert shown
    assert "Only for: Helper." in shown["properties"]["output_schema"]["description"]
    assert "- Census: Says who it is. Returns JSON." in team.agent.system_prompt


def test_an_output_that_cannot_be_used_is_refused_with_the_profile() -> None:
    with pytest.raises(SchemaError):
        Profile(name="Census", description="Says who it is.", output={"type": "nothing"})
