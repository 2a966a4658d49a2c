"""Demo 3: `outrider acp`, started and driven as an editor does it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import Any

from outrider.cli.demo.story import Json, Story, last_line
from outrider.cli.styles import CYAN
from outrider.text import human_size

RIDERS = 24
REPORT = "is back, the letters are delivered, and the horse is in the stable."
PROMPT = f"Run `for rider in $(seq {RIDERS}); do echo Rider $rider {REPORT}; sleep %s; done`"
SHOWN = ("tool_call", "tool_call_update", "agent_message_chunk")
ERRORS = "errors.txt"
"""The file with the standard error of `outrider acp`."""
TIMEOUT = 30.0
"""Seconds after which the process is killed."""


class Editor:
    """A minimal ACP client on the pipes of `outrider acp`."""

    def __init__(self, process: subprocess.Popen[str], story: Story, *, shows: bool = True) -> None:
        """`shows` prints each message."""
        self._process = process
        self._story = story
        self._shows = shows
        self._errors = story.folder / ERRORS
        self._last_id = 0
        self.updates: list[Json] = []

    def ask(self, method: str, **params: Any) -> Json:
        """Send a request and return its response; keep and print the updates that arrive before it."""
        assert self._process.stdin
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        if self._shows:
            self._story.print_json(f"  → {method} ", _without(params, "cwd", "sessionId"), CYAN)
        for message in self._received():
            if message.get("id") == self._last_id:
                return _result(message)
            if message.get("method") == "session/update":
                self._take(message["params"]["update"])
        raise RuntimeError(f"outrider acp exited before it responded: {last_line(self._errors.read_text())}")

    def _received(self) -> Iterator[Json]:
        assert self._process.stdout
        return (json.loads(line) for line in self._process.stdout)

    def _take(self, update: Json) -> None:
        self.updates.append(update)
        if self._shows and update["sessionUpdate"] in SHOWN:
            self._story.print_json(f"  ← {update['sessionUpdate']} ", _without(update, "sessionUpdate"))


def watching_from_an_editor(story: Story) -> str:
    """Send a prompt, print its updates, and report the bytes that they saved."""
    story.heading("`outrider acp` over JSON-RPC")
    metrics = story.folder / "metrics.jsonl"
    with running_agent(story, "--model", "demo", "--permissions", "all", "--metrics", str(metrics)) as process:
        editor = Editor(process, story)
        editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        session = editor.ask("session/new", cwd=str(story.folder), mcpServers=[])["sessionId"]
        prompt = [{"type": "text", "text": PROMPT % (0.05 if story.printer.live else 0.02)}]
        stop_reason = editor.ask("session/prompt", sessionId=session, prompt=prompt)["stopReason"]
        story.print_json("  ← ", {"stopReason": stop_reason})
    totals = json.loads(metrics.read_text().splitlines()[-1])
    updates, sizes = totals["updates"], totals["bytes"]
    share = sizes["saved"] / sizes["wanted"]
    story.print_lines(
        "",
        f"  The call changed {updates['wanted']} times; {updates['sent']} updates were sent with only the changes.",
        f"  Bytes: {human_size(sizes['wanted'])} in full, {human_size(sizes['sent'])} sent, {share:.0%} saved.",
    )
    (call,) = calls_of(editor.updates).values()
    story.check(
        {
            f"the stop reason is {stop_reason!r}, not 'end_turn'": stop_reason == "end_turn",
            f"outrider acp exited with code {process.returncode}": process.returncode == 0,
            f"the call ended with status {call.get('status')!r}, not 'completed'": call.get("status") == "completed",
            "the editor does not have the whole output": f"Rider {RIDERS} {REPORT}" in str(call),
            "the updates saved nothing": updates["sent"] <= updates["wanted"] and sizes["saved"] > 0,
        }
    )
    return "Editor: it showed a command live, in few bytes, and has the whole output."


@contextmanager
def running_agent(story: Story, *arguments: str, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run `outrider acp` until the end of the block. It exits when its input closes, or is killed after the timeout."""
    command, env = story.command("outrider", "acp", *arguments)
    pipe = subprocess.PIPE
    with (
        (story.folder / ERRORS).open("w") as errors,
        subprocess.Popen(
            command, env=env, cwd=cwd or story.folder, encoding="utf-8", stdin=pipe, stdout=pipe, stderr=errors
        ) as process,
    ):
        killer = Timer(TIMEOUT, process.kill)
        killer.start()
        try:
            yield process
        finally:
            assert process.stdin
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
            killer.cancel()


def _result(answer: Json) -> Json:
    if "error" in answer:
        raise RuntimeError(f"outrider acp returned an error: {answer['error']['message']}")
    result: Json = answer["result"]
    return result


def _without(params: Json, *names: str) -> Json:
    return {name: value for name, value in params.items() if name not in names}


def calls_of(updates: list[Json]) -> dict[str, Json]:
    """Return the calls after all updates, as an editor has them: each update replaces the fields that it names."""
    calls: dict[str, Json] = {}
    for update in updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            calls.setdefault(update["toolCallId"], {"content": []}).update(update)
    return calls
