"""The server of the page in a process that can cut its streams: `wait` waits until a session is watched, `cut` cuts."""

from __future__ import annotations

import asyncio
import sys

from aiohttp.web import AppRunner, TCPSite

from outrider.sync import default_log
from outrider.web.access import Access
from outrider.web.aiohttp_front import AiohttpFront
from outrider.web.opener import CodingOpener
from outrider.web.owners import ServerLimits
from outrider.web.server import Server


async def main() -> None:
    access = Access()
    with default_log() as log:
        server = Server(log, CodingOpener(log), ServerLimits(), is_shared=False)
        runner = AppRunner(AiohttpFront(server, access).app(), shutdown_timeout=1.0)
        await runner.setup()
        await TCPSite(runner, "127.0.0.1", 0).start()
        access.origins = [f"http://127.0.0.1:{runner.addresses[0][1]}"]
        print(access.new_link(access.origins[0]), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            while line == "wait\n" and all(feed.is_empty for feed in server.hub._feeds.values()):
                await asyncio.sleep(0.01)
            if line == "cut\n":
                server.hub.disconnect()
            print(f"done {line}", end="", flush=True)
        await runner.cleanup()


asyncio.run(main())
