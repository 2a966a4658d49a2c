"""Long conversations in a context window: how much of them the prompt caches of the APIs hold, and how fast they open.

The caches are modelled by their rules: a prefix of an earlier request is read from the cache if it has at least 1,024
tokens. OpenAI and Gemini find any prefix; Anthropic finds those that end at a breakpoint: the system prompt, and the
end of each request.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

from bench.figure import Figure
from bench.long_sessions import LONG, ROUNDS, _fill
from outrider import Agent, Limits, Log, Session
from outrider.conversation.messages import Message, TextBlock, ToolUseBlock
from outrider.conversation.usage import Usage
from outrider.events import Compacted, Event, ResultsCleared
from outrider.log.entries import CompactionEntry
from outrider.providers.api import ApiProvider
from outrider.providers.base import Reply, Request, StopReason
from outrider.providers.catalogue.windows import BYTES_IN_TOKENS
from outrider.providers.resolution import resolve

MODELS = ("anthropic/claude-sonnet-4-5", "openai/gpt-5.6", "openai-chat/gpt-5.6", "gemini/gemini-3-pro")
TURNS = 200
WINDOWS = {200_000: 3.0, 64_000: 8.0, 8_000: 30.0}
"""Context windows in tokens, and the share of the input that may be outside of the cache, in percent."""
LEAST_PREFIX = 1_024
"""Tokens of the shortest prefix that a cache keeps."""
_LENGTHS = re.compile(rb',?"(max_tokens|max_output_tokens|max_completion_tokens|maxOutputTokens)":\d+')
SYSTEM = "You read the modules of a program, one after the other, and say what they do. " * 80


def read_module(number: int) -> str:
    """Read a module."""
    return f"# module {number}\n" + "def answer():\n    return 42\n" * 75


def measure() -> Iterator[Figure]:
    """The share of tokens that are not read from a cache, and the opening of a long session."""
    for window, most in WINDOWS.items():
        for model in MODELS:
            cached = asyncio.run(_cached(model, window))
            name = f"{model.partition('/')[0]}, {TURNS} turns in {window // 1000}k: not cached"
            detail = f"{cached.compactions} summaries, {cached.clearings} clearings"
            yield Figure(name, cached.missed, "%", most, detail)
    with tempfile.TemporaryDirectory() as folder:
        with Log(folder) as log:
            compacted = _filled(log, CompactionEntry(Message.user("## Goal\nExplain every module."), 40))
            whole = _filled(log)
        rounds = [_opened(folder, compacted) for _ in range(ROUNDS)]
        yield Figure(f"opening {LONG:,} compacted messages", min(opened for opened, _ in rounds), "ms", 150)
        yield Figure("from there to the first request", min(asked for _, asked in rounds), "ms", 1_000)
        rounds = [_opened(folder, whole, "whole") for _ in range(ROUNDS)]
        name = f"first request with all of {LONG:,} messages, from the opening on"
        yield Figure(name, min(map(sum, rounds)), "ms", 1_000)


def _filled(log: Log, *last: CompactionEntry) -> str:
    """Write a long session and return its id."""
    journal = log.create()
    _fill(journal.write_now, LONG)
    if last:
        journal.write_now(*last)
    journal.close()
    return journal.id


class Cached:
    """A provider that renders each request as an API would get it, and counts what its cache holds."""

    def __init__(self, model: str, window: int) -> None:
        adapter = resolve(model)
        assert isinstance(adapter, ApiProvider)
        self.name, self.window = model, window
        self.reply_tokens = min(adapter.capabilities.output_tokens, window // 4)
        self.compactions = self.clearings = 0
        self._adapter = adapter
        self._numbers = count(1)
        self._before = b""
        self._sent = self._read = 0.0

    @property
    def missed(self) -> float:
        """The percentage of the input that no cache held."""
        return 100 * (1 - self._read / self._sent)

    def observe(self, event: Event) -> None:
        """Count what changes the prompt."""
        self.compactions += isinstance(event, Compacted)
        self.clearings += isinstance(event, ResultsCleared)

    async def stream(self, request: Request) -> AsyncIterator[Reply]:
        """Render, count, and call the tool once more."""
        body = _LENGTHS.sub(b"", self._adapter.render(request)).rstrip(b"]}")
        tokens = round(len(body) / BYTES_IN_TOKENS)
        read = self._cached_tokens(body)
        self._sent, self._read, self._before = self._sent + tokens, self._read + read, body
        yield self._reply(request, Usage(tokens, 60, read))

    def _cached_tokens(self, body: bytes) -> int:
        pairs = zip(self._before, body, strict=False)
        same = body.startswith(self._before)
        shared = len(self._before) if same else next(index for index, (old, new) in enumerate(pairs) if old != new)
        if self._adapter.prefix == "anthropic" and shared < len(self._before):
            shared = min(shared, body.find(b'"messages":['))  # back to the breakpoint after the system prompt
        tokens = round(shared / BYTES_IN_TOKENS)
        return tokens if tokens >= LEAST_PREFIX else 0

    def _reply(self, request: Request, usage: Usage) -> Reply:
        if "Write a summary" in request.reminder:
            return Reply(Message.assistant("## Goal\nExplain every module.\n" + "It answers 42. " * 100), usage=usage)
        if (number := next(self._numbers)) > TURNS:
            return Reply(Message.assistant("They all answer 42."), usage=usage)
        use = ToolUseBlock(f"toolu_{number:024}", "read_module", {"number": number})
        return Reply(Message.assistant(TextBlock("I'll read the next one."), use), StopReason.TOOL_USE, usage)


async def _cached(model: str, window: int) -> Cached:
    provider = Cached(model, window)
    agent = Agent(provider, system=SYSTEM, tools=[read_module], limits=Limits(max_turns=None, max_repeats=None))
    result = await Session(agent, observer=provider.observe).run("Explain every module.")
    result.raise_for_status()
    return provider


def _opened(folder: str, id: str, kind: str = "compacted") -> tuple[float, float]:
    said = subprocess.run([sys.executable, "-m", "bench.context", folder, id, kind], capture_output=True, check=True)
    opened, asked = said.stdout.split()
    return float(opened), float(asked)


class _FirstRequest:
    """Notes when the first request is ready. Without a known window, it has all messages."""

    def __init__(self, window: int | None) -> None:
        self.name, self.window = "first", window
        self.asked = 0.0

    async def stream(self, request: Request) -> AsyncIterator[Reply]:
        adapter = resolve(MODELS[0])
        assert isinstance(adapter, ApiProvider)
        body = adapter.render(request)
        assert self.window or len(body) > 100 * LONG
        self.asked = time.perf_counter()
        yield Reply(Message.assistant("It answers 42."))


def _main() -> None:
    folder, name, kind = sys.argv[1:]
    log = Log(Path(folder))
    for _ in range(2):  # the second time counts: the first one imports modules and starts the writer
        provider = _FirstRequest(None if kind == "whole" else 200_000)
        started = time.perf_counter()
        session = Session.open(log, name, Agent(provider)).now()
        opened = time.perf_counter()
        asyncio.run(session.run("And the next one?"))
        session.close()
    print((opened - started) * 1e3, (provider.asked - opened) * 1e3)


if __name__ == "__main__":
    _main()
