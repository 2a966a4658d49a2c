"""Any order of queueing, taking back, cancelling and killing: each message is delivered once, or still waits."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from outrider.conversation.history import violations
from outrider.conversation.messages import TextBlock
from outrider.log.log import Log
from outrider.providers.base import Request
from outrider.runtime.agent import Agent
from outrider.runtime.run import RunResult
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, Step, call
from outrider.tools.tool import tool
from tests.lengths import examples


class Steered(RuleBasedStateMachine):
    """A session in a log whose calls wait until they are released."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp())
        self.steered: list[str] = []
        self.withdrawn: set[str] = set()
        self.ends = False
        self.running: asyncio.Future[RunResult] | None = None
        self.faults: list[str] = []
        self.id: str | None = None
        self.open()

    def open(self) -> None:
        self.gate: asyncio.Future[None] | None = None
        self.log = Log(self.folder)

        @tool(effect="read")
        async def step() -> str:
            """Wait to be released."""
            self.gate = asyncio.get_running_loop().create_future()
            await self.gate
            return "done"

        agent = Agent(model=ScriptedModel(self.reply), tools=[step])
        self.session: Session = Session.open(self.log, self.id, agent).__enter__()
        self.id = self.session.id

    def reply(self, request: Request) -> Step:
        self.faults += violations(request.messages)
        if self.session.queued:
            self.faults.append("a request was made although messages waited")
        return "Done." if self.ends else call("step")

    def until(self, *futures: Any) -> None:
        """Run the loop until a call waits, the run has ended, and these are done."""

        async def wait() -> None:
            while not all(future.done() for future in futures) or not (
                self.running is None or self.running.done() or (self.gate and not self.gate.done())
            ):
                await asyncio.sleep(0.0005)

        self.loop.run_until_complete(asyncio.wait_for(wait(), 60))
        if self.running and self.running.done():
            self.running = None

    @property
    def is_running(self) -> bool:
        return self.running is not None

    @precondition(lambda self: not self.is_running)
    @rule(prompt=st.sampled_from(["", "Go"]))
    def run(self, prompt: str) -> None:
        if not prompt and not self.session.is_unfinished:
            return
        self.ends = False
        self.running = asyncio.ensure_future(self.session.run(prompt), loop=self.loop)
        self.until()
        assert self.is_running

    @precondition(lambda self: self.is_running)
    @rule(count=st.integers(1, 3))
    def steer(self, count: int) -> None:
        for _ in range(count):
            text = f"message {len(self.steered)}"
            self.steered.append(text)
            queued = asyncio.ensure_future(self.session.steer(text), loop=self.loop)
            self.until(queued)
            assert queued.result().text == text

    @rule(place=st.integers(-1, 2))
    def take_back(self, place: int) -> None:
        waiting = self.session.queued
        chosen = waiting[place] if 0 <= place < len(waiting) else None
        taking = asyncio.ensure_future(self.session.unsteer(chosen), loop=self.loop)
        self.until(taking)
        assert taking.result() == (chosen or (waiting[-1] if waiting else None))
        if taken := taking.result():
            self.withdrawn.add(taken.text)

    @precondition(lambda self: self.is_running)
    @rule(ends=st.booleans())
    def release(self, ends: bool) -> None:
        """Let the call end. All that waited is delivered, whatever the model replies."""
        self.ends = ends
        assert self.gate
        self.gate.set_result(None)
        self.until()
        assert self.session.queued == ()
        assert self.is_running is not ends

    @precondition(lambda self: self.is_running)
    @rule()
    def cancel(self) -> None:
        assert self.running
        self.session.cancel()
        self.until(self.running)

    @rule()
    def kill(self) -> None:
        """The process stops: nothing more reaches the log, and another opens it."""
        self.log.close()
        if self.running:
            self.running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                self.loop.run_until_complete(self.running)
            self.running = None
        self.open()

    @invariant()
    def each_message_is_in_one_place(self) -> None:
        assert self.faults == []
        known = set(self.steered)
        blocks = [block for message in self.session.messages for block in message.content]
        delivered = [block.text for block in blocks if isinstance(block, TextBlock) and block.text in known]
        waiting = [queued.text for queued in self.session.queued]
        assert [*delivered, *waiting] == [text for text in self.steered if text not in self.withdrawn]
        assert violations(self.session.history.sendable()) == []

    def teardown(self) -> None:
        if self.running:
            self.cancel()
        assert self.id
        self.session.close()
        assert self.log.messages(self.id) == self.session.messages
        self.log.close()
        self.loop.close()
        shutil.rmtree(self.folder)


TestSteering = Steered.TestCase
TestSteering.settings = settings(max_examples=examples(40), stateful_step_count=15)
