"""A session as a trajectory in ATIF, the Agent Trajectory Interchange Format of Harbor."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import UnsetType

from outrider.conversation.messages import (
    AttachmentBlock,
    Message,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from outrider.conversation.usage import Usage
from outrider.errors import LogError
from outrider.log.entries import CallResult, CompactionEntry, MessageEntry, Record, SubagentLinked
from outrider.log.session_id import shown_id
from outrider.providers.base import ToolSpec
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.log.reader import LogReader

VERSION = "ATIF-v1.8"


def trajectory(log: LogReader, id: str) -> dict[str, Any]:
    """Return a session with its sub-agents as one trajectory. Raises LogError if nothing was said in it."""
    summary = log.session(id)
    requested = log.requested(summary.id)
    system = requested.system if requested and isinstance(requested.system, str) else log.settings(summary.id).system
    steps = _Steps(system or "")
    for record in log.shown_records(summary.id):
        steps.take(record)
    if not steps.steps:
        raise LogError(f"the session {shown_id(summary.id)} has no messages; there is no trajectory")
    tools = () if requested is None or isinstance(requested.tools, UnsetType) else requested.tools
    children = [trajectory(log, child.id) for child in log.children(summary.id) if child.turns]
    usage = sum((child.usage for child in log.children(summary.id)), summary.usage)
    return _present(
        schema_version=VERSION,
        session_id=summary.id,
        trajectory_id=summary.id,
        agent=_present(
            name="outrider",
            version=__version__,
            model_name=summary.model or None,
            tool_definitions=[_definition(tool) for tool in tools] or None,
        ),
        steps=steps.numbered({child["trajectory_id"] for child in children}),
        final_metrics=_present(
            total_prompt_tokens=summary.usage.input_tokens,
            total_completion_tokens=summary.usage.output_tokens,
            total_cached_tokens=summary.usage.cached_tokens,
            total_cost_usd=usage.cost,
            total_steps=len(steps.steps),
        ),
        subagent_trajectories=children or None,
    )


class _Steps:
    """The steps so far. Results are observations of the step with their calls."""

    def __init__(self, system: str) -> None:
        self.steps: list[dict[str, Any]] = [{"source": "system", "message": system}] if system.strip() else []
        self._calls: dict[str, dict[str, Any]] = {}
        """The step of each call."""
        self._children: dict[str, list[str]] = {}
        """The sessions of sub-agents that each call has started."""

    def take(self, record: Record) -> None:
        """Take the next entry."""
        match record.entry:
            case MessageEntry(message=message) as entry if message.role == "assistant":
                self._add(record, _reply(entry))
                self._calls |= {call.id: self.steps[-1] for call in message.tool_calls}
            case MessageEntry(message=message):
                for result in message.tool_results:
                    self._observe(result)
                if text := _text(message):
                    self._add(record, {"source": "user", "message": text})
            case CallResult(result=result):
                self._observe(result)
            case CompactionEntry(summary=summary):
                self._add(record, {"source": "system", "message": summary.text, "extra": {"compaction": True}})
            case SubagentLinked(call_id=call_id, session=session):
                self._children.setdefault(call_id, []).append(session)

    def numbered(self, children: set[str]) -> list[dict[str, Any]]:
        """Return the steps with their numbers, and with references to those of the children that are there."""
        for call_id, step in self._calls.items():
            known = [each for each in self._children.get(call_id, ()) if each in children]
            for result in step.get("observation", {}).get("results", ()):
                if known and result["source_call_id"] == call_id:
                    result["subagent_trajectory_ref"] = [{"trajectory_id": each, "session_id": each} for each in known]
        for step in self.steps:  # results come as calls end; a reader expects them in the order of the calls
            if "observation" in step:
                places = {call["tool_call_id"]: place for place, call in enumerate(step["tool_calls"])}
                step["observation"]["results"].sort(key=lambda each: places[each["source_call_id"]])
        return [{"step_id": number, **step} for number, step in enumerate(self.steps, 1)]

    def _add(self, record: Record, step: dict[str, Any]) -> None:
        when = datetime.fromtimestamp(record.time, UTC).isoformat().replace("+00:00", "Z")
        self.steps.append({"timestamp": when, **step})

    def _observe(self, result: ToolResultBlock) -> None:
        if step := self._calls.get(result.tool_use_id):
            results = step.setdefault("observation", {"results": []})["results"]
            if any(each["source_call_id"] == result.tool_use_id for each in results):
                return  # it is in the message with all results, too
            extra = {"is_error": True} if result.is_error else None
            content = "\n".join(filter(None, (result.text, *map(_file, result.attachments))))
            results.append(_present(source_call_id=result.tool_use_id, content=content, extra=extra))


def _reply(entry: MessageEntry) -> dict[str, Any]:
    message = entry.message
    thoughts = "\n".join(block.thinking for block in message.content if isinstance(block, ThinkingBlock))
    served = [block for block in message.content if isinstance(block, ServerToolUseBlock)]
    calls = [
        {"tool_call_id": call.id, "function_name": call.name, "arguments": call.input} for call in message.tool_calls
    ]
    return _present(
        source="agent",
        model_name=entry.model or None,
        message=_text(message),
        reasoning_content=thoughts or None,
        tool_calls=calls or None,
        metrics=_metrics(entry.usage) if entry.usage else None,
        llm_call_count=1,
        extra={"server_tools": [{"name": each.name, "input": each.input} for each in served]} if served else None,
    )


def _metrics(usage: Usage) -> dict[str, Any]:
    return _present(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=usage.cost,
    )


def _text(message: Message) -> str:
    """Return the text of a message, with a line for each of its files."""
    return "\n".join(_lines(message.content))


def _lines(blocks: Iterable[object]) -> Iterable[str]:
    for block in blocks:
        if isinstance(block, TextBlock) and block.text:
            yield block.text
        elif isinstance(block, AttachmentBlock):
            yield _file(block)


def _file(file: AttachmentBlock) -> str:
    return f"[file {file.label}, {file.mime_type}, sha256 {file.sha256}]"


def _definition(tool: ToolSpec) -> dict[str, Any]:
    """Return a tool as OpenAI's function calling has it."""
    fields = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": fields}


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
