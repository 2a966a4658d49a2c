"""Interrupting a cell that runs an agent stops the agent, and hands back the conversation."""

from __future__ import annotations

import contextvars
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from outrider import run
from outrider.testing import ScriptedModel, call

NOTEBOOK = """
import asyncio, sys, time, types
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=object)
from outrider import run
from outrider.testing import ScriptedModel, call

ran = []

def work() -> str:
    ran.append(1)
    print("working", flush=True)
    time.sleep(0.05)
    return "ok"

async def cell():
    try:
        run("go", tools=[work], model=ScriptedModel(lambda request: call("work")), max_turns=1000)
    except KeyboardInterrupt as interrupt:
        before = len(ran)
        time.sleep(0.5)
        print(len(ran) - before, interrupt.conversation[-1].role)

asyncio.new_event_loop().run_until_complete(cell())
"""


def test_no_tool_runs_after_the_interrupt() -> None:
    process = subprocess.Popen([sys.executable, "-c", NOTEBOOK], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "working\n"
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate(timeout=30)[0].splitlines()[-1] == "0 user"


async def test_context_variables_reach_the_tools_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))  # type: ignore[arg-type]
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    def read() -> str:
        return variable.get()

    result = run("go", tools=[read], model=ScriptedModel([call("read"), "ok"]))
    assert result.conversation[2].tool_results[0].text == "set"
