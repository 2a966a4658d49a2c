"""Demo 7: a batch of typed tasks on two workers, one of which is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from outrider.cli.demo.story import Story, last_line
from outrider.processes.programs import Programs
from outrider.processes.starting import run
from outrider.text import counted

TASKS = 12
WORKERS = 2
ROW = {"file": {"type": "string"}, "kind": {"type": "string"}, "lines": {"type": "integer"}}
SCHEMA = {"type": "array", "items": {"type": "object", "properties": ROW, "required": [*ROW]}}
EXPECTED = {"notes.txt": 7, "routes.csv": 4}
"""The lines of the files that the tasks read."""
TIMEOUT = 60.0


def batch_on_workers(story: Story) -> str:
    """Run tasks with a schema on two workers; kill one of them with SIGKILL in the middle."""
    story.heading("typed tasks on two workers, one of which is killed")
    files = [*EXPECTED] * (TASKS // len(EXPECTED))
    tasks = [{"id": f"task-{number}", "prompt": f"Read {file}"} for number, file in enumerate(files, 1)]
    (story.folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks), encoding="utf-8")
    (story.folder / "row.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    arguments = ["batch", "tasks.jsonl", "--output", "results.jsonl", "--schema", "row.json"]
    story.print_lines(f"  $ outrider {' '.join(arguments)} --workers {WORKERS}", "")
    command, env = story.command("outrider", *arguments, "--workers", str(WORKERS), "--model", "demo")
    command += ["--cwd", str(story.sample)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=env, cwd=story.folder, stderr=pipe, text=True, encoding="utf-8") as process:
        killed = _kill_a_worker(process, story.folder / "results.jsonl")
        _, said = process.communicate(timeout=TIMEOUT)
    results = _results(story.folder / "results.jsonl")
    for result in results[:3]:
        story.print_json("  ", {name: result[name] for name in ("id", "status", "structured_output", "attempts")})
    story.print_lines(f"  … {last_line(said)}")
    story.check(
        {
            f"the batch ended with code {process.returncode}": process.returncode == 0,
            "there is not one result for each task": sorted(result["id"] for result in results)
            == sorted(str(task["id"]) for task in tasks),
            "a result is not of its type": all(_is_right(result["structured_output"]) for result in results),
        }
    )
    how = "one worker was killed" if killed else "no worker could be killed"
    return f"Batch: {counted(TASKS, 'typed result')}, each once; {how}."


def _kill_a_worker(process: subprocess.Popen[str], results: Path) -> bool:
    """Kill a worker once there is a first result. Return whether one was found."""
    deadline = time.monotonic() + TIMEOUT
    while not _results(results) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in _children(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def _is_right(rows: Any) -> bool:
    return [EXPECTED[row["file"]] for row in rows] == [row["lines"] for row in rows] != []


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        ps = Programs([Path.cwd()]).require("ps")
        listed = run([ps, "-A", "-o", "pid=,ppid="], environment={}, seconds=10)
        pairs = (line.split() for line in listed.output.decode().splitlines())
        return [int(child) for child, parent in pairs if int(parent) == pid]
    return []


def _results(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]
