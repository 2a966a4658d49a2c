"""What `outrider acp` sends for three runs, on the wire: its updates beside whole calls.

There are two baselines. One is a whole call for every change, as the metrics of the run count it: what an agent would
send that collects no changes. The other is the same run with `--full-updates`, in which changes still go out together.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.acp import ENVIRONMENT, OURS, Agent
from bench.figure import Figure
from bench.script_server import Calls, playing

LINES = "".join(f"    value_{number} = compute(value_{number - 1}, {number})\n" for number in range(1, 201))
PRINTING = "for n in $(seq 2000); do printf '%080d\\n' $n; [ $((n % 50)) = 0 ] && sleep 0.05; done; true"
LARGE = "a line of text\n" * 70_000
NAMES = ("one", "two", "three", "four")


@dataclass(frozen=True)
class Run:
    """What the model does, and what part of a whole call for every change may be sent."""

    name: str
    script: tuple[Calls, ...]
    at_most: float


def _edit(first: int, count: int) -> Calls:
    """Replace so many lines of the file."""
    old = "".join(LINES.splitlines(keepends=True)[first : first + count])
    return [("Edit", {"file_path": "one.py", "old_string": old, "new_string": old.replace("compute", "calculate")})]


READ = ("Read", {"file_path": "one.py"})
RUNS = (
    Run(
        "plain (4 Read, 1 Edit)",
        (tuple(("Read", {"file_path": f"{name}.py", "limit": 40}) for name in NAMES), _edit(3, 1)),
        80,
    ),
    Run("edits (1 Read, 5 Edit of 30 lines)", ((READ,), *(_edit(start, 30) for start in range(0, 150, 30))), 45),
    Run("output (a command that prints 160 kB)", ((("Bash", {"command": PRINTING}),),), 5),
)


def measure() -> Iterator[Figure]:
    """Bytes are those of whole lines of JSON-RPC about calls; they differ a little with the machine's pace."""
    for run in RUNS:
        ours, metrics = _sent(run.script)
        full, _ = _sent(run.script, "--full-updates")
        wanted, changes = metrics["bytes"]["wanted"], metrics["updates"]["wanted"]
        detail = f"{sum(ours):,} bytes in {len(ours)} updates; {wanted:,} for {changes} changes"
        yield Figure(f"{run.name}, of whole calls", 100 * sum(ours) / wanted, "%", run.at_most, detail)
        detail = f"{sum(full):,} bytes in {len(full)} updates"
        yield Figure(f"{run.name}, of --full-updates", 100 * sum(ours) / sum(full), "%", None, detail)
    yield _large()


def _large() -> Figure:
    """A file of 1 MB that is written after a question: everything that is sent, the question included."""
    sent, _ = _sent(([("Write", {"file_path": "big.txt", "content": LARGE})],), mode="ask")
    text = len(json.dumps(LARGE))
    return Figure("a Write of 1 MB, asked about, sent / text", sum(sent) / text, "x", 1.01, f"{sum(sent):,} bytes")


def _sent(script: tuple[Calls, ...], *flags: str, mode: str = "all") -> tuple[list[int], dict[str, Any]]:
    """The sizes of the lines about calls, and the metrics of the session."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home, playing(script) as model:
        for name in NAMES:
            Path(folder, f"{name}.py").write_text(LINES)
        metrics = Path(home, "metrics.jsonl")
        argv = (*OURS, "--model", model, "--permissions", mode, "--metrics", str(metrics), *flags)
        own = {"OUTRIDER_HOME": home, "XDG_CONFIG_HOME": home, "OPENAI_COMPATIBLE_API_KEY": "none"}
        with Agent(argv, ENVIRONMENT | own) as agent:
            agent.initialize()
            opened, _ = agent.ask("session/new", {"cwd": folder, "mcpServers": []})
            prompt = [{"type": "text", "text": "Go"}]
            ended, told = agent.ask("session/prompt", {"sessionId": opened["sessionId"], "prompt": prompt})
            agent.ask("session/close", {"sessionId": opened["sessionId"]})
            agent.close()
        assert ended["stopReason"] == "end_turn"
        about = [line for line in told if b'"toolCallId"' in line]
        assert sum(b'"status":"completed"' in line for line in about) == sum(map(len, script)), "every call succeeded"
        return [len(line) for line in about], json.loads(metrics.read_text().splitlines()[-1])


if __name__ == "__main__":
    for figure in measure():
        print(figure)
