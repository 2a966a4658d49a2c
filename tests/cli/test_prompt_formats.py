"""The output formats of `outrider -p`: the shape of each, on every path, and nothing else on standard output."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outrider.conversation.messages import Message
from outrider.runtime.events import (
    MessageAdded,
    Notice,
    ReplyDiscarded,
    Retrying,
    RunFinished,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    encode_json,
)
from tests.cli.asking import (
    DEADLINE,
    KEY,
    MODEL,
    Ended,
    ask,
    check_result,
    everywhere,
    in_shell,
    latest,
    messages,
    running,
    sessions,
    streamed,
)
from tests.cli.program import clean_environment, outrider, run, start
from tests.modelserver import Broken, Held, ModelServer, Raw, Status
from tests.streams import Answer

DEMO = ("--model", "demo")
NOISY = """
import logging, os, subprocess, sys, warnings
from outrider import tool

print("printed when it is loaded")
warnings.warn("a warning")
logging.warning("a log line")

@tool(effect="read")
def noisy(text: str) -> str:
    "Make noise."
    print("printed")
    sys.stdout.write("written\\\\n")
    sys.__stdout__.write("to the original\\\\n")
    sys.__stdout__.flush()
    os.write(1, b"to the descriptor\\\\n")
    subprocess.run(["echo", "by a child"])
    warnings.warn("another warning")
    return text
""".replace("\\\\n", "\\n")
SLOW = """
import asyncio
from outrider import tool, ToolContext

@tool(effect="read")
async def list_files(context: ToolContext) -> str:
    "Count, for a minute."
    for number in range(6000):
        context.progress(str(number))
        await asyncio.sleep(0.01)
    return "counted"
