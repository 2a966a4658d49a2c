"""Story 7: an MCP server draws pictures, and each call is approved on a phone.

`outrider -p --ask-later --wait` works on the desk, with a real MCP server in a process of its own. The phone is a real
Chromium with 360 pixels and touch, on the page of `outrider serve`. It is let in by a link, shows the question with the
arguments of the call, and a tap on Allow lets the call run. Then the picture is on the phone, and in the request to the
model. A second picture is denied with a reason, and the server never hears of it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.cli.asking import everywhere, running
from tests.cli.program import outrider
from tests.modelserver import ModelServer
from tests.streams import Answer
from tests.web.conftest import browser  # noqa: F401 - the fixture
from tests.web.pages import NARROW, PATIENCE, visitor, web_server

pytestmark = pytest.mark.timeout(300)
expect.set_options(timeout=PATIENCE)
SERVER = Path(__file__).parent / "chart_server.py"
PHONE = {"viewport": NARROW, "has_touch": True, "is_mobile": True, "device_scale_factor": 3}


def draw(number: int, *figures: int) -> Answer:
    return Answer("I draw it.", ((f"toolu_{number:020}", "mcp__charts__draw", {"figures": list(figures)}),))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    servers = {"charts": {"command": sys.executable, "args": [str(SERVER)]}}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert outrider("trust", "--yes", cwd=folder).returncode == 0
    return folder


@pytest.mark.long
async def test_a_picture_of_a_server_is_allowed_and_another_denied_on_a_phone(
    browser: Browser,  # noqa: F811 - the fixture
    project: Path,
) -> None:
    steps = [draw(1, 3, 1, 4), draw(2, 9, 9), Answer("One chart, as you wished.")]
    async with ModelServer(steps) as model, web_server() as server:
        arguments = ("-p", "Draw the sales.", "--ask-later", "--wait")
        with running(*arguments, cwd=project, **everywhere(model)) as desk:
            async with visitor(browser, server, **PHONE) as phone:
                page = phone.page
                await page.get_by_role("link", name="Inbox 1").tap()
                question = page.get_by_role("article", name="Permission: charts: draw(figures=[3, 1, 4])")
                await question.wait_for()
                await fits(page)
                assert len(model.requests) == 1, "nothing runs before the answer"
                await question.get_by_role("button", name="Allow", exact=True).tap()
                question = page.get_by_role("article", name="Permission: charts: draw(figures=[9, 9])")
                await question.get_by_label("Reason for the model").fill("One is enough")
                await question.get_by_role("button", name="Deny", exact=True).tap()
                await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
                await is_shown_on_the_phone(phone)
            code, said, shown = await ended(desk)
    assert (code, said) == (0, "One chart, as you wished.\n"), shown
    assert "waiting for an answer: charts: draw(figures=[3, 1, 4])" in shown
    results = [block for request in model.requests for block in results_in(request.json)]
    assert is_chart_of(results[0], figures=3)
    assert "One is enough" in json.dumps(results[-1]["content"])
    assert results[-1]["is_error"]


async def is_shown_on_the_phone(phone: Any) -> None:
    """The picture is loaded, has its true size, and is not wider than the screen."""
    page = phone.page
    await page.get_by_role("link", name="Sessions").first.tap()
    await page.get_by_label("All kinds").check()  # it is no chat
    await page.locator(".row a").first.tap()
    picture = page.locator(".file img").first
    await picture.wait_for()
    await expect(picture).to_have_js_property("complete", True)
    assert await picture.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [120, 120]
    await expect(page.locator("article.message").last).to_contain_text("One chart, as you wished.")
    await expect(page.locator(".call.failed")).to_contain_text("One is enough")
    await fits(page)


async def fits(page: Any) -> None:
    widths = await page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert widths[0] <= widths[1]


async def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    said, shown = await asyncio.to_thread(process.communicate, None, 60)
    return process.returncode, said, shown


def results_in(body: Any) -> list[Any]:
    last = body["messages"][-1]["content"]
    return [block for block in last if block["type"] == "tool_result"]


def is_chart_of(result: Any, figures: int) -> bool:
    [picture] = [block for block in result["content"] if block["type"] == "image"]
    data = base64.b64decode(picture["source"]["data"])
    return data[:8] == b"\x89PNG\r\n\x1a\n" and int.from_bytes(data[16:20]) == 40 * figures
