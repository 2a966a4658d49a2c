"""`-p --input-format stream-json`: lines on standard input are messages, which steer the agent while it works."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from outrider.cli.message_lines import read_messages
from outrider.cli.options import UsageError
from outrider.conversation.attachments import Attachment
from outrider.events import RunFinished
from tests.cli.asking import ask, everywhere, messages, streamed, wait_until
from tests.cli.program import clean_environment, outrider, start
from tests.modelserver import ModelServer
from tests.streams import Answer

FLAGS = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--permissions", "all")
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


def line(content: Any) -> bytes:
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}).encode() + b"\n"


def read(data: bytes) -> list[Any]:
    with TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return list(read_messages(file.fileno()))


def steered(folder: Path, environment: dict[str, str]) -> tuple[dict[str, Any], str]:
    """Send a message, another once the command runs, and end the input. Return the first line and all after it."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(*FLAGS, cwd=folder, env=clean_environment() | environment, **streams) as process:
        try:
            assert process.stdin
            assert process.stdout
            process.stdin.write(line("Look."))
            process.stdin.flush()
            first = json.loads(process.stdout.readline())
            wait_until((folder / "begun").exists, process)
            process.stdin.write(line("Answer in French."))
            process.stdin.flush()
            while b"steering_queued" not in process.stdout.readline():
                assert process.poll() is None
            (folder / "go").touch()
            process.stdin.close()
            rest = process.stdout.read().decode()
            assert process.wait(60) == 0
        finally:
            process.kill()
    return first, rest


async def test_a_line_steers_the_run_and_the_end_of_the_input_ends_the_program(tmp_path: Path) -> None:
    command = "touch begun; until [ -e go ]; do sleep 0.02; done"
    steps = [Answer("", (("c1", "Bash", {"command": command}),)), Answer("Oui.")]
    async with ModelServer(steps) as server:
        first, rest = await asyncio.to_thread(steered, tmp_path, everywhere(server))
    result = json.loads(rest.splitlines()[-1])
    assert (result["text"], result["turns"], result["session"]) == ("Oui.", 2, first["session"])
    last = server.requests[1].json["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result", "text"]
    assert last[1]["text"] == "Answer in French."


async def test_each_line_is_answered_and_the_result_is_that_of_the_last(tmp_path: Path) -> None:
    async with ModelServer([Answer("One."), Answer("Two."), Answer("Three.")]) as server:
        ended = await ask(server, *FLAGS, cwd=tmp_path, input=line("First?"))
        assert streamed(ended.stdout)[1]["text"] == "One."
        picture = {"type": "attachment", "data": base64.b64encode(PNG).decode(), "name": "a.png"}
        more = ("-p", "Second?", "--continue", *FLAGS[1:])
        ended = await ask(server, *more, cwd=tmp_path, input=line([{"type": "text", "text": "Third?"}, picture]))
    result = streamed(ended.stdout)[1]
    assert ended.returncode == 0
    assert result["text"] == messages()[-1].text, "the third message may have come in time for the second request"
    said = [message for message in messages() if message.role == "user"]
    assert [message.text for message in said] == ["First?", "Second?", "Third?"]
    assert said[2].content[1].name == "a.png"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"Hello\n", "line 1 is not a message"),
        (b'\n{"type": "user"}\n', "line 2 is not a message: .*`message`"),
        (line([{"type": "image"}]), "line 1 is not a message"),
        (line(" "), "line 1 has an empty message"),
        (b"\xff\xfe\n", "line 1 is not a message"),
    ],
)
def test_a_line_that_is_no_message_is_named(data: bytes, wrong: str) -> None:
    (error,) = read(data + line("never read"))
    assert isinstance(error, UsageError)
    with pytest.raises(UsageError, match=wrong):
        raise error


def test_lines_are_read_whole_and_the_last_needs_no_end() -> None:
    text, files, end = read(line("é" * 70_000) + line([{"type": "attachment", "data": "aGk="}]).rstrip())
    assert (text, end) == (["é" * 70_000], None)
    assert isinstance(files[0], Attachment)
    assert files[0].source == b"hi"


def test_a_wrong_line_ends_the_program_after_the_answer_with_exit_code_2() -> None:
    first = line("What is 2+2?")
    ended = outrider("-p", "--model", "demo", *FLAGS[1:], input=first + b"oops\n")
    events, result = streamed(ended.stdout)
    assert ended.returncode == 2
    assert (result["status"], result["text"], result["turns"]) == ("error", "4", 1)
    assert result["error"].startswith("standard input, line 2 is not a message")
    assert [event.status for event in events if isinstance(event, RunFinished)] == ["done"]
    alone = outrider("-p", "--model", "demo", *FLAGS[1:], input=b"oops\n" + first)
    events, result = streamed(alone.stdout)
    assert (alone.returncode, result["text"], result["turns"]) == (2, "", 0)
    assert result["error"].startswith("standard input, line 1 is not a message")
    assert not events, "nothing was sent"
    assert outrider("-p", "--model", "demo", *FLAGS[1:]).returncode == 2


def test_a_schema_is_for_one_answer() -> None:
    ended = outrider("-p", "Hi", "--schema", "s.json", "--input-format", "stream-json")
    assert (ended.returncode, "--schema describes one answer" in ended.stderr) == (2, True)
