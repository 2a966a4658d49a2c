"""Commands in the editor's terminals; without them, output that is appended, or shown as a tail while it comes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import Editor, Handler, Refused, introduced
from tests.cli.asking import everywhere
from tests.modelserver import Answer, ModelServer
from tests.processes import is_running

ALL = ("--permissions", "all")
APPENDS = {"_meta": {"terminal_output": True}}


class Terminals:
    """Terminals of an editor: real processes, whose output is kept."""

    def __init__(self) -> None:
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.output: dict[str, bytes] = {}
        self.reading: dict[str, asyncio.Task[None]] = {}
        self.released: list[str] = []
        self.created: list[dict[str, Any]] = []

    def handlers(self) -> dict[str, Handler]:
        return {
            "terminal/create": self.create,
            "terminal/output": self.read,
            "terminal/wait_for_exit": self.wait,
            "terminal/kill": self.kill,
            "terminal/release": self.release,
        }

    async def create(self, params: dict[str, Any]) -> dict[str, str]:
        self.created.append(params)
        name = f"terminal-{len(self.created)}"
        self.processes[name] = process = await asyncio.create_subprocess_exec(
            params["command"],
            *params["args"],
            cwd=params["cwd"],
            env=os.environ | {each["name"]: each["value"] for each in params["env"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.output[name] = b""
        self.reading[name] = asyncio.ensure_future(self._follow(name, process))
        return {"terminalId": name}

    async def _follow(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout
        while data := await process.stdout.read(65536):
            self.output[name] += data
        await process.wait()

    def read(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"output": self.output[params["terminalId"]].decode(), "truncated": False}

    async def wait(self, params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.shield(self.reading[params["terminalId"]])
        code = self.processes[params["terminalId"]].returncode
        assert code is not None
        return {"exitCode": code, "signal": None} if code >= 0 else {"signal": str(-code)}

    def kill(self, params: dict[str, Any]) -> dict[str, Any]:
        process = self.processes[params["terminalId"]]
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        return {}

    def release(self, params: dict[str, Any]) -> dict[str, Any]:
        self.kill(params)
        self.released.append(params["terminalId"])
        return {}

    async def close(self) -> None:
        for name in self.processes:
            self.kill({"terminalId": name})
        await asyncio.gather(*self.reading.values())


@pytest.mark.parametrize("also", [{}, APPENDS])
async def test_a_command_runs_in_a_terminal_of_the_editor(tmp_path: Path, also: dict[str, Any]) -> None:
    terminals = Terminals()
    handlers, capabilities = terminals.handlers(), {"terminal": True, **also}
    async with introduced(*ALL, capabilities=capabilities, handlers=handlers) as editor:
        session = await editor.new(tmp_path)
        assert await editor.prompt(session, "run `echo hello; touch made; exit 3`") == "end_turn"
        call = editor.seen(session).call("Bash")
        (created,) = terminals.created
        assert created["sessionId"] == session
        assert created["cwd"] == str(tmp_path)
        assert not {each["name"] for each in created["env"]} & {"HOME", "PATH", "OUTRIDER_HOME"}, "only what differs"
    assert call["content"] == [{"type": "terminal", "terminalId": "terminal-1"}]
    assert call["rawOutput"]["exit_code"] == 3
    assert terminals.released == ["terminal-1"]
    assert "hello" in editor.seen(session).text(), "the model has read it"
    assert (tmp_path / "made").exists()
    await terminals.close()


async def test_a_command_in_a_terminal_is_cancelled(tmp_path: Path) -> None:
    terminals = Terminals()
    async with introduced(*ALL, capabilities={"terminal": True}, handlers=terminals.handlers()) as editor:
        session = await editor.new(tmp_path)
        request = editor.say(session, "run `echo $$ > pid; sleep 30`")
        pid = tmp_path / "pid"
        await editor.until(lambda: pid.exists() and pid.read_text())
        editor.tell("session/cancel", sessionId=session)
        assert await editor.answer(request) == {"stopReason": "cancelled"}
        assert not editor.seen(session).open_calls
        await editor.until(lambda: not is_running(pid))
        await editor.until(lambda: terminals.released)
    await terminals.close()


async def test_an_editor_that_starts_no_terminal_has_the_command_run_for_it(tmp_path: Path) -> None:
    def create(params: dict[str, Any]) -> Any:
        raise Refused(-32603, "no terminal can be opened")

    async with introduced(*ALL, capabilities={"terminal": True}, handlers={"terminal/create": create}) as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, "run `echo hello > made`")
        assert editor.seen(session).call("Bash")["status"] == "completed"
    assert (tmp_path / "made").read_text() == "hello\n"


# Without terminals of the editor


def counting(lines: int) -> str:
    """A command that prints so many lines of 80 characters."""
    return f"run `seq -f %079.0f 1 {lines}; touch done`"


def printed(lines: int) -> str:
    return "".join(f"{number:079d}\n" for number in range(1, lines + 1))


async def test_output_is_appended_each_byte_once(tmp_path: Path) -> None:
    async with introduced(*ALL, capabilities=APPENDS) as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, counting(100))
        seen = editor.seen(session)
        call = seen.call("Bash")
        assert seen.terminals == {call["toolCallId"]: printed(100)}
        assert seen.exits == {call["toolCallId"]: 0}
        assert call["content"] == [{"type": "terminal", "terminalId": call["toolCallId"]}]
        assert size(editor, call["toolCallId"]) <= 1.3 * len(printed(100))


async def test_output_that_comes_too_fast_to_be_shown_is_left_out_with_a_note(tmp_path: Path) -> None:
    async with introduced(*ALL, capabilities=APPENDS) as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, counting(20_000))
        (shown,) = editor.seen(session).terminals.values()
        (call_id,) = editor.seen(session).terminals
        assert "bytes are not shown here" in shown
        assert shown.endswith(printed(20_000)[-800:])
        assert size(editor, call_id) <= 1.3 * len(printed(20_000))


async def test_output_that_cannot_be_appended_is_sent_no_more_than_twice(tmp_path: Path) -> None:
    async with introduced(*ALL) as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, counting(2_000))
        call = editor.seen(session).call("Bash")
        assert "output was long" in str(call["content"]) or printed(3) in str(call["content"][0]["content"]["text"])
        assert size(editor, call["toolCallId"]) <= 2 * len(printed(2_000))


def size(editor: Editor, call_id: str) -> int:
    return sum(len(line) for line in editor.lines if f'"toolCallId":"{call_id}"'.encode() in line)


@pytest.mark.parametrize("capabilities", [{}, APPENDS])
async def test_a_running_command_shows_what_it_prints(tmp_path: Path, capabilities: dict[str, Any]) -> None:
    async with introduced(*ALL, capabilities=capabilities) as editor:
        session = await editor.new(tmp_path)
        request = editor.say(session, "run `echo begun; while [ ! -e go ]; do sleep 0.02; done; echo over`")
        seen = editor.seen(session)
        await editor.until(lambda: "begun" in str((seen.terminals, *(call["content"] for call in seen.calls.values()))))
        assert seen.call("Bash")["status"] == "in_progress"
        (tmp_path / "go").touch()
        assert await editor.answer(request) == {"stopReason": "end_turn"}
        everything = str((seen.terminals, seen.call("Bash")["content"]))
        assert "over" in everything


@pytest.mark.parametrize("capabilities", [{}, APPENDS])
async def test_bytes_that_are_no_text_and_characters_that_are_cut_in_two_do_no_harm(
    tmp_path: Path, capabilities: dict[str, Any]
) -> None:
    script = tmp_path / "odd.sh"
    script.write_text("printf '\\303'; sleep 0.1; printf '\\251 \\377\\000 \\033[1m bold \\360\\237\\230\\200\\n'")
    async with introduced(*ALL, capabilities=capabilities) as editor:
        session = await editor.new(tmp_path)
        await editor.prompt(session, "run `sh odd.sh`")
        seen = editor.seen(session)
        assert seen.call("Bash")["status"] == "completed"
        assert "é" in "".join(strings((list(seen.terminals.values()), seen.call("Bash")["content"])))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings(each)


async def test_a_command_in_the_background_says_that_it_runs(tmp_path: Path) -> None:
    background = Answer(calls=(("b", "Bash", {"command": "sleep 30", "run_in_background": True}),))
    async with (
        ModelServer([background, Answer("Done.")]) as server,
        introduced(*ALL, capabilities=APPENDS, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Wait there")
        call = editor.seen(session).calls["b"]
    assert call["status"] == "completed"
    assert "background" in call["content"][-1]["content"]["text"]


async def test_why_a_command_did_not_end_by_itself_is_said_beside_its_output(tmp_path: Path) -> None:
    slow = Answer(calls=(("b", "Bash", {"command": "echo begun; sleep 30", "timeout": 200}),))
    async with (
        ModelServer([slow, Answer("Done.")]) as server,
        introduced(*ALL, capabilities=APPENDS, **everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        await editor.prompt(session, "Wait")
        call = editor.seen(session).calls["b"]
    assert call["status"] == "failed"
    assert call["content"][0] == {"type": "terminal", "terminalId": "b"}
    assert editor.seen(session).terminals["b"] == "begun\n"
    assert "0.2" in call["content"][1]["content"]["text"]
