"""The server, a process that holds a session, and pages in Chromium, for the tests of the web page."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page

from tests.acceptance_index import CHROMIUM
from tests.cli.program import clean_environment, start
from tests.cli.warm import is_possible

ROOT = Path(__file__).parent.parent.parent
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--in-process-gpu",  # each process that a page does not need is one that does not wait for a busy core
    "--enable-features=NetworkServiceInProcess2",
)
PATIENCE = 120_000
"""Milliseconds. A busy machine is slow; nothing waits this long otherwise."""
ENDING_SECONDS = 60
WIDE, NARROW = {"width": 1200, "height": 850}, {"width": 360, "height": 740}


def chromium() -> str:
    """Return the path of Chromium, or "" if there is none."""
    return next(filter(None, map(shutil.which, CHROMIUM)), "")


class Program:
    """A program in another process, whose lines are read."""

    def __init__(self, process: subprocess.Popen[bytes], output: asyncio.StreamReader) -> None:
        self._process = process
        self._output = output
        self.lines: list[str] = []

    async def line(self, pattern: str) -> re.Match[str]:
        """Return the next line that matches."""
        while line := await asyncio.wait_for(self._output.readline(), PATIENCE / 1000):
            self.lines.append(line.decode().rstrip("\n"))
            if found := re.search(pattern, self.lines[-1]):
                return found
        raise AssertionError(f"the program ended without {pattern!r}: {self.lines}")

    def kill(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()


@asynccontextmanager
async def started(module: str, *arguments: str, cwd: Path = ROOT) -> AsyncIterator[Program]:
    """Start a program of this environment, and end it."""
    environment = clean_environment() | ({} if is_possible() else {"PYTHONPATH": str(ROOT)})
    process = start(*arguments, module=module, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=cwd)
    output = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(output), process.stdout
    )
    try:
        yield Program(process, output)
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # prints where each thread is
            await asyncio.to_thread(process.wait)
            raise
        finally:
            pipe.close()
            assert process.stdin
            process.stdin.close()


@asynccontextmanager
async def web_server(*options: str) -> AsyncIterator[Server]:
    """Start `outrider serve` on the log of this test."""
    async with started("outrider", "serve", "--port", "0", *options) as program:
        link = (await program.line("^http://")).string
        yield Server(program, link)


@asynccontextmanager
async def holder(script: str, prompt: str = "", *, mode: str = "ask", folder: Path) -> AsyncIterator[Program]:
    """Start a process that holds a session. Its first match is the session."""
    async with started("tests.web.holder", script, mode, prompt, cwd=folder) as program:
        yield program


class Server:
    """The running program and its link."""

    def __init__(self, program: Program, link: str) -> None:
        self.program = program
        self.link = link
        self.origin = link.partition("/?")[0]


class Visitor:
    """A browser that was let in, and everything that went wrong in it."""

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self.context = context
        self.page = page
        self.problems: list[str] = []
        self.foreign: list[str] = []
        """Requests to other places."""
        page.set_default_timeout(PATIENCE)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(str(error)))

    def _said(self, message: ConsoleMessage) -> None:
        # The page asks who answered a question, which may be gone with its session; browsers complain of each 404.
        is_gone = "404" in message.text and "/questions/" in message.location["url"]
        if message.type == "error" and not is_gone:
            self.problems.append(message.text)

    async def open_session(self, id: str) -> None:
        """Go to a session."""
        await self.page.goto(f"{self.page.url.partition('#')[0]}#/session/{id}")

    async def text(self) -> str:
        """Return what can be read on the page, for the message of a test that failed."""
        try:
            return await asyncio.wait_for(self.page.locator("body").inner_text(), 10)
        except Exception as error:
            return f"It does not answer: {error}"


@asynccontextmanager
async def visitor(browser: Browser, server: Server, **options: Any) -> AsyncIterator[Visitor]:
    """Open the link in a new browser profile."""
    context = await browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce", **options})
    page = await context.new_page()
    found = Visitor(context, page)
    page.on("request", lambda request: found.foreign.append(request.url) if not _is_own(request.url, server) else None)
    try:
        await page.goto(server.link)
        await page.get_by_role("searchbox").wait_for()
        yield found
    except Exception as error:
        error.add_note(f"The page at {page.url}:\n{await found.text()}\nIts problems: {found.problems}")
        raise
    finally:
        await context.close()
    assert not found.problems, found.problems
    assert not found.foreign, found.foreign


def _is_own(url: str, server: Server) -> bool:
    return url.startswith((f"{server.origin}/", "blob:", "data:"))
