"""The page in Chromium, on stored sessions: finding, reading, forking, plots, hostile content, small screens."""

from __future__ import annotations

import asyncio
import io
import re
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from PIL import Image
from playwright.async_api import Browser, Page, expect

from outrider.conversation.attachments import Attachment
from outrider.conversation.messages import ThinkingBlock
from outrider.conversation.usage import Usage
from outrider.log.entries import BackgroundTask
from outrider.log.log import Log
from outrider.sync import default_log
from outrider.testing import call
from tests.lengths import only_long
from tests.web.logs import prints, session
from tests.web.pages import NARROW, PATIENCE, WIDE, Visitor, visitor, web_server

pytestmark = pytest.mark.timeout(400)
expect.set_options(timeout=PATIENCE)
AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'><svg onload='window.hacked = 1'>"
    "[link](javascript:window.hacked=1) ![p](http://evil.example/p.png) \x1b[31mred\x1b[0m \u202edlrow"
)


async def test_without_the_link_there_is_nothing_to_see(browser: Browser) -> None:
    async with web_server() as server:
        page = await browser.new_page()
        page.set_default_timeout(PATIENCE)
        for address in (server.origin, f"{server.origin}/?token=guessed"):
            await page.goto(address)
            await expect(page.get_by_role("heading", name="Outrider")).to_be_visible()
            await expect(page.get_by_role("searchbox")).to_have_count(0)
        await page.goto(server.link)
        await page.get_by_role("searchbox").wait_for()
        await page.goto(server.origin)  # a browser that was let in finds its way back
        await page.get_by_role("searchbox").wait_for()
        other = await (await browser.new_context()).new_page()
        await other.goto(server.link)
        await expect(other.get_by_role("alert")).to_contain_text("used already")
        await other.context.close()
        await page.context.close()


async def test_a_session_is_found_by_a_word_in_a_tool_result(browser: Browser) -> None:
    with default_log() as log:
        name = await session(log, "Look around", [[call("look")], "Seen."], tools=[prints("a zebrafish in line 3")])
        for number in range(55):
            await session(log, f"Question {number}", ["Answer."])
    async with web_server() as server, visitor(browser, server) as guest:
        page = guest.page
        await expect(page.locator(".row")).to_have_count(50)
        await page.get_by_role("button", name="More sessions").click()
        await expect(page.locator(".row")).to_have_count(56)
        await page.get_by_role("searchbox").fill("zebrafish")
        await expect(page.locator(".row")).to_have_count(1)
        await page.get_by_role("link", name="look result").click()
        await expect(page).to_have_url(re.compile(f"#/session/{name}\\?at="))
        await expect(page.locator(".call .output")).to_contain_text("a zebrafish in line 3")
        await page.go_back()
        await page.get_by_role("searchbox").fill("no such word anywhere")
        await expect(page.get_by_text("Nothing was found.")).to_be_visible()


async def test_a_session_is_forked_and_its_request_is_shown(browser: Browser) -> None:
    with default_log() as log:
        name = await session(log, "What is 2+2?", ["It is **4**."])
    async with web_server() as server, visitor(browser, server) as guest:
        await guest.open_session(name)
        page = guest.page
        reply = page.get_by_role("article", name="Model")
        await reply.hover()
        await reply.get_by_role("button", name="Request").click()
        panel = page.get_by_role("dialog", name="Request")
        await expect(panel.get_by_role("region", name="Body")).to_contain_text("What is 2+2?")
        await expect(panel.get_by_role("region", name="Body")).not_to_contain_text("It is **4**.")
        await page.set_viewport_size(NARROW)
        header = await panel.locator("header").evaluate("each => [each.scrollWidth, each.clientWidth]")
        assert header[0] <= header[1], "a part of the header is beyond the edge of a phone"
        await page.set_viewport_size(WIDE)
        await page.keyboard.press("Escape")
        await expect(panel).to_have_count(0)
        await reply.get_by_role("button", name="Fork from here").click()
        await expect(page.get_by_text("A copy of")).to_be_visible()
        assert name not in page.url
    with default_log() as log:
        assert len(log.sessions()) == 2


