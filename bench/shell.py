"""A command that prints a gigabyte: how long the Bash tool takes, beside its pipe into `tail`, and what it holds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.figure import Figure
from outrider import Agent, Limits, Session
from outrider.coding.toolbox.shell.bash import bash
from outrider.coding.toolbox.shell.shell import Shell
from outrider.coding.toolbox.workspace import Workspace
from outrider.conversation.store import FolderStore
from outrider.testing import ScriptedModel, Step, call

SIZE = 1024**3
FLOODS = {"tr": f"head -c {SIZE} /dev/zero | tr '\\0' x", "yes": f"yes | head -c {SIZE}"}
ROUNDS, CALLS = 5, 40


def measure() -> Iterator[Figure]:
    """Each flood in turn by the tool and by `tail`. A round of ours is a process that runs a session of one call."""
    for name, flood in FLOODS.items():
        rounds = [(_in_a_process(flood), _by_tail(flood)) for _ in range(ROUNDS)]
        ours, tails = median(own[0] for own, _ in rounds), median(tail for _, tail in rounds)
        spent = f"{ours:.2f} s against {tails:.2f}"
        yield Figure(f"1 GB of `{name}` by Bash, against `| tail -c 10000`", ours / tails, "x", 1.5, spent)
        yield Figure("the peak memory of that process, Python and all", max(own[1] for own, _ in rounds), "MB", 50)
    with tempfile.TemporaryDirectory() as folder:
        steps = [call("Bash", command="true") for _ in range(CALLS)]
        yield Figure("`true` by Bash, a call", _session(folder, *steps) / CALLS * 1e3, "ms", None, _plain_bash())


def _in_a_process(flood: str) -> tuple[float, float]:
    said = subprocess.run([sys.executable, "-m", "bench.shell", flood], capture_output=True, check=True)
    seconds, megabytes = said.stdout.split()
    return float(seconds), float(megabytes)


def _by_tail(flood: str) -> float:
    started = time.perf_counter()
    subprocess.run(["bash", "-c", f"{flood} | tail -c 10000"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def _plain_bash() -> str:
    started = time.perf_counter()
    for _ in range(CALLS):
        subprocess.run(["bash", "-c", "true"], check=True)
    return f"bash alone {(time.perf_counter() - started) / CALLS * 1e3:.1f} ms"


def _session(folder: str, *steps: Step) -> float:
    """Seconds from the prompt to the end of a session with these calls; what is too long for it is stored on disk."""
    workspace = Workspace(folder)
    limits = Limits(max_repeats=None)
    agent = Agent(model=ScriptedModel([*steps, "done"]), tools=[bash(Shell(workspace))], limits=limits)
    session = Session(agent, store=FolderStore(Path(folder, "store")))
    started = time.perf_counter()
    result = asyncio.run(session.run("go"))
    spent = time.perf_counter() - started
    workspace.close()
    assert result.status == "done"
    return spent


def _main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        seconds = _session(folder, call("Bash", command=sys.argv[1]))
    status = Path("/proc/self/status").read_text()
    print(seconds, int(status.split("VmHWM:")[1].split()[0]) / 1024)


if __name__ == "__main__":
    _main()
