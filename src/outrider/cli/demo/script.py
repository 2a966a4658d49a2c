"""The fifth story: a script that holds its conversation, and other processes that go on with it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from outrider.cli.demo.apis import Json
from outrider.cli.demo.sample import list_files, read_file
from outrider.cli.demo.stage import Stage, last_words
from outrider.sync import dumps, loads, think
from outrider.text import counted, human_size

PROMPT = "Explore this folder: read everything, and tell me what is there."
PATIENCE = 30.0


def script_that_holds_its_conversation(stage: Stage) -> str:
    """Think, store, go on elsewhere, run out of turns, finish."""
    stage.about("any process takes it up")
    stage.screen.question(PROMPT)
    saved = stage.folder / "saved.json"
    turn = think(PROMPT, conversation=[], tools=[list_files, read_file], model=stage.model)
    saved.write_text(dumps(turn.conversation), encoding="utf-8")
    _step(stage, "think(prompt, conversation=[])", f"{counted(len(turn.tool_calls), 'call')} asked for, none made")
    _step(stage, "dumps(turn.conversation)", f"{human_size(saved.stat().st_size)} of JSON")
    stopped = _go_on(stage, saved, "1")
    _step(stage, "run(loads(saved), max_turns=1)", f"a second process: {_outcome(stopped)}")
    done = _go_on(stage, saved, "10")
    _step(stage, "run(loads(saved))", f"a third process: {_outcome(done)}")
    stage.say("", *(done["text"].splitlines()))
    conversation = loads(saved.read_text(encoding="utf-8"))
    calls = [call.id for message in conversation for call in message.tool_calls]
    answers = [result.tool_use_id for message in conversation for result in message.tool_results]
    stage.check(
        {
            "think was to ask for a call, and to make none": turn.has_tool_calls and len(turn.conversation) == 2,
            f"the second process ended as {stopped['status']!r}, not 'max_turns'": stopped["status"] == "max_turns",
            f"the third process ended as {done['status']!r}, not 'done'": done["status"] == "done",
            "a call was not answered once, in order": calls == answers and len(calls) > 1,
            "the beginning of the conversation has changed": conversation[:2] == turn.conversation,
            "the answer does not speak of the picture": "640 × 400" in done["text"],
        }
    )
    return "A conversation went through three processes as JSON, and was finished."


def _step(stage: Stage, code: str, outcome: str) -> None:
    stage.say(f"  {code:<31} {outcome}")


def _outcome(ended: Json) -> str:
    return f"{ended['status']}, {counted(ended['messages'], 'message')}"


def _go_on(stage: Stage, saved: Path, turns: str) -> Json:
    command, env = stage.program("outrider.cli.demo.other_process", str(saved), turns)
    ended = subprocess.run(
        command, env=env, cwd=stage.sample, capture_output=True, text=True, encoding="utf-8", timeout=PATIENCE
    )
    if ended.returncode:
        raise RuntimeError(f"the other process failed; it said: {last_words(ended.stderr)}")
    outcome: Json = json.loads(ended.stdout)
    return outcome
