"""A tool that never returns costs its call, not the session and not the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

from outrider.runtime.calls import CHECK
from outrider.runtime.limits import Limits
from outrider.testing import call
from outrider.tools.tool import tool
from tests.watching import Watched, last_results

HANGING_SCRIPT = """
import threading
from outrider import run, tool
from outrider.testing import ScriptedModel
from outrider.testing import call

@tool(timeout=0.05)
def hang() -> str:
    threading.Event().wait()

result = run("go", tools=[hang], model=ScriptedModel([call("hang"), "moved on"]))
print(result.status, result.text)
"""


async def test_in_a_thread_it_is_given_up_after_its_time() -> None:
    release = threading.Event()

    @tool(timeout=0.05)
    def hang() -> str:
        release.wait()
        return "too late"

    watched = Watched([call("hang"), "ok"], [hang])
    assert (await watched.session.run("go")).status == "done"
    assert last_results(watched.session) == [(f"hang did not finish within 0.05 seconds. {CHECK}", True)]
    release.set()
    watched.check()


async def test_the_agents_limit_holds_for_tools_that_do_not_say() -> None:
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    watched = Watched([call("hang"), "ok"], [hang], Limits(tool_seconds=0.05))
    await watched.session.run("go")
    assert last_results(watched.session) == [(f"hang did not finish within 0.05 seconds. {CHECK}", True)]


async def test_its_siblings_are_not_held_up() -> None:
    @tool(timeout=0.05)
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    async def quick() -> str:
        return "quick"

    watched = Watched([[call("hang"), call("quick")], "ok"], [hang, quick])
    await watched.session.run("go")
    assert last_results(watched.session)[1] == ("quick", False)
    watched.check()


def test_the_process_ends_although_the_thread_still_hangs() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGING_SCRIPT], capture_output=True, text=True, timeout=60)
    assert ended.stdout.strip() == "done moved on", ended.stderr
    assert ended.returncode == 0


STUBBORN_SCRIPT = """
import asyncio
from outrider import run, tool
from outrider.testing import ScriptedModel
from outrider.testing import call

@tool(timeout=0.05)
async def stubborn() -> str:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

result = run("go", tools=[stubborn], model=ScriptedModel([call("stubborn"), "moved on"]))
print(result.status, result.text)
"""


def test_a_script_ends_although_an_async_tool_ignores_every_cancel() -> None:
    ended = subprocess.run([sys.executable, "-c", STUBBORN_SCRIPT], capture_output=True, text=True, timeout=60)
    assert ended.stdout.strip() == "done moved on", ended.stderr
    assert ended.stderr == ""


async def test_a_tools_own_time_counts_even_if_it_is_longer_than_the_agents() -> None:
    @tool(timeout=30)
    async def patient() -> str:
        await asyncio.sleep(0.1)
        return "done"

    watched = Watched([call("patient"), "ok"], [patient], Limits(tool_seconds=0.01))
    await watched.session.run("go")
    assert last_results(watched.session) == [("done", False)]
