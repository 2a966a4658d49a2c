"""One Chromium for all tests of the page, on the event loop of the test session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from _pytest.runner import runtestprotocol
from playwright.async_api import Browser, async_playwright

from tests.web.pages import FLAGS, chromium


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = chromium()
    if not path:
        pytest.skip("Chromium is not installed: run scripts/chromium to test the web page")
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield launched
        await launched.close()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Try a test in the browser once more if it fails: on busy cores, a page may take longer than any time limit."""
    if item.path.parent != Path(__file__).parent or "browser" not in getattr(item, "fixturenames", ()):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed for report in reports):
        item._initrequest()  # type: ignore[attr-defined]
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
