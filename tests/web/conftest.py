"""One Chromium for all tests of the page, on one event loop for them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, async_playwright

from tests.web.pages import FLAGS, chromium


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = chromium()
    if not path:
        pytest.skip("Chromium is not installed: run scripts/chromium to test the web page")
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield launched
        await launched.close()
