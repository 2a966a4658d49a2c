"""Listening on this machine, and in the local network if asked: the links, and the end by Ctrl-C."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

from aiohttp import web

from outrider.processes.signals import on_signals
from outrider.sync import default_log
from outrider.web.access import Access
from outrider.web.aiohttp_front import AiohttpFront
from outrider.web.opener import CodingOpener
from outrider.web.owners import ServerLimits
from outrider.web.server import Server


async def serve(port: int, *, lan: bool, tokens: Sequence[tuple[str, str]], limits: ServerLimits) -> None:
    access = Access(tokens)
    stopped = asyncio.Event()
    with default_log() as log, on_signals(lambda _: stopped.set()):
        server = Server(log, CodingOpener(log), limits, is_shared=False)
        runner = web.AppRunner(AiohttpFront(server, access).app(), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            hosts = ["127.0.0.1", *filter(None, [lan_address() if lan else ""])]
            for host in hosts:
                await web.TCPSite(runner, host, port).start()
                port = runner.addresses[-1][1]  # another one if any free port was asked for
            access.origins = [f"http://{host}:{port}" for host in (*hosts, "localhost")]
            if lan and len(hosts) == 1:
                print("This machine has no address in a local network; only it can open the page.", file=sys.stderr)
            _announce(access, hosts, port)
            await _until(stopped, access, hosts, port)
        finally:
            await runner.cleanup()


def lan_address() -> str:
    """Return the address of this machine in the local network; empty if it has none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return ""


def _announce(access: Access, hosts: list[str], port: int) -> None:
    """Print a new link for each address, the last with a QR code if it is for a phone."""
    for host in hosts:
        link = access.new_link(f"http://{host}:{port}")
        print(link, flush=True)
        if host != "127.0.0.1":
            import segno  # rarely needed

            segno.make(link, error="l", micro=False).terminal(out=sys.stderr, compact=True)
    print("Each link lets one browser in, once. Press Enter for another, Ctrl-C to stop.", file=sys.stderr, flush=True)


async def _until(stopped: asyncio.Event, access: Access, hosts: list[str], port: int) -> None:
    """Wait for Ctrl-C. Print another link at each Enter."""
    loop = asyncio.get_running_loop()

    def on_line() -> None:
        if not sys.stdin.readline():
            loop.remove_reader(sys.stdin)
            return
        _announce(access, hosts, port)

    if sys.stdin is not None and sys.stdin.isatty():
        loop.add_reader(sys.stdin, on_line)
    await stopped.wait()
