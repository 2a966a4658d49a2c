"""Sessions of all kinds, recorded with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from outrider import Agent, Limits, Log, Session, Usage, tool
from outrider.errors import ConversationError, OutriderError, ProviderError, SessionCancelledError
from outrider.providers.base import Request
from outrider.subagents import spawn
from outrider.testing import Cut, ScriptedModel, Step, call, malformed_call
from outrider.tools.approval import Allow, Decision, Deny
from outrider.tools.context import ToolContext
from outrider.tools.tool import Tool

CALLS = ("look", "fail", "alone", "unknown", "malformed", "denied", "steer", "delegate", "cancel", "kill")
REPLIES = ("text", "empty", "overloaded", "cut", "refused", *CALLS)
ACTIONS = ("run", "think", "act", "compact", "rewind", "undo", "typed", "few turns", "few tokens")
Action = tuple[str, list[list[str]]]
"""A verb of the session, and the replies to it, each a list of what is in it."""


class Recording:
    """A session that does what it is told, with tools that steer, cancel and kill it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.session: Session
        self._replies: list[list[str]] = []
        self._looked = 0
        self.agent = Agent(
            ScriptedModel(self._reply, usage=Usage(100, 10, cost=0.01)), system="Be brief.", tools=self._tools()
        )

    async def record(self, actions: Iterable[Action]) -> str:
        """Do these actions, and return the id of the session."""
        self.session = await Session.open(self.log, agent=self.agent, approve=_approve)
        for verb, replies in actions:
            self._replies = list(replies)
            with suppress(SessionCancelledError, ConversationError, ProviderError):
                await self._do(verb)
            if self.session.is_suspended:
                await self.session.aclose()
                self.session = await Session.open(self.log, self.session.id, self.agent, approve=_approve)
                if self.session.is_unfinished:
                    await self.session.run()
                    if self.session.is_suspended:  # killed again
                        await self.session.aclose()
                        self.session = await Session.open(self.log, self.session.id, self.agent, approve=_approve)
        await self.session.aclose()
        return self.session.id

    async def _do(self, verb: str) -> None:
        session = self.session
        match verb:
            case "think":
                await session.think("Think.")
            case "act":
                await session.act()
            case "compact":
                self._replies = []
                await session.compact()
            case "rewind":
                await session.rewind(1)
            case "undo":
                await session.undo_rewind()
            case "typed":
                await session.run("How many?", output=int)
            case "few turns":
                await session.run("Go.", limits=Limits(max_turns=1))
            case "few tokens":
                await session.run("Go.", limits=Limits(max_total_tokens=150))
            case _:
                await session.run("Go.")

    def _reply(self, request: Request) -> Step:
        parts = self._replies.pop(0) if self._replies else ["text"]
        names = {spec.name for spec in request.tools}
        if parts == ["text"] and "report_back" in names:
            return call("report_back", result=4)
        failures: dict[str, Step] = {
            "overloaded": ProviderError("overloaded", retryable=True, retry_after=0.0),
            "cut": Cut("Half a", ProviderError("cut off", retryable=True, retry_after=0.0)),
            "refused": ProviderError("refused"),
        }
        if failed := next((failures[part] for part in parts if part in failures), None):
            return failed
        return [_part(part) for part in parts if part != "empty"]

    def _tools(self) -> list[Tool]:
        @tool(effect="read")
        def look() -> str:
            self._looked += 1
            return "Something." if self._looked % 3 else "Something else."

        @tool(effect="idempotent")
        def fail() -> str:
            raise OutriderError("it is broken")

        @tool(concurrent=False)
        def alone() -> str:
            return "x" * 60_000  # more than the model reads

        @tool
        def denied() -> str:
            raise AssertionError("it was denied")

        @tool
        async def steer() -> str:
            await self.session.steer("Use tabs.")
            return "steered"

        @tool(effect="idempotent")
        async def delegate(context: ToolContext) -> str:
            child = await spawn(context, Agent(ScriptedModel([call("look"), "A child."]), tools=[look]), title="child")
            async with child:
                return (await child.run("Help." if child.history.last is None else "")).text

        @tool
        async def cancel() -> None:
            self.session.cancel()
            await asyncio.Event().wait()

        @tool
        async def kill() -> None:
            self.session.freeze()
            self.session.cancel()
            await asyncio.Event().wait()

        return [look, fail, alone, denied, steer, delegate, cancel, kill]


def _part(name: str) -> Any:
    if name == "text":
        return "Some words."
    return malformed_call("look", "{") if name == "malformed" else call(name)


def _approve(use: Any, tool: Tool) -> Decision:
    return Deny("not that") if tool.name == "denied" else Allow()
