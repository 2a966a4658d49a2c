"""Story 11: a refund is approved on a phone an hour later, while no process runs.

A program of ours works on a case until a refund has to be approved, and ends. An hour later someone opens the page of
`outrider serve` on a phone and taps Allow. The page does not have the program's tools, so it only keeps the answer. The
program is started again: the refund happens, once, and the log says who allowed it, where and when.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from outrider.log.entries import Decided
from outrider.sync import default_log
from tests.cli.program import outrider
from tests.stories.test_pictures_approved_on_a_phone import PHONE, fits
from tests.web.conftest import browser  # noqa: F401 - the fixture
from tests.web.pages import PATIENCE, visitor, web_server

pytestmark = pytest.mark.timeout(300)
expect.set_options(timeout=PATIENCE)
DESK = """
import asyncio, sys, time
from outrider import Agent, Allow, Defer, Session, default_log, tool
from outrider.testing import ScriptedModel, call

ago = float(sys.argv[1])
real = time.time
time.time = lambda: real() - ago  # so much earlier

@tool(effect="write")
def refund(order: str, amount: int) -> str:
    "Refund an order."
    open("paid", "a").write(f"{order} {amount}\\n")
    return "refunded"

def approve(use, wanted):
    raise Defer(f"Refund {use.input['amount']} for {use.input['order']}?", seconds=24 * 3600)

async def main():
    with default_log() as log:
        steps = ["It is refunded."] if log.has("case-17") else [call("refund", order="A-17", amount=80)]
        agent = Agent(ScriptedModel(steps), tools=[refund])
        async with Session.open(log, "case-17", agent, create=True, approve=approve) as session:
            result = await session.run("" if session.is_unfinished else "A-17 came broken.")
            print(result.status, result.text)

asyncio.run(main())
"""


def desk(folder: Path, *, hours_ago: float = 0) -> str:
    """The program, run to its end."""
    arguments = [sys.executable, "-c", DESK, str(hours_ago * 3600)]
    ended = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.long
async def test_a_refund_is_approved_on_a_phone_an_hour_later_while_no_process_runs(
    browser: Browser,  # noqa: F811 - the fixture
    tmp_path: Path,
) -> None:
    assert await asyncio.to_thread(desk, tmp_path, hours_ago=1) == "waiting \n"
    async with web_server() as server, visitor(browser, server, **PHONE) as phone:
        page = phone.page
        await page.get_by_role("link", name="Inbox 1").tap()
        question = page.get_by_role("article").filter(has_text="Refund 80 for A-17?")
        await question.wait_for()
        await fits(page)
        await question.get_by_role("button", name="Allow", exact=True).tap()
        await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    assert not (tmp_path / "paid").exists(), "the page does not have the tools of the program"
    late = await asyncio.to_thread(outrider, "sessions", "answer", "0" * 32, "no")
    assert late.returncode == 1
    assert await asyncio.to_thread(desk, tmp_path) == "done It is refunded.\n"
    assert (tmp_path / "paid").read_text() == "A-17 80\n"
    with default_log() as log:
        (decided,) = [each.entry for each in log.records("case-17") if isinstance(each.entry, Decided)]
    assert (decided.allowed, decided.by) == (True, "on the web page")
    assert 0 < time.time() - decided.at < 300
    audit = await asyncio.to_thread(outrider, "sessions", "audit", "case-17", "--json")
    (listed,) = json.loads(audit.stdout)
    assert (listed["allowed"], listed["by"]) == (True, "on the web page")
    assert (await asyncio.to_thread(outrider, "sessions", "audit", "case-17", "--verify")).returncode == 0