async def test_hostile_content_stays_text_everywhere(browser: Browser) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(picture, "PNG")
    files = (
        Attachment(b"<svg xmlns='http://www.w3.org/2000/svg' onload='parent.hacked=1'/>", "image/svg+xml", HOSTILE),
        Attachment(picture.getvalue(), "image/png", "a.png", HOSTILE),
    )
    look = prints(HOSTILE, *files, details={"diff": f"--- a\n+++ b\n@@ -1 +1 @@\n-{HOSTILE}\n+{HOSTILE}\n"})
    with default_log() as log:
        reply = [ThinkingBlock(HOSTILE), HOSTILE, call("look"), call(HOSTILE[:60], file_path=HOSTILE, command=HOSTILE)]
        name = await session(
            log, HOSTILE, [reply, f"# {HOSTILE}\n\n- {HOSTILE}\n\n```{HOSTILE}\n{HOSTILE}\n```"], tools=[look]
        )
        log.rename(name, HOSTILE)
        journal = log.open(name)
        journal.write_now(BackgroundTask("0" * 32, "c1", "General", HOSTILE, status="done", note=f"Kept: {HOSTILE}"))
        journal.close()
    async with web_server() as server, visitor(browser, server) as guest:
        page = guest.page
        await expect(page.locator(".row")).to_contain_text("<script>")
        await page.get_by_role("searchbox").fill("hacked")
        await expect(page.locator(".found").first).to_contain_text("hacked")
        await guest.open_session(name)
        await expect(page.get_by_role("article", name="Model").last).to_contain_text(
            "<script>window.hacked = 1</script>"
        )
        await page.locator("details").evaluate_all("all => all.forEach((each) => (each.open = true))")
        await expect(page.locator(".thinking .said")).to_contain_text("onerror")
        behind = page.get_by_role("list", name="Sub-agents in the background")
        await expect(behind.get_by_role("listitem")).to_contain_text("done Kept: <script>")
        await page.locator(".file img").first.wait_for()
        assert await page.evaluate("window.hacked") is None
        links = await page.locator("main a").evaluate_all("all => all.map((each) => each.getAttribute('href'))")
        assert all(link.startswith(("#", "/", "https://", "http://")) for link in links)
        pictures = await page.locator("img").evaluate_all("all => all.map((each) => each.src)")
        assert pictures
        assert all(each.startswith(server.origin) for each in pictures)
        text = await page.locator("main").inner_text()
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert await page.locator("main script, main svg, main iframe, main object").count() == 0


@pytest.mark.long
async def test_a_pdf_is_shown_as_pictures(browser: Browser) -> None:
    pages = [Image.new("RGB", (200, 280), colour) for colour in ("white", "blue")]
    data = io.BytesIO()
    pages[0].save(data, "PDF", save_all=True, append_images=pages[1:])
    with default_log() as log:
        file = Attachment(data.getvalue(), "application/pdf", "report.pdf")
        name = await session(log, "Look", [[call("look")], "Seen."], tools=[prints("here", file)])
    async with web_server() as server, visitor(browser, server) as guest:
        await guest.open_session(name)
        await guest.page.get_by_role("img", name="Page 1 of report.pdf").wait_for()
        await guest.page.get_by_role("button", name="Next page").click()
        shown = guest.page.get_by_role("img", name="Page 2 of report.pdf")
        await expect(shown).to_have_js_property("complete", True)
        assert await shown.evaluate("image => image.naturalWidth") > 0


