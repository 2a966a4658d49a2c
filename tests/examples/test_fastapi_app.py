"""The FastAPI app of the examples: many users, a kill in the middle, and a restart."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.lengths import only_long
from tests.serve.clients import Client
from tests.serve.test_streams import free_port, until_up

EXAMPLES = Path(__file__).parents[2] / "examples"


@asynccontextmanager
async def app(folder: Path, port: int, names: list[str]) -> AsyncIterator[subprocess.Popen[bytes]]:
    users = " ".join(f"{each}-secret={each}" for each in names)
    process = subprocess.Popen(  # noqa: ASYNC220 - it is killed and waited for
        [sys.executable, "-m", "uvicorn", "fastapi_app:web", "--port", str(port), "--log-level", "error"],
        cwd=EXAMPLES,
        env=os.environ | {"OUTRIDER_MODEL": "demo", "SHOP_LOG": str(folder), "SHOP_USERS": users},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("count", [15, *only_long(100)])
async def test_each_user_has_an_answer_after_a_kill_and_a_restart(tmp_path: Path, count: int) -> None:
    names = [f"user{number}" for number in range(count)]
    port = free_port()
    async with aiohttp.ClientSession() as http:
        clients = [
            Client(http, f"http://127.0.0.1:{port}/agent", Authorization=f"Bearer {each}-secret") for each in names
        ]
        async with app(tmp_path, port, names) as process:
            await until_up(clients[0])
            begun = await asyncio.gather(*(each.post("sessions", {"text": "What is 2+2?"}) for each in clients))
            assert (await clients[0].ask("POST", "/api/v1/sessions", {"text": "x" * 10**6}))[0] == 413
            process.send_signal(signal.SIGKILL)
            process.wait()
        async with app(tmp_path, port, names):
            await until_up(clients[0])
            for client, session in zip(clients, begun, strict=True):
                events = await client.until_done(session["id"])
                assert [each.data["status"] for each in events if each.data and "status" in each.data] == ["done"]
            lists = await asyncio.gather(*(each.get("sessions") for each in clients))
            for user, page, session in zip(names, lists, begun, strict=True):
                assert [(each["id"], each["owner"]) for each in page["sessions"]] == [(session["id"], user)]
            stranger = Client(http, clients[0].origin, Authorization="Bearer guess")
            assert (await stranger.ask("GET", "/api/v1/sessions"))[0] == 401
