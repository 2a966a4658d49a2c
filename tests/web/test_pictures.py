"""Pictures of the page for docs/web.md. `OUTRIDER_PICTURES=1 pytest tests/web/test_pictures.py` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from outrider.conversation.usage import Usage
from outrider.sync import default_log
from outrider.testing import call
from tests.web.logs import prints, session
from tests.web.pages import NARROW, PATIENCE, ROOT, holder, visitor, web_server

pytestmark = [pytest.mark.timeout(400), pytest.mark.long]
expect.set_options(timeout=PATIENCE)
FOLDER = ROOT / "docs" / "pictures"
WANTED = bool(os.environ.get("OUTRIDER_PICTURES"))
"""Read before the tests hide the variables of the user."""
TITLES = ("Why is the build slow?", "Add a dark theme", "Explain the retry policy", "Translate the README")
DIFF = """--- save.py
+++ save.py
@@ -8,5 +8,6 @@
 def save(path: Path, data: bytes) -> None:
-    path.write_bytes(data)
-    check(path)
+    # Check first: a full disk must not leave half a file.
+    if free(path) < len(data):
+        raise DiskFullError(f"no room for {len(data):,} bytes")
+    replace(path, data)
"""
ANSWER = """I moved the check **before** the write, so a full disk no longer leaves half a file.

| step | before | after |
| --- | ---: | ---: |
| check | 12 ms | 3 ms |
| write | 40 ms | 38 ms |

The test `test_full_disk` covers it.
"""


async def test_the_page_looks_as_in_the_documentation(browser: Browser, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    with default_log() as log:
        for number, title in enumerate(TITLES):
            await session(log, title, ["Done."], cwd="/work/shop", usage=Usage(5_400, 220, 4_100, cost=0.01 * number))
        edit = prints("Changed save.py.", details={"diff": DIFF, "added": 4, "removed": 2})
        prompt = "A full disk leaves half a file. Please check before you write."
        steps = [["I'll change the order.", call("look")], ANSWER]
        name = await session(log, prompt, steps, tools=[edit], cwd="/work/shop")
    async with web_server() as server, holder("ask", "Run the release script", folder=shop) as program:
        await program.line("^asks Bash")
        async with visitor(browser, server, viewport={"width": 1000, "height": 640}) as guest:
            page = guest.page
            await expect(page.locator(".row")).to_have_count(6)
            await expect(page.locator(".badge.ask")).to_have_count(1)
            await take(page, "web-sessions")
            await guest.open_session(name)
            await expect(page.locator("article.message").last).to_contain_text("test_full_disk")
            await take(page, "web-session")
            await page.emulate_media(color_scheme="dark")
            await take(page, "web-session-dark")
            await page.set_viewport_size(NARROW)
            await page.goto(f"{page.url.partition('#')[0]}#/inbox")
            await page.get_by_role("button", name="Allow", exact=True).wait_for()
            await take(page, "web-inbox-phone-dark")
            await page.emulate_media(color_scheme="light")
            await take(page, "web-inbox-phone")
            await page.set_viewport_size({"width": 1000, "height": 640})
            await page.goto(f"{page.url.partition('#')[0]}#/plots")
            await page.locator(".plot canvas").first.wait_for()
            await take(page, "web-plots")


async def take(page: Page, name: str) -> None:
    """Take a picture, and keep it if that is asked for."""
    picture = await page.screenshot(animations="disabled")
    assert picture
    if WANTED:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.png").write_bytes(picture)