async def test_a_plot_agrees_with_the_log_to_the_cent(browser: Browser) -> None:
    with default_log() as log:
        for number in range(3):
            await session(log, f"Question {number}", ["Answer."], usage=Usage(1000, 10, 500, cost=1.234 + number))
        cost = sum(each.usage.cost or 0 for each in log.sessions())
    async with web_server() as server, visitor(browser, server) as guest:
        page = guest.page
        await page.get_by_role("link", name="Plots").click()
        await expect(page.locator(".totals dd").first).to_have_text(f"${cost:,.2f}")
        plot = page.get_by_role("region", name="Cost by day").or_(page.locator('[aria-label="Cost by day"]')).first
        await plot.locator("canvas").wait_for()
        await plot.get_by_text("Table").click()
        await expect(plot.locator("tbody td").last).to_have_text(f"${cost:,.2f}")
        async with page.expect_download() as download:
            await plot.get_by_role("link", name="CSV").click()
        rows = (await asyncio.to_thread((await (await download.value).path()).read_text)).splitlines()
        assert float(dict(zip(rows[0].split(","), rows[1].split(","), strict=True))["cost"]) == pytest.approx(cost)


async def test_everything_works_with_the_keyboard(browser: Browser) -> None:
    with default_log() as log:
        await session(log, "Find me by keyboard", ["Answer."])
        await session(log, "Something else", ["Answer."])
    async with web_server() as server, visitor(browser, server) as guest:
        page = guest.page
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        await page.keyboard.press("/")
        await expect(page.get_by_role("searchbox")).to_be_focused()
        await page.keyboard.type("keyboard")
        await expect(page.locator(".row")).to_have_count(1)
        for _ in range(6):  # over the five filters
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Find me by keyboard")).to_be_visible()
        await page.get_by_role("button", name="Fork from here").last.focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("A copy of")).to_be_visible()


@pytest.mark.parametrize(
    ("scheme", "viewport"), [("light", NARROW), *only_long(("dark", None), ("dark", NARROW), ("light", None))]
)
async def test_it_is_accessible_and_fits_every_screen(
    browser: Browser, scheme: str, viewport: dict[str, int] | None
) -> None:
    with default_log() as log:
        name = await _rich_session(log)
    options: dict[str, Any] = {"color_scheme": scheme, "bypass_csp": True}
    if viewport:
        options |= {"viewport": viewport, "has_touch": True}
    async with web_server() as server, visitor(browser, server, **options) as guest:
        page = guest.page
        await check(page)
        await guest.open_session(name)
        await page.get_by_role("article", name="Model").last.wait_for()
        await page.locator("details.about > summary").click()
        await check(page)
        await _go(guest, "#/plots")
        await page.locator(".plot canvas").first.wait_for()
        await check(page)
        await _go(guest, "#/inbox")
        await page.get_by_text("Nothing waits for you.").wait_for()
        await check(page)


async def _go(guest: Visitor, place: str) -> None:
    await guest.page.goto(guest.page.url.partition("#")[0] + place)


async def check(page: Page) -> None:
    """Run axe-core, and look for content that is wider than the screen."""
    if not await page.evaluate("typeof axe !== 'undefined'"):
        await page.evaluate(AXE.read_text())
    found = await page.evaluate("axe.run()")
    serious = [
        f"{each['id']}: {node['html']} {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
    assert not serious, "\n".join(serious)
    widths = await page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert widths[0] <= widths[1]


ANSWER = f"""It is **done**:

| step | time |
| --- | ---: |
| check | 12 ms |

```python
print("a long line")  # {"x" * 150}
```

See [the page](https://example.com).
"""


async def _rich_session(log: Log) -> str:
    first = [ThinkingBlock("Let me think about this."), "I'll look first.", call("look")]
    diff = "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n-old = 1\n+new = 2\n same = 3\n"
    look = prints("line\n" * 30, details={"diff": diff, "added": 1, "removed": 1})
    prompt = "Please look at this_is_a_very_long_name_without_any_breaks_at_all.py"
    return await session(log, prompt, [first, ANSWER], tools=[look], cwd="/work/shop")
