"""A session that works in another process, watched, answered, steered and stopped on the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.web.pages import PATIENCE, holder, visitor, web_server

pytestmark = pytest.mark.asyncio(loop_scope="session")
expect.set_options(timeout=PATIENCE)


async def test_a_call_that_waits_elsewhere_is_allowed_here(browser: Browser, tmp_path: Path) -> None:
    async with web_server() as server, holder("ask", "Make it", folder=tmp_path) as program:
        session = (await program.line("^session (.+)"))[1]
        await program.line("^asks Bash")
        async with visitor(browser, server) as guest:
            page = guest.page
            await page.get_by_role("link", name="Inbox 1").click()
            await expect(page.get_by_role("article")).to_contain_text("touch made-by-the-model")
            await page.get_by_role("button", name="Allow", exact=True).click()
            await program.line("^answered Allowed on the web page")
            await program.line("^finished done It was")
            assert (tmp_path / "made-by-the-model").exists()
            await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
            await guest.open_session(session)
            await expect(page.locator(".message strong")).to_have_text("done")
