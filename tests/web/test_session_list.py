"""The list of sessions as JSON, and on the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from outrider.coding.session_lists import SessionList
from outrider.sync import default_log
from outrider.web.api_requests import ListQuery
from outrider.web.session_list import list_sessions
from tests.web.logs import session
from tests.web.pages import PATIENCE, ROOT, visitor, web_server

pytestmark = pytest.mark.timeout(400)
expect.set_options(timeout=PATIENCE)


async def test_chats_of_the_repository_come_first_and_all_kinds_on_request(tmp_path: Path) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    with default_log() as log:
        here = await session(log, "An elephant here", ["Yes."], cwd=tmp_path / "shop")
        script = await session(log, "An elephant in a script", ["Yes."], cwd=tmp_path / "shop", origin="print")
        other = await session(log, "Another", ["An elephant."], cwd=tmp_path, origin="editor")
        listed = SessionList(log, tmp_path / "shop")

        def shown(**query: object) -> list[str]:
            return [each.id for each in list_sessions(listed, ListQuery(**query)).sessions]  # type: ignore[arg-type]

        assert shown(chats=True) == shown(chats=True, search="elephant") == [here, other]
        assert shown() == [script, here, other]
        assert {*shown(search="elephant")} == {script, here, other}
        assert shown(offset=2) == [other]
        assert list_sessions(listed, ListQuery()).folders == (str(tmp_path / "shop"),)


async def test_a_switch_shows_all_kinds(browser: Browser) -> None:
    with default_log() as log:
        await session(log, "From a script", ["Yes."], cwd=ROOT, origin="print")
        async with web_server() as server, visitor(browser, server) as guest:
            page = guest.page
            await expect(page.get_by_text("There are no chats here yet.")).to_be_visible()
            await page.get_by_role("button", name="Look in all kinds of sessions").click()
            await expect(page.locator(".row-title")).to_have_text(["From a script"])
            await expect(page.locator(".row-facts")).to_contain_text("-p")
            await session(log, "A chat far away", ["Yes."], cwd="/")
            await expect(page.locator(".row-title")).to_have_text(["From a script", "A chat far away"])
            await page.get_by_label("All kinds").uncheck()
            await expect(page.locator(".row-title")).to_have_text(["A chat far away"])
