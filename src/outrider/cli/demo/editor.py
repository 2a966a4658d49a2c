"""Demos 3 and 8: `outrider acp`, started and driven as an editor does it, also in a repository of another agent."""

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
from outrider.processes.starting import run
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
        assert self._process.stdout
        for message in map(json.loads, self._process.stdout):
            if message.get("id") == self._last_id:
                return _result(message)
            if message.get("method") == "session/update":
                update = message["params"]["update"]
                self.updates.append(update)
                if self._shows and update["sessionUpdate"] in SHOWN:
                    self._story.print_json(f"  ← {update['sessionUpdate']} ", _without(update, "sessionUpdate"))
        raise RuntimeError(f"outrider acp exited before it responded: {last_line(self._errors.read_text())}")


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


FILES = {
    "CLAUDE.md": "Times are in minutes since midnight.\n",
    "times.txt": "540 600 660\n",
    ".claude/commands/check.md": "---\ndescription: Check a file\n---\nRead $1.\n",
    ".claude/skills/changelog/SKILL.md": "---\nname: changelog\ndescription: Write an entry.\n---\nUse verbs.\n",
    ".claude/settings.json": json.dumps(
        {
            "hooks": {
                "PreToolUse": [
                    {
                        "matcher": "Bash",
                        "hooks": [{"type": "command", "command": "echo 'Nothing is deleted here.' >&2; exit 2"}],
                    }
                ]
            }
        }
    ),
}
PROMPTS = ("/check times.txt", "Run `rm times.txt`")


def prepared_repository(story: Story) -> str:
    """Agree to the hooks, open the repository over ACP, and call its command. Its hook keeps the file."""
    story.heading("CLAUDE.md, a skill, a command and a hook of another agent")
    folder = story.folder / "ferry"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / ".git").mkdir()
    story.print_lines("  $ outrider trust --yes")
    _run(story, folder, "trust", "--yes")
    with running_agent(story, "--model", "demo", "--permissions", "all", cwd=folder) as process:
        editor = Editor(process, story, shows=False)
        editor.ask("initialize", protocolVersion=1, clientCapabilities={"fs": {}})
        session = editor.ask("session/new", cwd=str(folder), mcpServers=[])["sessionId"]
        for prompt in PROMPTS:
            story.printer.question(prompt)
            ended = editor.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": prompt}])
    commands = [
        command["name"]
        for update in editor.updates
        if update["sessionUpdate"] == "available_commands_update"
        for command in update["availableCommands"]
    ]
    own = [f"/{name}" for name in commands if name in ("check", "changelog")]
    story.print_lines(f"  Of the repository, the editor has the commands {' and '.join(own)}.", "")
    calls = calls_of(editor.updates)
    for each in calls.values():
        story.print_lines(f"  {'✓' if each['status'] == 'completed' else '✗'} {each['title']:<25} {_text_of(each)}")
    shown = json.dumps([*calls.values()], ensure_ascii=False)
    story.check(
        {
            "the editor does not have the command and the skill": {"check", "changelog"} <= set(commands),
            "the command was not carried out": "540 600 660" in shown,
            "the hook did not refuse the command": "Nothing is deleted here." in shown,
            "the file was deleted": (folder / "times.txt").exists(),
            f"the stop reason is {ended['stopReason']!r}, not 'end_turn'": ended["stopReason"] == "end_turn",
        }
    )
    return "Repository of another agent: its command, skill and hook work in an editor."


def _text_of(call: Json) -> str:
    """Return the first line that a call shows."""
    texts = [item["content"]["text"] for item in call["content"] if item["type"] == "content"]
    lines = [line.strip("` ") for line in "\n".join(texts).splitlines() if line.strip("` ")]
    return lines[0] if lines else ""


def _run(story: Story, folder: Path, *arguments: str) -> None:
    command, env = story.command("outrider", *arguments)
    ended = run(command, environment=env, seconds=30, folder=folder)
    if ended.code:
        raise RuntimeError(f"outrider {arguments[0]} failed: {last_line(ended.errors.decode(errors='replace'))}")
