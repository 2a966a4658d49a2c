"""The exact request for a conversation, as the log has it, for any provider: nothing is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config.settings import Settings, WebSettings
from outrider.coding.toolbox import WEB_SEARCH
from outrider.coding.workbench import Workbench
from outrider.conversation.history import History
from outrider.conversation.messages import Message
from outrider.errors import ConversationError, UnknownModelError
from outrider.log.entries import MessageEntry
from outrider.log.log import Log
from outrider.log.requests import restored
from outrider.prompts import prompt
from outrider.providers.api import ApiProvider
from outrider.providers.base import Request, ToolSpec
from outrider.providers.resolution import resolve
from outrider.replay.other_model import for_another
from outrider.runtime.agent import Agent
from outrider.runtime.agent_settings import cwd_of
from outrider.runtime.recall import RememberedPast, recall_tool
from outrider.runtime.toolset import specs_of
from outrider.text import counted, human_size

_BASE64 = re.compile(r"(data:[^,]{1,100};base64,)?([A-Za-z0-9+/_-]{160,}={0,2})")
_SHOWN = 24
MOST_ENTRIES, MOST_BYTES = 800, 2_000_000
"""The size of the end of a long request, from which it is cut off."""
NOTHING_TO_SEND = "the conversation is empty; there is nothing to send"


def sending_provider(model: str) -> ApiProvider:
    """Return the provider of that model. Raises UnknownModelError if it does not send requests."""
    provider = resolve(model)
    if not isinstance(provider, ApiProvider):
        raise UnknownModelError(
            f"{model!r} is {provider.name}, which runs in this process and sends no request; "
            "give another model, as in anthropic/fast"
        )
    return provider


def session_request(
    log: Log, id: str, model: str, *, reply: int | None = None, system: str = "", tools: tuple[ToolSpec, ...] = ()
) -> Request:
    """Return the next request of a session, or that of one of its replies, given its seq.

    `system` and `tools` replace those of the session. Raises ConversationError if there is nothing to send.
    """
    history = log.state(id, None if reply is None else reply - 1).history
    request = _request(log, id, model, history, history.sendable(), reply)
    if reply is None:
        request = msgspec.structs.replace(request, reminder="")  # that of the reply before
    if tools:
        request = msgspec.structs.replace(request, tools=tools, server_tools=())
    return msgspec.structs.replace(request, system=system) if system else request


def reply_of_turn(log: Log, id: str, turn: int) -> tuple[int, str]:
    """Return the seq and the model of a session's reply, counted from 1."""
    count = 0
    for record in log.records(id):
        if isinstance(entry := record.entry, MessageEntry) and entry.message.role == "assistant":
            count += 1
            if count == turn:
                return record.seq, entry.model
    raise ConversationError(f"there is no turn {turn}: the session has {counted(count, 'reply', 'replies')}")


def end_of_request(log: Log, id: str, model: str, *, reply: int, before: int | None = None) -> tuple[Request, int]:
    """Return the request of a reply, given its seq, or the part before an entry; and where the messages before it end.

    A long request has its newest messages only. The seq is that of the last entry before them; 0 if it has all.
    """
    upto = min(reply, before or reply) - 1
    state, before = log.state_at_end(id, upto, entries=MOST_ENTRIES, size=MOST_BYTES)
    history = state.history
    sendable = history.sendable()
    # A conversation that begins with a reply gets a message in front of it, which the whole request does not have.
    request = _request(log, id, model, history, sendable[1:] if before else sendable, reply)
    return msgspec.structs.replace(request, situation="") if before else request, before


def _request(
    log: Log, id: str, model: str, history: History, messages: Sequence[Message], reply: int | None
) -> Request:
    if not messages:
        raise ConversationError(NOTHING_TO_SEND)
    requested = log.requested(id, reply)
    if requested and (sent := restored(requested, messages, log.files(id))):
        return sent if model == _model_of(log, id, reply) else for_another(sent, sending_provider(model))
    # An old log has the names of the tools, and the prompt.
    recorded, files = _recorded(log, id, model), log.files(id)
    own = [*recorded.tools]
    if history.is_abridged:
        own.append(recall_tool(RememberedPast(id, lambda: history.messages, files), files))
    return Request(messages, files, recorded.system_prompt, specs_of(own), server_tools=recorded.server_tools)


def _model_of(log: Log, id: str, reply: int | None) -> str:
    """Return the model of a reply, or that of the session."""
    entry = log.after(id, reply - 1, 1)[0].entry if reply else None
    return entry.model if isinstance(entry, MessageEntry) else log.session(id).model


def _recorded(log: Log, session: str, model: str) -> Agent:
    """Return the agent of a session: the prompt that the log has, and the built-in tools that it names."""
    settings = log.claimed_settings(session)
    system, names = settings.system or "", settings.tools or ()
    was_lean = system.startswith(prompt("agent_lean"))
    wanted = Settings(lean="on" if was_lean else "auto", web=WebSettings(search="on" if WEB_SEARCH in names else "off"))
    bench = Workbench(wanted, cwd_of(log.settings(session)) or Path.cwd())
    try:
        agent = bench.agent(model=model)
    finally:
        bench.close()
    tools = [tool for tool in agent.tools if tool.name in names]
    return Agent(model=model, system=system, tools=tools, server_tools=agent.server_tools)


def pretty(body: bytes, *, full: bool = False) -> bytes:
    """Return an indented request body; files are shortened unless `full` is set."""
    if full:
        return msgspec.json.format(body, indent=2)
    return json.dumps(_abbreviated(json.loads(body)), indent=2, ensure_ascii=False).encode()


def _abbreviated(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _abbreviated(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_abbreviated(item) for item in value]
    if isinstance(value, str) and (found := _BASE64.fullmatch(value)):
        return f"{found[1] or ''}{found[2][:_SHOWN]}… ({human_size(len(found[2]))} of base64)"
    return value
