"""The requests of a session to the model of its agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

import msgspec

from outrider.conversation.messages import Message, files_in
from outrider.conversation.mime_types import is_text_type
from outrider.errors import ConversationError
from outrider.log.entries import AttemptFailed
from outrider.prompts import prompt as prompt_text
from outrider.providers.base import ModelSettings, Reply, Request
from outrider.providers.catalogue.windows import room_for_file, window_of
from outrider.runtime.agent_spec import AgentSpec
from outrider.runtime.budget import NO_BUDGET
from outrider.runtime.budget_keeper import BudgetKeeper
from outrider.runtime.events import Event, Notice, Retrying
from outrider.runtime.hooks import newest_request
from outrider.runtime.receiver import Receiver
from outrider.runtime.record import SessionRecord
from outrider.runtime.step import Think
from outrider.runtime.toolset import Offer, Toolset
from outrider.text import clean, shorten
from outrider.tools.server_tool import ServerTool
from outrider.tools.tool import Tool

LONGEST_TASK = 2_000
"""Characters of the task that a reminder repeats."""


class ModelClient:
    """Sends requests with the instructions, tools and settings of an agent, and receives the replies."""

    def __init__(
        self,
        agent: AgentSpec,
        record: SessionRecord,
        add_failure: Callable[[AttemptFailed], Awaitable[None]],
        folder: str = "",
    ) -> None:
        self._record = record
        self._budget = BudgetKeeper(record, folder)
        self._add_failure = add_failure
        self.request: Request | None = None
        """The request of the newest reply."""
        self.first_token: float | None = None
        """Seconds from it to the first delta of the reply."""
        self.memory: dict[str, Any] = {}
        """What adapters keep from request to request, such as rendered bytes."""
        self.watch: Callable[[Callable[[Event], None]], Callable[[Event], None]] | None = None
        """Wraps what the events of a reply are passed to, in a run whose answer is typed."""
        self.offer: Callable[[AgentSpec], Offer] | None = None
        """Returns what the next request offers, if a mode of the session decides it."""
        self.tools = Toolset(partial(_recall, record))
        self._offers_rest = False
        """Whether a run has met a result or a file that was cut, whose rest only Recall reads."""
        self._looked_at: Message | None = None
        """The newest message that was searched for long files."""
        self._text_bytes = 0
        """The size of the texts in the messages that were searched."""
        self.use(agent)

    def use(self, agent: AgentSpec) -> None:
        """Take the model, the tools and the prompt of an agent. Raises UnknownModelError before anything is changed."""
        provider = agent.provider
        self.tools.use(agent)
        self.agent, self.provider = agent, provider
        self.offer_tools()

    def offer_tools(self) -> None:
        """Set the tools of the next request."""
        self.tools.offer(is_abridged=self._offers_rest or self._record.history.is_abridged)

    @property
    def server_tools(self) -> tuple[ServerTool, ...]:
        """The tools of the next request that the model's API runs."""
        return (*self.agent.server_tools, *self.tools.now.server_tools)

    def keep_to_mode(self) -> None:
        """Offer what the mode of the session allows now."""
        if self.offer and (now := self.offer(self.agent)) is not self.tools.now:
            self.tools.now = now
            self.offer_tools()

    def offer_rest(self) -> None:
        """Offer Recall if something was cut and no tool of the agent reads the rest of it. Only runs offer it."""
        if self._offers_rest or self.tools.reads_stored:
            return
        if self._record.state.has_cut_results or self._has_long_text():
            self._offers_rest = True
            self.offer_tools()

    def _has_long_text(self) -> bool:
        """Return whether messages that are new have a text for which those before it have left no room."""
        history, window = self._record.history, window_of(self.provider)
        new = [*takewhile(lambda each: each is not self._looked_at, history.newest_first())]
        self._looked_at = history.last
        for file in (file for each in reversed(new) for file in files_in(each) if is_text_type(file.mime_type)):
            if file.size > room_for_file(window, self._text_bytes):
                return True
            self._text_bytes += file.size
        return False

    def restart(self) -> None:
        """Forget the requests so far: the conversation is another one."""
        self.memory.clear()
        self._offers_rest, self._looked_at, self._text_bytes = False, None, 0
        self.offer_tools()

    def sharing_servers(self, agent: AgentSpec) -> AgentSpec:
        """Return the agent of a sub-agent: if it has the servers of this one, it uses those that run."""
        servers = self.tools.servers
        return agent.replace(mcp=servers.running) if servers and agent.mcp is self.agent.mcp else agent

    async def join_servers(self) -> None:
        """Offer the tools of the MCP servers that are ready."""
        if servers := self.tools.servers:
            if await self.tools.join_servers(self.provider):
                self.offer_tools()
            for notice in servers.take_notices():
                self._record.emit(Notice(notice))

    async def admit(self) -> None:
        """Return if the budget of the day allows another request. Raises BudgetError."""
        if self.agent.budget is not NO_BUDGET and self.agent.budget.parts:
            await self._budget.admit(self.agent.budget)

    async def reply(self, reminder: str, settings: ModelSettings) -> Reply:
        """Request the next reply of the conversation, and show its deltas. If it is interrupted, keep its text."""
        messages = self._record.state.history.sendable()
        if not messages:
            raise ConversationError("there is nothing to answer: the messages are blank")
        await self.admit()
        emit = self.watch(self._record.emit) if self.watch else self._record.emit
        receiver = Receiver(self.provider, emit, self.agent.retry, self._add_failure, keeps_words=True)
        if self.offer:
            self.keep_to_mode()
        try:
            reminder = "\n\n".join(filter(None, (self.tools.now.reminder, reminder)))
            request = self._request(messages, reminder, settings)
            reply = await receiver.receive(request)
            self.request, self.first_token = request, receiver.first_token
            return reply
        except asyncio.CancelledError:
            await self._record.keep_partial_reply(clean(receiver.words), receiver.cancelled_usage, self.provider.name)
            raise

    async def aside(
        self, messages: Sequence[Message], ask: str, settings: ModelSettings, *, tools: bool = True
    ) -> Reply:
        """Request a reply that is no part of the conversation. Its deltas are not shown, and its calls do not run."""
        request = msgspec.structs.replace(self._request(messages, ask, settings), output_schema=None)
        if not tools:
            request = msgspec.structs.replace(request, tools=(), server_tools=())
        await self.admit()
        return await Receiver(self.provider, self._emit_notices, self.agent.retry, self._add_failure).receive(request)

    def reminder(self, step: Think, repeats: int) -> str:
        """Return the reminder for one request of a run."""
        task = self._task() if self.agent.keeps_on_task and step.reminder not in ("", "final_turn") else ""
        return "\n\n".join(filter(None, (self._reminder(step, repeats), task)))

    def _task(self) -> str:
        """Return the newest words of the user, for a model that loses sight of them, and what it has done last."""
        newest = newest_request(self._record.history.newest_first())
        newest_calls = (each for each in self._record.history.newest_first() if each.tool_calls)
        newest_results = (each for each in self._record.history.newest_first() if each.tool_results)
        reply, results = next(newest_calls, Message.user()), next(newest_results, Message.user())
        tools = [self.tools.callable.get(call.name) for call in reply.tool_calls]
        has_failed = any(result.is_error for result in results.tool_results)
        changed = not has_failed and any(tool is None or tool.effect != "read" for tool in tools)
        then = prompt_text("on_task_changed" if changed else "on_task_seen")
        then = then.replace("{calls}", " and ".join(dict.fromkeys(call.name for call in reply.tool_calls)))
        return prompt_text("on_task").replace("{next}", then).replace("{task}", shorten(newest, LONGEST_TASK, "[…]"))

    def _reminder(self, step: Think, repeats: int) -> str:
        if step.reminder == "final_turn":
            asked = [tool.final_turn for tool in self.tools.offered.values() if tool.final_turn]
            if self.agent.answer:
                asked.append(prompt_text("output_final_turn"))
            return " ".join([prompt_text("final_turn"), *(asked or [prompt_text("final_answer")])])
        if step.reminder == "repeating":
            return prompt_text("repeating").format(repeats=repeats)
        return prompt_text(step.reminder) if step.reminder == "empty_reply" else ""

    def _request(self, messages: Sequence[Message], reminder: str, settings: ModelSettings) -> Request:
        return Request(
            messages,
            self._record.store,
            self.tools.system_prompt(self.agent),
            self.tools.specs,
            reminder,
            self.memory,
            settings,
            self.agent.retry.idle_seconds,
            self.agent.answer.schema if self.agent.answer else None,
            self.server_tools,
            self.agent.situation,
        )

    def _emit_notices(self, event: Event) -> None:
        if isinstance(event, Retrying | Notice):
            self._record.emit(event)


def _recall(record: SessionRecord) -> Tool:
    from outrider.runtime.recall import recall_tool  # most conversations are sent whole

    return recall_tool(record.journal.past(record.state), record.store)
