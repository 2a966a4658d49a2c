"""The server of sessions: the CPU of a prompt through it and in the library, and the memory of many idle streams."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from bench.figure import Figure

TOKEN = "a-token-of-programs-00"
PROMPTS, STREAMS = 60, 1_000
RELEASE_SECONDS = 0.3
"""Until the server has released a session. Asking it would cost what is measured."""
RUN_STOPPED = b'"kind":"run_stopped"'
TICKS = os.sysconf("SC_CLK_TCK")
LIBRARY = """
import asyncio, os, sys
from outrider.events import TextDelta
from outrider.log.log import Log
from outrider.web.live_session import ServerFront
from outrider.web.opener import CodingOpener

async def main():
    with Log(os.environ["OUTRIDER_LOG"]) as log:
        opener = CodingOpener(log)
        print("ready", flush=True)
        while line := sys.stdin.readline().strip():
            opened = await opener.stored(log.session(line), ServerFront())
            is_first = True
            async for event in opened.session.stream("What is 2+2?"):
                if is_first and isinstance(event, TextDelta):
                    is_first = False
                    print("delta", flush=True)
            await opened.aclose()
            await asyncio.sleep(0.3)  # the log looks for messages as long as on the server
            print("done", flush=True)

asyncio.run(main())
"""
"""A program that opens a coding session for each prompt, as the server does, and prints when it is done."""


def measure() -> Iterator[Figure]:
    """Coding sessions with the demo model, which costs nothing: what is left is the runtime and the server."""
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> list[Figure]:
    (folder / "tokens").write_text(f"{TOKEN}\n")
    (folder / "tokens").chmod(0o600)
    (folder / "project").mkdir()
    environment = os.environ | {"OUTRIDER_LOG": f"{folder}/log", "OUTRIDER_HOME": str(folder), "OUTRIDER_MODEL": "demo"}
    async with _server(folder, environment) as (process, client):
        wanted = {"text": "What is 2+2?", "folder": f"{folder}/project"}
        session = (await _post(client, "sessions", wanted))["id"]
        await asyncio.sleep(2)
        async with client.get(f"sessions/{session}/events?after=1") as events:
            await _end_of_run(events.content)  # of the prompt that began the session
            await _prompt(client, session, events.content, process.pid)  # imports what a turn needs
            prompts = [await _prompt(client, session, events.content, process.pid) for _ in range(PROMPTS)]
        served = sum(prompts) / PROMPTS
    library = await _library(environment, session)
    async with _server(folder, environment) as (process, client):
        streams = [await client.get(f"sessions/{session}/events?after=1") for _ in range(STREAMS)]
        for each in streams:
            await each.content.readline()
        memory = _megabytes(process.pid)
        for each in streams:
            each.close()
    ratio = served / library
    return [
        Figure("a prompt until its first delta through the server, CPU", 1e3 * served, "ms"),
        Figure("the same in the library, CPU", 1e3 * library, "ms"),
        Figure("a first delta through the server against the library", ratio, "", 1.2),
        Figure(f"memory of the server with {STREAMS:,} idle streams", memory, "MB", 300),
    ]


@asynccontextmanager
async def _server(
    folder: Path, environment: dict[str, str]
) -> AsyncIterator[tuple[asyncio.subprocess.Process, aiohttp.ClientSession]]:
    program = (sys.executable, "-P", "-m", "outrider", "serve", "--port", "0", "--max-prompts", "100000")
    process = await asyncio.create_subprocess_exec(
        *(*program, "--token-file", f"{folder}/tokens"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout
    origin = (await process.stdout.readline()).decode().partition("/?")[0]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with aiohttp.ClientSession(f"{origin}/api/v1/", headers=headers, connector=connector) as client:
            yield process, client
    finally:
        process.terminate()
        await process.wait()


async def _post(client: aiohttp.ClientSession, path: str, body: Any) -> Any:
    async with client.post(path, json=body) as response:
        response.raise_for_status()
        return await response.json()


async def _prompt(client: aiohttp.ClientSession, session: str, events: aiohttp.StreamReader, pid: int) -> float:
    """Return the CPU of the server from the prompt to the first delta."""
    before, used = _cpu(pid), -1.0
    posting = asyncio.create_task(_post(client, f"sessions/{session}/prompt", {"text": "What is 2+2?"}))
    async for line in events:
        # A reply that is whole before the next look at it has no deltas.
        if line.startswith(b"event: text_delta") or b'"role":"assistant"' in line:
            used = _cpu(pid) - before if used < 0 else used
        if RUN_STOPPED in line:
            break
    await posting
    await asyncio.sleep(RELEASE_SECONDS)
    return used


async def _end_of_run(events: aiohttp.StreamReader) -> None:
    async for line in events:
        if RUN_STOPPED in line:
            return


async def _library(environment: dict[str, str], session: str) -> float:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", LIBRARY), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    await process.stdout.readline()

    async def prompt() -> float:
        assert process.stdin
        assert process.stdout
        before = _cpu(process.pid)
        process.stdin.write(f"{session}\n".encode())
        await process.stdout.readline()
        used = _cpu(process.pid) - before
        await process.stdout.readline()
        return used

    await prompt()
    used = [await prompt() for _ in range(PROMPTS)]
    process.stdin.close()
    await process.wait()
    return sum(used) / PROMPTS


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _megabytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024
