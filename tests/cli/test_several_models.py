"""Several models in the terminal program: names with commas between them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cli.asking import ask, everywhere
from tests.cli.chat.terminal import Terminal, answered_by, at_the_prompt_with
from tests.cli.program import outrider
from tests.modelserver import ModelServer, Recorded, Status, Step
from tests.streams import Answer

MODELS = "anthropic/claude-sonnet-5-5,openai/gpt-5.6"


def only_openai(request: Recorded) -> Step:
    return Answer("Here I am.") if request.api == "openai" else Status(401)


async def test_the_next_model_answers_and_a_continued_session_begins_with_it(tmp_path: Path) -> None:
    async with ModelServer(only_openai) as server:
        ended = await ask(server, "-p", "Hi", "--model", MODELS, cwd=tmp_path)
        assert (ended.returncode, ended.stdout) == (0, "Here I am.\n")
        assert "anthropic/claude-sonnet-5-5 cannot answer; openai/gpt-5.6 goes on. Anthropic does not" in ended.stderr
        assert [request.api for request in server.requests] == ["anthropic", "openai"]
        environment = everywhere(server) | {"OUTRIDER_MODEL": MODELS}
        await asyncio.to_thread(outrider, "--continue", "-p", "On", cwd=tmp_path, input=b"", **environment)
        assert [request.api for request in server.requests[2:]] == ["openai"]
        server._decide = lambda request: Status(401) if request.api == "openai" else Answer("I am back.")
        ended = await asyncio.to_thread(outrider, "--continue", "-p", "On", cwd=tmp_path, input=b"", **environment)
        assert ended.stdout == "I am back.\n", "the first one is its fallback now"


def test_a_wrong_name_among_several_is_wrong_usage() -> None:
    ended = outrider("-p", "Hi", "--model", "demo,nonsense")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "there is no model 'nonsense'" in ended.stderr


def test_a_model_without_a_key_is_skipped_and_that_is_said(tmp_path: Path) -> None:
    ended = outrider("-p", "What is 2+2?", "--model", "anthropic/fast,demo", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "4\n")
    assert "there is no key for Anthropic" in ended.stderr


async def test_the_chat_says_that_another_model_goes_on(tmp_path: Path) -> None:
    async with (
        ModelServer(only_openai) as server,
        Terminal("--model", MODELS, cwd=tmp_path, **answered_by(server) | everywhere(server)) as terminal,
    ):
        await at_the_prompt_with(terminal, "Hello")
        assert "openai/gpt-5.6 goes on" in terminal.flowing
        assert "Here I am." in terminal.flowing


def test_an_unfinished_list_of_models_is_an_error(tmp_path: Path) -> None:
    ended = outrider("-p", "Hi", "--model", "demo,", cwd=tmp_path)
    assert ended.returncode == 2
    assert "there is no model ''" in ended.stderr
