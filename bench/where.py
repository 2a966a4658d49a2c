"""Where the time of a turn goes: `python -m bench.where [loop|growth|log|anthropic]`.

cProfile makes small functions look dearer than they are; the shares by layer, which come first, suffer least from it.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench import loops, mockserver
from outrider import Agent, Limits, Log, Session

TURNS, CONVERSATIONS = 20, 30
LONG = 380
LAYERS = (
    ("outrider/providers/transport", "our HTTP layer"),
    ("outrider/providers", "adapters: rendering, parsing"),
    ("outrider/log", "the log"),
    ("outrider", "session, calls, history"),
    ("httptools", "httptools"),
    ("asyncio", "asyncio"),
    ("select.epoll", "waiting and waking (epoll)"),
    ("_socket.socket", "the socket"),
    ("msgspec", "JSON (msgspec)"),
)


def main() -> int:
    """Profile one kind of turn and print its layers and its dearest functions."""
    parser = argparse.ArgumentParser(prog="python -m bench.where", description=__doc__)
    parser.add_argument("kind", nargs="?", default="loop", choices=("loop", "growth", "log", "anthropic"))
    kind = parser.parse_args().kind
    with mockserver.running() as url, tempfile.TemporaryDirectory() as folder:
        asyncio.run(_profile(kind, url, Path(folder)))
    return 0


async def _profile(kind: str, url: str, folder: Path) -> None:
    turns, conversations = (LONG, 1) if kind == "growth" else (TURNS, CONVERSATIONS)
    model = loops.adapter(url, "anthropic" if kind == "anthropic" else "openai", f"turns-{turns}")
    agent = Agent(model=model, tools=[loops.ANSWER], limits=Limits(max_turns=None, max_repeats=None))
    log = Log(folder) if kind == "log" else None

    async def converse() -> None:
        session = Session.open(log, agent=agent).now() if log else Session(agent)
        async for _ in session.stream("go"):
            pass
        session.close()

    await converse()
    started = time.process_time()
    for _ in range(conversations):
        await converse()
    spent = (time.process_time() - started) / conversations / turns
    print(f"{kind}: {spent * 1e3:.3f} ms of CPU a turn, without the profiler\n")
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(conversations):
        await converse()
    profile.disable()
    if log:
        log.close()
    _print_layers(profile)
    pstats.Stats(profile, stream=sys.stdout).strip_dirs().sort_stats("tottime").print_stats(25)


def _print_layers(profile: cProfile.Profile) -> None:
    shares: Counter[str] = Counter()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, name), (_, _, own, _, _) in stats.items():
        place = f"{file} {name}"
        shares[next((layer for mark, layer in LAYERS if mark in place), "Python's own functions, and the rest")] += own
    whole = sum(shares.values())
    for layer, seconds in shares.most_common():
        print(f"{seconds / whole:6.1%}  {layer}")
    print()


if __name__ == "__main__":
    sys.exit(main())