"""


def json_of(ended: Ended) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(ended.stdout)
    assert ended.stdout.count("\n") == 1
    check_result(result)
    return result


# One object


async def test_json_is_one_object_with_the_answer_and_what_it_cost() -> None:
    async with ModelServer([Answer("All is well.")]) as server:
        ended = await ask(server, "-p", "How is it?", "--model", MODEL, "--output-format", "json")
    result = json_of(ended)
    assert (ended.returncode, result["status"], result["text"], result["turns"]) == (0, "done", "All is well.", 1)
    assert result["session"] == latest()
    assert result["structured_output"] is None
    assert result["usage"]["output_tokens"] > 0
    assert result["cost"] > 0
    assert "error" not in result
    assert ended.stderr == "", "no progress where nobody watches"


def test_json_has_every_character_whatever_the_terminal_has() -> None:
    ended = outrider("-p", "Read ü.txt", *DEMO, "--output-format", "json", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert json_of(ended)["status"] == "done"


@pytest.mark.parametrize("model", ["balanced", "anthropic/balanced"])
def test_a_missing_key_is_named_in_json(model: str) -> None:
    ended = outrider("-p", "What is 2+2?", "--model", model, "--output-format", "json")
    result = json_of(ended)
    assert (ended.returncode, result["status"]) == (1, "error")
    assert "ANTHROPIC_API_KEY" in result["error"]


async def test_a_reply_that_was_cut_off_says_so() -> None:
    stop = {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 1}}
    body = b"".join(
        b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), json.dumps(event).encode())
        for event in (
            {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "No."}},
            {"type": "content_block_stop", "index": 0},
            stop,
            {"type": "message_stop"},
        )
    )
    async with ModelServer([Raw(body)]) as server:
        ended = await ask(server, "-p", "Do it.", "--output-format", "json")
    result = json_of(ended)
    assert (ended.returncode, result["text"], result["stop_reason"]) == (4, "No.", "refusal")


# A stream of events


async def test_a_stream_is_every_event_in_order_and_then_the_result(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Buy milk.")
    steps = [Answer("I'll look.", (("call_1", "Read", {"file_path": "notes.txt"}),)), Answer("Milk, it says.")]
    async with ModelServer(steps) as server:
        ended = await ask(server, "-p", "What is in it?", "--output-format", "stream-json", cwd=tmp_path)
    events, result = streamed(ended.stdout)
    assert (ended.returncode, result["status"], result["text"], result["turns"]) == (0, "done", "Milk, it says.", 2)
    assert isinstance(events[-1], RunFinished)
    assert result["usage"]["input_tokens"] == events[-1].usage.input_tokens
    assert [event.message for event in events if isinstance(event, MessageAdded)] == messages()
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "I'll look.Milk, it says."
    (started,) = [event for event in events if isinstance(event, ToolStarted)]
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert (started.name, started.input, finished.call_id) == ("Read", {"file_path": "notes.txt"}, "call_1")
    assert "Buy milk." in finished.result.text
    assert ended.stderr == "", "the events are the progress"


async def test_an_event_is_there_as_soon_as_it_happens() -> None:
    async with ModelServer([Held(Answer("The first half and the other half."))]) as server:
        flags = ("-p", "Tell me.", "--output-format", "stream-json")
        with running(*flags, **everywhere(server)) as process:
            assert process.stdout
            await asyncio.wait_for(server.held.wait(), DEADLINE)
            seen = ""
            while '"text_delta"' not in seen:
                line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), DEADLINE)
                assert line, "it ended before"
                seen += line
            server.release.set()
            rest, _ = await asyncio.to_thread(process.communicate, timeout=DEADLINE)
    _, result = streamed(seen + rest)
    assert result["status"] == "done"


PATHS: list[tuple[str, list[str], int, str, str]] = [
    ("done", ["-p", "Hello"], 0, "done", ""),
    ("a model that there is not", ["-p", "Hello", "--model", "claud/opus"], 2, "error", "there is no model"),
    ("no model name", ["-p", "Hello", "--model", ""], 2, "error", "--model"),
    ("nothing to ask", ["-p"], 2, "error", "the prompt is missing"),
    ("an unknown flag", ["-p", "Hello", "--modle", "x"], 2, "error", "did you mean --model?"),
    ("a flag without its value", ["-p", "Hello", "--model"], 2, "error", "expected one argument"),
    ("too many words", ["-p", "Hello", "there"], 2, "error", "in quotes"),
    ("no turns", ["-p", "Hello", "--max-turns", "0"], 2, "error", "--max-turns must be a whole number over 0"),
    ("no such session", ["-p", "Hello", "--resume", "nonsense"], 2, "error", "there is no session"),
    ("no session at all", ["-p", "Hello", "--continue"], 2, "error", "there is no session to continue"),
    ("no such folder", ["-p", "Hello", "--cwd", "/no/such/folder"], 2, "error", "no such folder"),
    ("no such file", ["-p", "Hello", "--attach", "/no/such/file"], 2, "error", "No such file"),
    ("no such schema", ["-p", "Hello", "--schema", "/no/such/file"], 2, "error", "No such file"),
    ("no such tools", ["-p", "Hello", "--tools", "/no/such/file.py"], 2, "error", "there is no such file"),
    ("no such tool", ["-p", "Hello", "--tools", "Raed"], 2, "error", 'did you mean "Read"?'),
    ("no such mode", ["-p", "Hello", "--permissions", "al"], 2, "error", "--permissions must be one of"),
    ("no key", ["-p", "Hello", "--model", "openai/gpt-5.6"], 1, "error", "there is no key"),
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("wanted", ["stream-json", "json"])
@pytest.mark.parametrize(
    ("arguments", "code", "status", "error"), [path[1:] for path in PATHS], ids=[path[0] for path in PATHS]
)
def test_every_path_ends_with_the_result(arguments: list[str], code: int, status: str, error: str, wanted: str) -> None:
    for flag in (["--output-format", wanted], [f"--output-format={wanted}"]):
        ended = outrider(*flag, *arguments, OUTRIDER_MODEL="demo")
        result = streamed(ended.stdout)[1] if wanted == "stream-json" else json_of(ended)
        assert (ended.returncode, result["status"]) == (code, status), ended.stderr
        assert error in result.get("error", "")
        assert "Traceback" not in ended.stderr
        if error:
            assert f"outrider: {result['error']}\n" in ended.stderr, "the sentence is there for people as well"


SERVED: list[tuple[str, list[Any], list[str], int, str]] = [
    ("an error of the provider", [Status(401)], [], 1, "error"),
    ("a torn stream", [Broken(Answer("Half of it"), "first delta", "close")] * 9, [], 1, "error"),
    ("turns", [Answer("", (("c", "Glob", {"pattern": "*"}),))], ["--max-turns", "1"], 3, "max_turns"),
    ("cost", [Answer("", (("c", "Glob", {"pattern": "*"}),))], ["--max-cost", "0.0000001"], 3, "max_cost"),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("wanted", ["stream-json", "json", "text"])
@pytest.mark.parametrize(
    ("steps", "flags", "code", "status"), [path[1:] for path in SERVED], ids=[path[0] for path in SERVED]
)
async def test_every_end_of_a_run_has_its_code_and_its_result(
    steps: list[Any], flags: list[str], code: int, status: str, wanted: str, tmp_path: Path
) -> None:
    async with ModelServer(steps) as server:
        flags = ["--output-format", wanted, *flags]
        ended = await ask(server, "-p", "Hello", *flags, cwd=tmp_path, OUTRIDER_RETRY_SECONDS="0.5")
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False), ended.stderr
    if wanted == "text":
        assert ended.stdout == ""
        assert ended.stderr.splitlines()[-1].startswith("outrider: ")
        return
    result = streamed(ended.stdout)[1] if wanted == "stream-json" else json_of(ended)
    assert (result["status"], result["session"]) == (status, latest())
    assert bool(result.get("error")) == (code == 1)
    assert KEY not in ended.stdout + ended.stderr


def test_a_damaged_setting_is_wrong_usage_with_a_result(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("modle = 'x'\n")
    ended = outrider("-p", "Hi", "--output-format", "stream-json", OUTRIDER_CONFIG=str(tmp_path / "config.toml"))
    assert (ended.returncode, streamed(ended.stdout)[1]["status"]) == (2, "error")
    assert 'did you mean "model"?' in ended.stderr


def test_what_nobody_foresaw_has_a_result_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import outrider.coding.workbench\n"
        "def broken(*_, **__):\n    raise ZeroDivisionError('by zero')\n"
        "outrider.coding.workbench.Workbench.open = broken\n"
    )
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    ended = outrider("-p", "Hi", *DEMO, "--output-format", "stream-json", PYTHONPATH=path)
    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False)
    assert "ZeroDivisionError: by zero" in streamed(ended.stdout)[1]["error"]


def test_an_unknown_format_is_wrong_usage_in_words() -> None:
    ended = outrider("-p", "Hi", "--output-format", "xml", *DEMO)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "stream-json" in ended.stderr


def test_nothing_left_to_do_is_a_result_as_well() -> None:
    outrider("-p", "What is 2+2?", *DEMO)
    ended = outrider("--continue", "--output-format", "stream-json")
    events, result = streamed(ended.stdout)
    assert (ended.returncode, events, result["status"], result["session"]) == (0, [], "done", latest())


# Nothing else on standard output


@pytest.mark.parametrize("wanted", ["text", "json", "stream-json"])
async def test_whatever_makes_noise_does_not_reach_standard_output(tmp_path: Path, wanted: str) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    steps = [Answer("", (("c", "noisy", {"text": "quiet"}),)), Answer("Done.")]
    async with ModelServer(steps) as server:
        ended = await ask(server, "-p", "Go", "--tools", str(tmp_path / "noisy.py"), "--output-format", wanted)
    assert ended.returncode == 0, ended.stderr
    for noise in ("printed when", "printed", "written", "to the original", "to the descriptor", "by a child"):
        assert noise in ended.stderr
        assert noise not in ended.stdout
    assert "warning" not in ended.stdout
    if wanted == "text":
        assert ended.stdout == "Done.\n"
    elif wanted == "json":
        assert json_of(ended)["text"] == "Done."
    else:
        assert streamed(ended.stdout)[1]["text"] == "Done."


async def test_progress_names_a_call_and_does_not_repeat_all_that_it_was_given(tmp_path: Path) -> None:
    write = {"file_path": "new.txt", "content": "word " * 5_000}
    async with ModelServer([Answer("", (("c", "Write", write),)), Answer("Done.")]) as server:
        ended = await ask(server, "-p", "Write it.", "--permissions", "edits", cwd=tmp_path)
    assert (ended.returncode, (tmp_path / "new.txt").exists()) == (0, True), ended.stderr
    assert "Write(new.txt)" in ended.stderr
    assert "word word" not in ended.stderr


def test_at_a_terminal_json_is_accompanied_by_progress_and_events_are_not(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Buy milk.")
    for wanted, accompanied in (("json", True), ("stream-json", False)):
        master, slave = pty.openpty()
        ended = run(
            *("-p", "Read notes.txt", *DEMO, "--output-format", wanted),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=slave,
            cwd=tmp_path,
            env=clean_environment(),
            timeout=60,
        )
        os.close(slave)
        os.set_blocking(master, False)
        try:
            shown = os.read(master, 65536).decode()
        except OSError:
            shown = ""
        os.close(master)
        assert json.loads(ended.stdout.splitlines()[-1])["status"] == "done"
        assert ("Read(notes.txt)" in shown) == accompanied


def test_a_terminal_is_not_at_the_mercy_of_the_answer(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\x1b]0;mine\x07\x1b[2J")
    master, slave = pty.openpty()
    command = ("-p", "Read a.txt", *DEMO)
    run(*command, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, cwd=tmp_path, env=clean_environment())
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)
    assert "mine" in shown
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown


# Readers, terminals and disks


def test_a_reader_that_leaves_in_the_middle_ends_the_run_quietly(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    script = f"outrider -p 'list the files' --model demo --tools none --tools {tmp_path}/slow.py"
    ended = in_shell(f"{script} --output-format stream-json | head -1; exit ${{PIPESTATUS[0]}}")
    assert (ended.returncode, ended.stderr.decode()) == (0, "")
    assert len(ended.stdout.splitlines()) == 1
    (result,) = [result for message in messages() for result in message.tool_results]
    assert result.is_error, "it was stopped and did not count to its end"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("wanted", ["text", "json", "stream-json"])
def test_a_closed_standard_output_is_no_reason_for_a_traceback(wanted: str) -> None:
    ended = in_shell(f"outrider -p 'What is 2+2?' --model demo --output-format {wanted} >&-")
    assert (ended.returncode, b"Traceback" in ended.stderr) == (0, False), ended.stderr
    assert messages()[-1].text == "4"
    assert sessions() == 1


def test_closed_standard_streams_do_not_end_up_in_the_log() -> None:
    ended = in_shell("outrider -p 'What is 2+2?' --model demo <&- >&- 2>&-; outrider sessions list --all")
    assert (ended.returncode, b"What is 2+2?" in ended.stdout) == (0, True)


def test_a_closed_standard_error_leaves_the_answer_alone() -> None:
    ended = in_shell("outrider -p 'Read a.txt' --model demo 2>&-")
    assert (ended.returncode, ended.stdout.startswith(b"Here is what I found")) == (0, True)


@pytest.mark.sampled(1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("wanted", ["text", "json", "stream-json"])
def test_a_full_disk_is_an_error_in_a_sentence(wanted: str) -> None:
    ended = in_shell(f"outrider -p 'What is 2+2?' --model demo --output-format {wanted} >/dev/full")
    assert (ended.returncode, b"Traceback" in ended.stderr) == (1, False)
    assert b"No space left on device" in ended.stderr


def test_a_terminal_that_lacks_characters_gets_what_it_has() -> None:
    ended = in_shell("outrider -p 'Read ü.txt' --model demo", PYTHONIOENCODING="latin-1", PYTHONUTF8="0")
    assert ended.returncode == 0
    assert "ü.txt".encode("latin-1") in ended.stdout
    bare = in_shell("outrider -p 'Read ü.txt' --model demo", PYTHONIOENCODING="ascii", LC_ALL="POSIX")
    assert (bare.returncode, b"?.txt" in bare.stdout) == (0, True), bare.stderr


def test_a_pipe_that_does_not_wait_gets_everything_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("word " * 8_000)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with start(
        *("-p", "Read big.txt", *DEMO, "--output-format", "stream-json"),
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=clean_environment(),
    ) as process:
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            received = pipe.read()
    assert process.returncode == 0
    assert streamed(received.decode())[1]["status"] == "done"


# What tools put into events


@pytest.mark.parametrize(
    "content", [object(), {1: "a", (2, 3): "b"}, {"x": "\ud800"}, 10**40, float("nan"), [b"bytes"]]
)
def test_an_event_with_anything_in_it_is_a_line_of_json(content: Any) -> None:
    for event in (ToolProgress("c", content), ToolFinished("c", "t", Message.user("x").content[0], content)):  # type: ignore[arg-type]
        line = encode_json(event)
        assert b"\n" not in line
        assert json.loads(line)["type"] in ("tool_progress", "tool_finished")


def test_what_cannot_be_said_in_json_is_a_notice() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert isinstance(msgspec.json.decode(encode_json(ToolProgress("c", endless)), type=Notice), Notice)


BROKEN = Broken(Answer("All is well."), "first delta", "end")
OVERLOADED = Status(529, {"retry-after-ms": "20"})


async def test_a_broken_reply_is_retried_and_the_stream_says_so() -> None:
    async with ModelServer([BROKEN, OVERLOADED, Answer("All is well.")]) as server:
        ended = await ask(server, "-p", "Hello", "--output-format", "stream-json")
        events, result = streamed(ended.stdout)
        told = [event for event in events if isinstance(event, ReplyDiscarded | Retrying)]
        assert [type(event) for event in told] == [ReplyDiscarded, Retrying, Retrying]
        assert [event.attempt for event in told if isinstance(event, Retrying)] == [2, 3]
        assert (ended.returncode, result["status"], result["text"]) == (0, "done", "All is well.")
        assert result["usage"]["input_tokens"] == 2 * 19, "the tokens of the broken reply are counted"


async def test_a_broken_reply_leaves_the_answer_alone_on_standard_output() -> None:
    async with ModelServer([BROKEN, Answer("All is well.")]) as server:
        ended = await ask(server, "-p", "Hello")
        assert (ended.returncode, ended.stdout) == (0, "All is well.\n")
        assert ended.stderr.count("retrying in") == ended.stderr.count("ended before it was complete") == 1


async def test_the_error_of_a_broken_reply_is_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_RETRY_SECONDS", "0")
    async with ModelServer([BROKEN]) as server:
        ended = await ask(server, "-p", "Hello")
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.count("ended before it was complete") == 1
