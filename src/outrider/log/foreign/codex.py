"""Codex's session files, called rollouts: one JSON object a line, with a time, a type and a payload.

    {"timestamp": "…", "type": "response_item", "payload": {"type": "message", "role": "user", "content": […]}}

Items are those of OpenAI's Responses API. Events repeat them for display; only those that change something are read.
Files of early versions have the items without the envelope.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from outrider.conversation.messages import (
    Block,
    Message,
    Role,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from outrider.conversation.usage import Usage
from outrider.log.entries import CompactionEntry
from outrider.log.foreign.transcript import (
    ForeignSession,
    Transcript,
    list_of,
    mapping_of,
    number_of,
    result_block,
    text_of,
    time_of,
)
from outrider.text import word_set

AGENT = "codex"
_LINES = ("session_meta", "response_item", "turn_context", "event_msg", "compacted")
_ITEMS = word_set(
    "message reasoning function_call function_call_output local_shell_call custom_tool_call "
    "custom_tool_call_output tool_search_call tool_search_output web_search_call image_generation_call "
    "ghost_snapshot compaction compaction_summary compaction_trigger context_compaction additional_tools"
)
_LEFT_OUT = ("ghost_snapshot", "additional_tools")
"""Items without words; those of a compaction, too, which only the API can read."""


def is_line(line: Mapping[str, Any]) -> bool:
    """Return whether this is a line of such a file."""
    kind = line.get("type")
    if kind in _LINES and isinstance(line.get("payload"), dict):
        return True
    return kind in _ITEMS or (kind is None and {"id", "timestamp", "instructions"} <= line.keys())


def read(lines: Iterable[dict[str, Any]]) -> Iterator[ForeignSession]:
    """Yield the session."""
    rollout = _Rollout()
    for line in lines:
        rollout.take(line)
    if found := rollout.said.finished(rollout.name, rollout.parent):
        yield found


class _Rollout:
    """The lines of a session."""

    def __init__(self) -> None:
        self.said = Transcript(AGENT)
        self.name = self.parent = ""
        self._provider = "openai"

    def take(self, line: dict[str, Any]) -> None:
        """Read one line."""
        kind, payload = text_of(line.get("type")), mapping_of(line.get("payload"))
        said = self.said
        said.time = time_of(line.get("timestamp")) or said.time
        if kind == "session_meta" or (not kind and "id" in line):
            self._begin(payload or line)
        elif kind == "response_item" or kind in _ITEMS:
            self._item(payload or line)
        elif kind == "turn_context":
            said.folder = text_of(payload.get("cwd")) or said.folder
            if model := text_of(payload.get("model")):
                said.model = f"{self._provider}/{model}"
        elif kind == "event_msg":
            self._event(payload)
        elif kind == "compacted":
            self._compact(payload)
        elif line.get("record_type") != "state":
            self._say("user", said.blocks.unknown_form(kind or "line", line))

    def _begin(self, meta: dict[str, Any]) -> None:
        if self.name:
            return  # that of the session from which this one was forked
        self.name = text_of(meta.get("id"))
        self.said.folder = text_of(meta.get("cwd"))
        self._provider = text_of(meta.get("model_provider")) or self._provider
        spawned = mapping_of(mapping_of(meta.get("source")).get("subagent")).get("thread_spawn")
        self.parent = text_of(mapping_of(spawned).get("parent_thread_id"))

    def _item(self, item: dict[str, Any]) -> None:
        kind = text_of(item.get("type"))
        if kind == "message":
            role = text_of(item.get("role"))
            if role in ("user", "assistant"):  # the instructions of Codex itself are left out
                self._say("user" if role == "user" else "assistant", *self._content(item.get("content")))
        elif kind in ("function_call_output", "custom_tool_call_output", "tool_search_output"):
            self._say("user", self._result(item))
        elif kind == "reasoning":
            parts = [*list_of(item.get("summary")), *list_of(item.get("content"))]
            texts = filter(str.strip, (text_of(mapping_of(part).get("text")) for part in parts))
            self._say("assistant", *map(ThinkingBlock, texts))
        elif kind == "image_generation_call":
            self._say("assistant", self.said.blocks.file(item.get("result"), "image/png"))
        elif kind == "web_search_call":
            self._say("assistant", ServerToolUseBlock(_id(item), "web_search", mapping_of(item.get("action"))))
        elif call := _call(kind, item):
            self._say("assistant", call)
        elif kind not in _LEFT_OUT and "compaction" not in kind:
            self._say("user", self.said.blocks.unknown_form(kind or "item", item))

    def _say(self, role: Role, *blocks: Block) -> None:
        """Add blocks: to the newest message if it is of one kind with them."""
        said, tip = self.said, self.said.tip
        if not blocks:
            return
        is_result = isinstance(blocks[0], ToolResultBlock)
        if tip and tip.role == role and (role == "assistant" or (is_result and tip.has_only_results)):
            tip.blocks += blocks
        else:
            tip = said.say(role, blocks)
        if role == "assistant":
            tip.model = said.model

    def _content(self, content: object) -> list[Block]:
        found: list[Block] = []
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content):
            each = mapping_of(part)
            kind = text_of(each.get("type"))
            if kind in ("input_text", "output_text", "text"):
                found += [TextBlock(text)] if (text := text_of(each.get("text"))).strip() else []
            elif kind == "input_image":
                found.append(self.said.blocks.data_url(each.get("image_url")))
            else:
                found.append(self.said.blocks.unknown_form(kind or "content", part))
        return found

    def _result(self, item: dict[str, Any]) -> ToolResultBlock:
        output, is_error = item.get("output", item.get("tools")), False
        if isinstance(output, dict):
            is_error, output = output.get("success") is False, output.get("content")
        if isinstance(output, str) and output.startswith('{"output"'):
            try:  # a command's output, with its exit code
                decoded = msgspec.json.decode(output)
                is_error = mapping_of(decoded.get("metadata")).get("exit_code", 0) != 0
                output = decoded["output"]
            except (msgspec.MsgspecError, RecursionError):
                pass
        return result_block(_id(item), self._content(output), is_error=is_error)

    def _event(self, event: dict[str, Any]) -> None:
        said = self.said
        match event.get("type"):
            case "token_count" if said.tip and said.tip.role == "assistant":
                used = mapping_of(mapping_of(event.get("info")).get("last_token_usage"))
                names = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_output_tokens")
                taken, given, cached, reasoned = (number_of(used.get(name)) for name in names)
                said.tip.usage = Usage(taken, given, cached, reasoning_tokens=reasoned)
            case "thread_name_updated":
                said.title = text_of(event.get("thread_name"))[:200] or said.title
            case "thread_rolled_back":
                said.rewind_turns(number_of(event.get("num_turns")))

    def _compact(self, payload: dict[str, Any]) -> None:
        text = text_of(payload.get("message"))
        if not text.strip():
            items = map(mapping_of, list_of(payload.get("replacement_history")))
            kept = (block for item in items if item.get("role") for block in self._content(item.get("content")))
            text = "\n\n".join(block.text for block in kept if isinstance(block, TextBlock))
        if text.strip():
            self.said.note(CompactionEntry(Message.user(text), 0, "threshold"))


def _call(kind: str, item: dict[str, Any]) -> ToolUseBlock | None:
    name = text_of(item.get("name"))
    if kind in ("function_call", "tool_search_call"):
        arguments = item.get("arguments")
        name = name or "tool_search"
        if isinstance(arguments, dict):
            return ToolUseBlock(_id(item), name, arguments)
        try:
            decoded = msgspec.json.decode(text_of(arguments) or "{}")
        except (msgspec.MsgspecError, RecursionError):
            decoded = None
        if isinstance(decoded, dict):
            return ToolUseBlock(_id(item), name, decoded)
        return ToolUseBlock(_id(item), name, {}, text_of(arguments))
    if kind == "custom_tool_call":
        return ToolUseBlock(_id(item), name, {"input": text_of(item.get("input"))})
    if kind == "local_shell_call":
        return ToolUseBlock(_id(item), "local_shell", mapping_of(item.get("action")))
    return None


def _id(item: dict[str, Any]) -> str:
    return text_of(item.get("call_id")) or text_of(item.get("id"))
