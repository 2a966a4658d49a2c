"""`effort`, `temperature` and `max_tokens` for one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Log, Session, ask, run, think
from outrider.testing import ScriptedModel

SETTINGS: Any = {"effort": "low", "temperature": 0.5, "max_tokens": 100}


def settings_in(model: ScriptedModel) -> list[tuple[Any, ...]]:
    """The settings of each request."""
    found = (request.settings for request in model.requests)
    return [(each.effort, each.temperature, each.max_tokens) for each in found]


async def test_the_settings_of_a_run_replace_those_of_the_agent_for_that_run() -> None:
    model = ScriptedModel(["One.", "Two.", "Three.", "Four."])
    session = Agent(model, effort="high", max_tokens=50).session()
    await session.run("Go.")
    await session.run("Go.", temperature=0.5)
    await session.think("Go.", **SETTINGS)
    await session.run("Go.")
    before = ("high", None, 50)
    assert settings_in(model) == [before, ("high", 0.5, 50), ("low", 0.5, 100), before]
    assert session.provider is model


async def test_an_agent_takes_settings_for_a_run() -> None:
    model = ScriptedModel(["One.", "Two.", "Three."])
    await Agent(model).run("Go.", **SETTINGS)
    await Agent(model).ask("Go.", **SETTINGS)
    assert [event async for event in Agent(model).stream("Go.", **SETTINGS)]
    assert settings_in(model) == [("low", 0.5, 100)] * 3


def test_scripts_take_settings() -> None:
    model = ScriptedModel(["One.", "Two.", "Three."])
    think("Go.", model=model, **SETTINGS)
    run("Go.", model=model, **SETTINGS)
    ask("Go.", model=model, **SETTINGS)
    assert settings_in(model) == [("low", 0.5, 100)] * 3


async def test_the_log_keeps_the_settings_of_the_agent(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        async with Session.open(log, agent=Agent(ScriptedModel(["One."]), effort="high")) as session:
            await session.run("Go.", effort="low")
        assert log.settings(session.id).effort == "high"


async def test_wrong_settings_are_refused_before_anything_is_sent() -> None:
    model = ScriptedModel([])
    session = Agent(model).session()
    wrong: list[dict[str, Any]] = [{"effort": "enormous"}, {"max_tokens": 0}, {"colour": "red"}]
    for settings in wrong:
        with pytest.raises((ValueError, TypeError)):
            await session.run("Go.", **settings)
        with pytest.raises((ValueError, TypeError)):
            await session.think("Go.", **settings)
    assert (session.messages, model.requests) == ([], [])
