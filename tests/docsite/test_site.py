"""The whole documentation site, built from a copy of the tree, and its search in a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.async_api import async_playwright

from tests.web.pages import FLAGS, PATIENCE, chromium

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
OPEN_SHADOW_TREES = """
const attach = Element.prototype.attachShadow;
Element.prototype.attachShadow = function (options) { return attach.call(this, { ...options, mode: "open" }); };
"""
"""The search is in a closed shadow tree, which no locator sees."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the site is made of, without what an earlier build left."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("docs", "docsite", "examples", "bench/results", "src"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "bench/README.md",
        "bench/RESULTS.md",
    ):
        shutil.copyfile(ROOT / name, tree / name)
    (tree / "tests").symlink_to(ROOT / "tests")  # pages name files in it
    return tree


def build(tree: Path) -> subprocess.CompletedProcess[str]:
    """Build the site, as `make docs` does."""
    return subprocess.run([sys.executable, "-m", "docsite"], cwd=tree, capture_output=True, text=True, timeout=800)


@pytest.fixture(scope="module")
def site(tree: Path) -> Path:
    ended = build(tree)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "every link leads somewhere" in ended.stdout
    return tree / "build" / "site"


class Quiet(SimpleHTTPRequestHandler):
    """A server that writes nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_site_has_its_pages_and_asks_no_other_server(site: Path) -> None:
    api = (site / "reference" / "api-agents-and-sessions.html").read_text()
    assert 'id="outrider.Agent.run"' in api
    assert "temperature" in api
    assert "A request to the model is about to be sent." in (site / "reference" / "events.html").read_text()
    assert "usage: outrider batch" in (site / "reference" / "command-line.html").read_text()
    assert any("limits.max_turns" in str(item) for item in json.loads((site / "search.json").read_text())["items"])
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert '<script src="http' not in text, page
        assert "fonts.googleapis" not in text, page


async def test_its_search_finds_a_name(address: str) -> None:
    if not (path := chromium()):
        pytest.skip("Chromium is not installed: run scripts/chromium to test the search of the site")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        page = await browser.new_page()
        page.set_default_timeout(PATIENCE)
        await page.add_init_script(OPEN_SHADOW_TREES)
        await page.goto(f"{address}/index.html")
        await page.locator("button.md-search__button").click()
        await page.get_by_role("combobox", name="Search").fill("max_subagents")
        await page.get_by_role("option").filter(has_text="max_subagents").first.click()  # once the index is loaded
        await page.locator("article", has_text="max_subagents").wait_for()
        assert not page.url.endswith("/index.html")
        await browser.close()


def test_a_page_that_leads_nowhere_fails_the_build(tree: Path) -> None:
    broken = tree.with_name("broken")
    shutil.copytree(tree, broken, symlinks=True, ignore=shutil.ignore_patterns("build", ".cache"))
    page = broken / "docs" / "testing.md"
    page.write_text(page.read_text() + "\nSee [what is not there](guide.md#not-there).\n")
    ended = build(broken)
    assert ended.returncode == 1
    assert "anchor does not exist" in ended.stderr
