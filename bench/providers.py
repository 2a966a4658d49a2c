"""What a streamed turn costs, beside a hand-written loop on the same transport and beside the vendors' SDKs."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Iterator

import aiohttp
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from bench import loops, mock_answers, mockserver
from bench.figure import Figure

TURNS = 20
LONG = 380
MANY, MANY_TURNS = 200, 10
ROUNDS = 9


def measure() -> Iterator[Figure]:
    """Each figure from rounds in which the loops take turns; the best round counts."""
    yield from asyncio.run(_short())
    yield from asyncio.run(_long())
    yield from asyncio.run(_live())
    yield from asyncio.run(_many())
    yield from asyncio.run(_many_beside_sdk())


async def _short() -> list[Figure]:
    model = f"turns-{TURNS}"
    with mockserver.running() as url:
        chat, claude = loops.adapter(url, "openai", model), loops.adapter(url, "anthropic", model)
        async with (
            aiohttp.ClientSession() as client,
            AsyncOpenAI(api_key="k", base_url=f"{url}/v1") as openai,
            AsyncAnthropic(api_key="k", base_url=url) as anthropic,
        ):
            cpu = await _rounds(
                {
                    "ours": lambda: loops.ours(chat, TURNS)(),
                    "hand": lambda: loops.play(loops.by_hand(url, client, model), TURNS),
                    "anthropic": lambda: loops.ours(claude, TURNS)(),
                    "openai sdk": lambda: loops.play(loops.openai_sdk(openai, model), TURNS),
                    "anthropic sdk": lambda: loops.play(loops.anthropic_sdk(anthropic, model), TURNS),
                }
            )
    turn = {name: seconds / TURNS * 1e3 for name, seconds in cpu.items()}
    detail = ", ".join(f"{name} {ms:.2f} ms" for name, ms in turn.items())
    return [
        Figure("CPU of a streamed turn in a 20-turn loop / by hand", turn["ours"] / turn["hand"], "x", 1.7, detail),
        Figure("the same / the OpenAI SDK's bare loop", turn["ours"] / turn["openai sdk"], "x"),
        Figure("the same on Anthropic / the Anthropic SDK's", turn["anthropic"] / turn["anthropic sdk"], "x"),
    ]


async def _long() -> list[Figure]:
    """CPU of single turns late in a long conversation with 2 kB results."""
    model = f"turns-{LONG + 20}"
    with mockserver.running() as url:
        async with aiohttp.ClientSession() as client:
            turns = {
                "ours": loops.ours(loops.adapter(url, "openai", model)),
                "hand": loops.by_hand(url, client, model),
            }
            for turn in turns.values():
                await loops.play(turn, LONG - 8)
            cpu = await _rounds(dict(turns), rounds=16)
    detail = ", ".join(f"{name} {seconds * 1e3:.2f} ms" for name, seconds in cpu.items())
    return [Figure("CPU of turn 380 with 2 kB results / by hand", cpu["ours"] / cpu["hand"], "x", 2.0, detail)]


async def _live() -> list[Figure]:
    """CPU a chunk of 20 streams whose chunks arrive one by one."""
    streams, model = 20, "turns-1"
    with mockserver.running() as url:
        chat = loops.adapter(f"{url}/drip", "openai", model)
        async with aiohttp.ClientSession() as client:
            cpu = await _rounds(
                {
                    "ours": lambda: loops.play_all(lambda: loops.ours(chat), streams, 1),
                    "hand": lambda: loops.play_all(lambda: loops.by_hand(f"{url}/drip", client, model), streams, 1),
                }
            )
    chunks = streams * len(mock_answers.CHAT.calls(1).events)
    detail = ", ".join(f"{name} {seconds / chunks * 1e6:.0f} µs" for name, seconds in cpu.items())
    return [Figure("CPU a chunk of 20 live streams / by hand", cpu["ours"] / cpu["hand"], "x", 2.0, detail)]


async def _many() -> list[Figure]:
    """Wall time of 200 conversations of 10 turns at once, beside as many hand-written loops."""
    model = f"turns-{MANY_TURNS}"
    with mockserver.running() as url:
        chat = loops.adapter(url, "openai", model)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            rate = await _rates(
                {
                    "ours": lambda: loops.play_all(lambda: loops.ours(chat, MANY_TURNS), MANY, 1),
                    "hand": lambda: loops.play_all(lambda: loops.by_hand(url, client, model), MANY, MANY_TURNS),
                },
                rounds=5,
            )
    detail = ", ".join(f"{name} {each:,.0f} turns/s" for name, each in rate.items())
    slower = rate["hand"] / rate["ours"]
    return [Figure("200 conversations at once: by hand's rate / ours", slower, "x", 1 / 0.5, detail)]


async def _many_beside_sdk() -> list[Figure]:
    """The same beside an SDK, which is slow."""
    model = f"turns-{MANY_TURNS}"
    with mockserver.running() as url:
        chat = loops.adapter(url, "openai", model)
        async with AsyncOpenAI(api_key="k", base_url=f"{url}/v1") as openai:
            rate = await _rates(
                {
                    "ours": lambda: loops.play_all(lambda: loops.ours(chat, MANY_TURNS), MANY, 1),
                    "openai sdk": lambda: loops.play_all(lambda: loops.openai_sdk(openai, model), MANY, MANY_TURNS),
                },
                rounds=2,
            )
    detail = ", ".join(f"{name} {each:,.0f} turns/s" for name, each in rate.items())
    slower = 10 * rate["openai sdk"] / rate["ours"]
    return [Figure("200 conversations at once: 10 × the OpenAI SDK's rate / ours", slower, "x", 1.0, detail)]


async def _rates(works: dict[str, Callable[[], Awaitable[object]]], rounds: int) -> dict[str, float]:
    """Turns a second."""
    wall = await _rounds(works, clock=time.perf_counter, rounds=rounds)
    return {name: MANY * MANY_TURNS / seconds for name, seconds in wall.items()}


async def _rounds(
    works: dict[str, Callable[[], Awaitable[object]]],
    clock: Callable[[], float] = time.process_time,
    rounds: int = ROUNDS,
) -> dict[str, float]:
    # The heap of all that was imported for comparison is no part of any loop: the collector need not look at it.
    gc.collect()
    gc.freeze()
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            started = clock()
            await work()
            best[name] = min(best[name], clock() - started)
    return best
