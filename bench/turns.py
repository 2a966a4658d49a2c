"""What a turn with one tool call costs, and whether a long conversation makes it dearer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.figure import Figure
from outrider import Agent, Limits, Session, ToolUseBlock
from outrider.providers.base import Request
from outrider.testing import ScriptedModel

EARLY, LATE = 100, 10_000
BLOCK = 100
ROUNDS = 7


async def answer(path: str) -> str:
    """Answer at once."""
    return path


def answer_in_thread(path: str) -> str:
    """Answer at once, from a thread."""
    return path


def measure() -> Iterator[Figure]:
    """CPU time of the process, threads included; the best of several blocks, early and late ones in turn."""
    early, late = asyncio.run(_early_and_late(answer))
    yield Figure(f"turn with one call of an async tool, at turn {EARLY}", early * 1e3, "ms", 0.15)
    yield Figure(f"the same at turn {LATE:,} / at turn {EARLY}", late / early, "x", 1.3, f"{late * 1e3:.3f} ms")
    threaded, _ = asyncio.run(_early_and_late(answer_in_thread, late_turn=EARLY))
    yield Figure(f"turn with one call of a sync tool, at turn {EARLY}", threaded * 1e3, "ms")


async def _early_and_late(tool: Callable[..., Any], late_turn: int = LATE) -> tuple[float, float]:
    old = _session(tool)
    await _turns(old, late_turn)
    early, late = [], []
    for _ in range(ROUNDS):
        young = _session(tool)
        await _turns(young, EARLY)
        early.append(await _turns(young, BLOCK))
        late.append(await _turns(old, BLOCK))
    return min(early), min(late)


def _session(tool: Callable[..., Any]) -> Session:
    def calling(request: Request) -> ToolUseBlock:
        return ToolUseBlock("", tool.__name__, {"path": "src/main.py"})

    return Session(Agent(model=ScriptedModel(calling), tools=[tool], limits=Limits(max_turns=BLOCK, max_repeats=None)))


async def _turns(session: Session, number: int) -> float:
    """CPU seconds a turn, over so many turns."""
    started = time.process_time()
    while number > 0:
        number -= (await session.run("" if session.history else "Begin.")).turns
    return (time.process_time() - started) / BLOCK
