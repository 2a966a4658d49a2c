"""`outrider -p --schema FILE` where the API holds the answer to the schema: the data and errors are the same."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.asking import ask, everywhere, running
from tests.cli.program import outrider
from tests.modelserver import Answer, Held, ModelServer, Raw, Status
from tests.streams import stream_of

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
}
ADA = {"name": "Ada", "age": 36}
ADA_TEXT = json.dumps(ADA)
MODELS = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "openai": "openai/gpt-5.2",
    "openai-chat": "openai-chat/gpt-5.2",
    "gemini": "gemini/gemini-3-pro",
}
FIELDS = {
    "anthropic": "output_config",
    "openai": "text",
    "openai-chat": "response_format",
    "gemini": "generationConfig",
}
each_api = pytest.mark.parametrize("api", MODELS)


@pytest.fixture
def person(tmp_path: Path) -> str:
    (tmp_path / "person.json").write_text(json.dumps(PERSON))
    return str(tmp_path / "person.json")


def offers_tool(server: ModelServer) -> list[bool]:
    return [b"report_back" in request.body for request in server.requests]


async def result_of(server: ModelServer, person: str, *more: str, api: str = "anthropic") -> tuple[int, Any]:
    arguments = ("-p", "Who is it?", "--schema", person, "--output-format", "json", "--model", MODELS[api])
    ended = await ask(server, *arguments, *more)
    return ended.returncode, json.loads(ended.stdout)


@each_api
async def test_the_answer_is_the_data(api: str, person: str) -> None:
    async with ModelServer([Answer(ADA_TEXT), Answer("Hm."), Answer(ADA_TEXT)]) as server:
        text = await ask(server, "-p", "Who is it?", "--schema", person, "--model", MODELS[api])
        code, result = await result_of(server, person, api=api)
    assert (text.returncode, text.stdout) == (0, '{"name":"Ada","age":36}\n'), text.stderr
    assert (code, result["status"], result["structured_output"]) == (0, "done", ADA)
    assert result["turns"] == 2, "the answer that was no data was corrected"
    assert offers_tool(server) == [False] * 3
    assert all(FIELDS[api] in request.json for request in server.requests)


@each_api
async def test_after_kill_9_in_the_middle_of_the_answer_the_run_goes_on(api: str, person: str, tmp_path: Path) -> None:
    async with ModelServer([Held(Answer(ADA_TEXT)), Answer(ADA_TEXT)]) as server:
        environment = everywhere(server)
        prompt = ("-p", "Who is it?", "--schema", person, "--model", MODELS[api], "--output-format", "stream-json")
        with running(*prompt, cwd=tmp_path, **environment) as process:
            assert process.stdout
            # Text that may be a written call is held back: of such a server only the request is seen.
            seen = "turn_started" if api == "openai-chat" else "text_delta"
            while seen not in await asyncio.to_thread(process.stdout.readline):
                assert process.poll() is None
            while not server.requests:
                await asyncio.sleep(0.01)
            process.kill()
            await asyncio.to_thread(process.wait)
        server.release.set()
        resume = ("-p", "--continue", "--schema", person)
        ended = await asyncio.to_thread(lambda: outrider(*resume, cwd=tmp_path, **environment))
    assert (ended.returncode, ended.stdout) == (0, '{"name":"Ada","age":36}\n'), ended.stderr
    first, second = (request.json for request in server.requests)
    assert first.get("messages", first.get("input")) == second.get("messages", second.get("input")), "asked once more"


async def test_a_refusal_is_an_error_and_is_not_argued_with(person: str) -> None:
    refused = b"".join(stream_of("anthropic", Answer("I cannot say."))).replace(b'"end_turn"', b'"refusal"')
    async with ModelServer([Raw(refused)]) as server:
        code, result = await result_of(server, person)
    assert (code, result["status"], result["stop_reason"]) == (1, "error", "refusal")
    assert (result["structured_output"], result["text"], len(server.requests)) == (None, "I cannot say.", 1)


async def test_an_answer_that_is_cut_off_is_asked_for_again(person: str) -> None:
    cut = b"".join(stream_of("anthropic", Answer('{"name": "Ad'))).replace(b'"end_turn"', b'"max_tokens"')
    async with ModelServer([Raw(cut), Answer(ADA_TEXT)]) as server:
        code, result = await result_of(server, person)
    assert (code, result["structured_output"]) == (0, ADA)
    async with ModelServer([Raw(cut)] * 3) as server:
        code, result = await result_of(server, person)
    assert (code, result["status"], result["stop_reason"]) == (1, "error", "max_tokens")
    assert len(server.requests) == 3


@each_api
async def test_a_schema_that_the_api_refuses_becomes_the_tool_once(api: str, person: str) -> None:
    message = f"{FIELDS[api]}: this model does not take a json_schema"
    refusal = Status(400, body=msgspec.json.encode({"error": {"type": "invalid_request_error", "message": message}}))
    report = Answer("", (("call_1", "report_back", ADA),))
    async with ModelServer([refusal, report]) as server:
        code, result = await result_of(server, person, api=api)
    assert (code, result["status"], result["structured_output"]) == (0, "done", ADA), result
    assert offers_tool(server) == [False, True]
    async with ModelServer([refusal, refusal]) as server:
        code, result = await result_of(server, person, api=api)
    assert (code, result["status"]) == (1, "error")
    assert "does not take a json_schema" in result["error"]
    assert len(server.requests) == 2
