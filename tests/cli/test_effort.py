"""How much the model thinks, as a flag, a setting and a property of the session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.status_line import StatusLine
from outrider.coding.config.settings import Settings
from tests.cli.asking import ask, everywhere
from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with
from tests.cli.program import outrider
from tests.modelserver import ModelServer
from tests.streams import Answer

MODEL = "anthropic/claude-sonnet-5-5"


def efforts(server: ModelServer) -> list[Any]:
    return [request.json.get("output_config", {}).get("effort") for request in server.requests]


async def test_the_effort_reaches_the_model_and_is_kept_when_the_session_goes_on(tmp_path: Path) -> None:
    async with ModelServer([Answer(f"Reply {number}.") for number in range(5)]) as server:
        for more in (
            ("-p", "One", "--model", MODEL, "--effort", "low"),
            ("--continue", "-p", "Two"),
            ("--continue", "-p", "Three", "--effort", "max"),
            ("--continue", "-p", "Four"),
            ("-p", "A new session", "--model", MODEL),
        ):
            ended = await ask(server, *more, cwd=tmp_path)
            assert ended.returncode == 0, ended.stderr
    assert efforts(server) == ["low", "low", "max", "max", None]


async def test_the_setting_applies_where_a_model_has_the_level(tmp_path: Path) -> None:
    async with ModelServer([Answer("One."), Answer("Two.")]) as server:
        for model in (MODEL, "anthropic/claude-3-5-haiku-latest"):
            environment = everywhere(server) | {"OUTRIDER_EFFORT": "high"}
            ended = await asyncio.to_thread(
                outrider, "-p", "Hi", "--model", model, cwd=tmp_path, input=b"", **environment
            )
            assert ended.returncode == 0, ended.stderr
    assert efforts(server) == ["high", None]


@pytest.mark.parametrize(
    ("model", "effort", "said"),
    [
        (MODEL, "huge", '"huge"'),
        ("openai/gpt-4o", "high", "openai/gpt-4o has no effort that could be set"),
        ("anthropic/claude-fable-5", "none", "it has low, medium, high, max"),
    ],
)
def test_an_effort_that_a_model_does_not_have_is_wrong_usage(model: str, effort: str, said: str) -> None:
    ended = outrider("-p", "Hi", "--model", model, "--effort", effort, OPENAI_API_KEY="k", ANTHROPIC_API_KEY="k")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr


def test_the_status_line_shows_an_effort_that_is_set(tmp_path: Path) -> None:
    async def ask(*_: Any) -> Any:
        raise AssertionError("nothing is asked here")

    def line(settings: Settings) -> str:
        return StatusLine(CurrentSession(settings, tmp_path, "demo", lambda _: None))()

    assert line(Settings(effort="high")) == "demo · effort: high · permissions: ask"
    assert line(Settings()) == "demo · permissions: ask"


async def test_the_chat_changes_the_effort(tmp_path: Path) -> None:
    async with (
        ModelServer([Answer("One."), Answer("Two."), Answer("Three.")]) as server,
        Terminal("--model", MODEL, cwd=tmp_path, **answered_by(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "/effort", "/effort huge", "/effort max", "Hello", "/effort low", "Again")
        assert "Effort: default. The model has: none, low, medium, high, max, default." in terminal.flowing
        assert "Unknown effort 'huge'" in terminal.flowing
        await at_the_prompt_with(terminal, "/effort default", "More")
    assert efforts(server) == ["max", "low", None]
