"""The third story: the agent for editors, started and spoken to as an editor does it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Timer
from typing import Any

from outrider.cli.demo.apis import Json
from outrider.cli.demo.stage import Stage, last_words
from outrider.cli.styles import CYAN
from outrider.text import human_size

RIDERS = 24
REPORT = "is back, the letters are delivered, and the horse is in the stable."
PROMPT = f"Run `for rider in $(seq {RIDERS}); do echo Rider $rider {REPORT}; sleep %s; done`"
SHOWN = ("tool_call", "tool_call_update", "agent_message_chunk")
ERRORS = "errors.txt"
"""Where the program's standard error goes."""
PATIENCE = 30.0
"""Seconds after which the program is given up."""


class Editor:
    """The other end of the program's pipes."""

    def __init__(self, process: subprocess.Popen[str], stage: Stage) -> None:
        self._process = process
        self._stage = stage
        self._errors = stage.folder / ERRORS
        self._asked = 0
        self.updates: list[Json] = []

    def ask(self, method: str, **params: Any) -> Json:
        """Send a request; its answer, with the updates that come before it kept and shown."""
        assert self._process.stdin
        self._asked += 1
        request = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        self._stage.show(f"  → {method} ", _without(params, "cwd", "sessionId"), CYAN)
        for message in self._received():
            if message.get("id") == self._asked:
                return _result(message)
            if message.get("method") == "session/update":
                self._take(message["params"]["update"])
        raise RuntimeError(f"the program ended before it answered; it said: {last_words(self._errors.read_text())}")

    def _received(self) -> Iterator[Json]:
        assert self._process.stdout
        return (json.loads(line) for line in self._process.stdout)

    def _take(self, update: Json) -> None:
        self.updates.append(update)
        if update["sessionUpdate"] in SHOWN:
            self._stage.show(f"  ← {update['sessionUpdate']} ", _without(update, "sessionUpdate"))


def watching_from_an_editor(stage: Stage) -> str:
    """A prompt, its updates, and what they saved."""
    stage.about("`outrider acp`, spoken to in JSON-RPC")
    metrics = stage.folder / "metrics.jsonl"
    with _program(stage, "--model", "demo", "--permissions", "all", "--metrics", str(metrics)) as process:
        editor = Editor(process, stage)
        editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        session = editor.ask("session/new", cwd=str(stage.folder), mcpServers=[])["sessionId"]
        said = [{"type": "text", "text": PROMPT % (0.05 if stage.screen.live else 0.02)}]
        stopped = editor.ask("session/prompt", sessionId=session, prompt=said)["stopReason"]
        stage.show("  ← ", {"stopReason": stopped})
    saved = json.loads(metrics.read_text().splitlines()[-1])
    updates, sizes = saved["updates"], saved["bytes"]
    share = sizes["saved"] / sizes["wanted"]
    stage.say(
        "",
        f"  The call changed {updates['wanted']} times; {updates['sent']} updates said so, each with what was new.",
        f"  Bytes: {human_size(sizes['wanted'])} wanted, {human_size(sizes['sent'])} sent, {share:.0%} saved.",
    )
    call = _replayed(editor.updates)
    stage.check(
        {
            f"the prompt ended with {stopped!r}, not 'end_turn'": stopped == "end_turn",
            f"the program ended with exit code {process.returncode}": process.returncode == 0,
            f"the call ended as {call.get('status')!r}, not 'completed'": call.get("status") == "completed",
            "the output that the editor has in the end is not whole": f"Rider {RIDERS} {REPORT}" in str(call),
            "more was sent than there was to say": updates["sent"] <= updates["wanted"] and sizes["saved"] > 0,
        }
    )
    return "An editor saw a command live, in few bytes, and has all of its output."


@contextmanager
def _program(stage: Stage, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The program while it runs. It ends when its input is closed, or at the latest when patience does."""
    command, env = stage.program("outrider", "acp", *arguments)
    pipe = subprocess.PIPE
    with (
        (stage.folder / ERRORS).open("w") as errors,
        subprocess.Popen(
            command, env=env, cwd=stage.folder, encoding="utf-8", stdin=pipe, stdout=pipe, stderr=errors
        ) as process,
    ):
        guard = Timer(PATIENCE, process.kill)
        guard.start()
        try:
            yield process
        finally:
            assert process.stdin
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
            guard.cancel()


def _result(answer: Json) -> Json:
    if "error" in answer:
        raise RuntimeError(f"the program refused: {answer['error']['message']}")
    result: Json = answer["result"]
    return result


def _without(params: Json, *names: str) -> Json:
    return {name: value for name, value in params.items() if name not in names}


def _replayed(updates: list[Json]) -> Json:
    """The call as an editor has it after all updates: each replaces the fields that it names."""
    call: Json = {}
    for update in updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            call |= update
    return call
