"""`outrider serve --lan`: the page in the local network needs a link as well, and answers to its own address only."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, DummyCookieJar
from playwright.async_api import Browser, expect

from outrider.sync import default_log
from tests.web.logs import session
from tests.web.pages import PATIENCE, Server, started, visitor

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="this system has only one loopback address"),
]
expect.set_options(timeout=PATIENCE)
ADDRESS = "127.0.0.2"


@asynccontextmanager
async def lan_servers() -> AsyncIterator[tuple[Server, Server]]:
    """Start the program. Yield it as this machine sees it, and as the local network does."""
    async with started("tests.web.lan_server", ADDRESS) as program:
        links = [(await program.line("^http://")).string for _ in range(2)]
        yield Server(program, links[0]), Server(program, links[1])


@pytest.mark.long
async def test_a_browser_in_the_local_network_is_let_in_by_its_link(browser: Browser) -> None:
    with default_log() as log:
        await session(log, "What is 2+2?", ["4"])
    async with lan_servers() as (own, lan):
        assert lan.origin == own.origin.replace("127.0.0.1", ADDRESS)
        async with visitor(browser, lan) as guest:
            await guest.page.get_by_role("link", name="What is 2+2?").click()
            await expect(guest.page.get_by_role("article", name="Model")).to_contain_text("4")
            inside = guest.page.url.partition("#")[0]
            stranger = await browser.new_context()
            page = await stranger.new_page()
            for address, status in ((inside, 401), (lan.origin, 401), (lan.link, 403)):  # the link was used
                response = await page.goto(address, timeout=PATIENCE)
                assert response
                assert response.status == status, address
            await stranger.close()


async def test_the_address_in_the_local_network_is_checked() -> None:
    async with lan_servers() as (own, lan), ClientSession(cookie_jar=DummyCookieJar()) as http:
        port = own.origin.rpartition(":")[2]
        path = lan.link.removeprefix(lan.origin)

        async def status(host: str) -> int:
            async with http.get(f"{own.origin}{path}", headers={"Host": host}, allow_redirects=False) as response:
                return response.status

        for host in (f"evil.example:{port}", f"{ADDRESS}:1", ADDRESS, f"127.0.0.3:{port}"):
            assert await status(host) == 403, host
        assert await status(f"{ADDRESS}:{port}") == 303  # what was refused has not used the link
