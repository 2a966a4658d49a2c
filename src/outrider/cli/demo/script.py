"""Demo 5: a script stores its conversation, and other processes resume it.

Such a process: python -m outrider.cli.demo.script saved.json 10
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from outrider.cli.demo.story import Json, Story, last_line, list_files, read_file
from outrider.processes import starting
from outrider.providers.base import Reply, Request
from outrider.providers.demo.demo import DemoModel
from outrider.runtime.events import Delta
from outrider.sync import dumps, loads, run, think
from outrider.text import counted, human_size

PROMPT = "Explore this folder: read everything, and tell me what is there."
TIMEOUT = 30.0


def script_that_holds_its_conversation(story: Story) -> str:
    """Call think, store the conversation, resume it in a second process until its limit, finish in a third."""
    story.heading("any process can resume it")
    story.printer.question(PROMPT)
    saved = story.folder / "saved.json"
    turn = think(PROMPT, conversation=[], tools=[list_files, read_file], model=story.model)
    saved.write_text(dumps(turn.conversation), encoding="utf-8")
    _step(story, "think(prompt, conversation=[])", f"{counted(len(turn.tool_calls), 'call')} requested, none run")
    _step(story, "dumps(turn.conversation)", f"{human_size(saved.stat().st_size)} of JSON")
    stopped = _resume(story, saved, "1")
    _step(story, "run(loads(saved), max_turns=1)", f"a second process: {_outcome(stopped)}")
    done = _resume(story, saved, "10")
    _step(story, "run(loads(saved))", f"a third process: {_outcome(done)}")
    story.print_lines("", *(done["text"].splitlines()))
    conversation = loads(saved.read_text(encoding="utf-8"))
    calls = [call.id for message in conversation for call in message.tool_calls]
    results = [result.tool_use_id for message in conversation for result in message.tool_results]
    story.check(
        {
            "think did not return exactly one reply with a call": turn.has_tool_calls and len(turn.conversation) == 2,
            f"the second process ended as {stopped['status']!r}, not 'max_turns'": stopped["status"] == "max_turns",
            f"the third process ended as {done['status']!r}, not 'done'": done["status"] == "done",
            "the calls do not have one result each, in order": calls == results and len(calls) > 1,
            "the beginning of the conversation has changed": conversation[:2] == turn.conversation,
            "the answer does not mention the image": "640 × 400" in done["text"],
        }
    )
    return "Script: three processes passed one conversation on as JSON and finished it."


def _step(story: Story, code: str, outcome: str) -> None:
    story.print_lines(f"  {code:<31} {outcome}")


def _outcome(result: Json) -> str:
    return f"{result['status']}, {counted(result['messages'], 'message')}"


def _resume(story: Story, saved: Path, turns: str) -> Json:
    command, env = story.command("outrider.cli.demo.script", str(saved), turns)
    ended = starting.run(command, environment=env, seconds=TIMEOUT, folder=story.sample)
    if ended.code:
        raise RuntimeError(f"the other process failed: {last_line(ended.errors.decode(errors='replace'))}")
    outcome: Json = json.loads(ended.output)
    return outcome


class IgnoresLastTurn(DemoModel):
    """A demo model that ignores the reminder of its last turn, as real models sometimes do."""

    def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """Stream the demo model's reply without the reminder."""
        return super().stream(msgspec.structs.replace(request, reminder=""))


def resume(saved: Path, turns: int) -> None:
    """Run for at most `turns` turns, save the conversation again, and print the outcome as JSON."""
    conversation = loads(saved.read_text(encoding="utf-8"))
    result = run(conversation, tools=[list_files, read_file], max_turns=turns, model=IgnoresLastTurn())
    saved.write_text(dumps(result.conversation), encoding="utf-8")
    print(json.dumps({"status": result.status, "messages": len(result.conversation), "text": result.text}))


if __name__ == "__main__":
    resume(Path(sys.argv[1]), int(sys.argv[2]))
