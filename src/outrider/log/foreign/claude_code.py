"""Claude Code's session files: one JSON object a line, each of which names the line that it follows.

    {"type": "user", "uuid": "…", "parentUuid": null, "sessionId": "…", "message": {"role": "user", "content": "Hi."}}

A reply is spread over lines with the same message id. Sub-agents are lines with `isSidechain`, in this file or one of
their own. After a compaction, the next line has its summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from outrider.conversation.messages import (
    Block,
    Message,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from outrider.conversation.usage import Usage
from outrider.log.entries import AttemptFailed, CompactionEntry, SubagentLinked
from outrider.log.foreign.transcript import (
    ForeignSession,
    Node,
    Transcript,
    list_of,
    mapping_of,
    number_of,
    result_block,
    session_id,
    text_of,
    time_of,
)
from outrider.providers.catalogue.windows import estimated_tokens
from outrider.text import word_set

AGENT = "claude-code"
_SAID = ("user", "assistant")
_BOOKKEEPING = word_set(
    "system progress file-history-snapshot queue-operation agent-name agent-color agent-setting last-prompt mode "
    "permission-mode pr-link tag worktree-state content-replacement marble-origami-commit speculation-accept "
    "attribution-snapshot task-summary bridge-session relocated"
)
"""Types of lines about the program, not the conversation."""
_REMINDER = re.compile("reminder|_delta|listing|hook_|mode|_in_ide|output_style|date_change|nested_memory|budget")
"""Attachments with which the program tells the model about its own state."""
_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
"""Types of lines with a title, the weakest first, and its field."""


def is_line(line: Mapping[str, Any]) -> bool:
    """Return whether this is a line of such a file."""
    kind = line.get("type")
    if kind in _SAID:
        return isinstance(line.get("message"), dict) and "uuid" in line
    return isinstance(kind, str) and ("sessionId" in line or (kind == "summary" and "leafUuid" in line))


def read(lines: Iterable[dict[str, Any]]) -> Iterator[ForeignSession]:
    """Yield the session, then those of its sub-agents."""
    chains: dict[str, _Chain] = {"": _Chain()}
    sides: dict[str, str] = {}
    """The sub-agent of each line of one."""
    name = ""
    for line in lines:
        name = text_of(line.get("sessionId")) or name  # a resumed session begins with lines of the former one
        side, uuid = "", text_of(line.get("uuid"))
        if line.get("isSidechain") is True:
            above = sides.get(text_of(line.get("parentUuid")), "")
            side = sides[uuid] = text_of(line.get("agentId")) or above or uuid or "side"
        chains.setdefault(side, _Chain()).take(line)
    main = chains.pop("")
    for side, chain in chains.items():
        main.link(chain.prompt, side)
    found = [main.finished(name), *(chain.finished(f"{name}/{side}", name) for side, chain in chains.items())]
    yield from filter(None, found)


class _Chain:
    """The lines of a session, or of one sub-agent, as they follow each other."""

    def __init__(self) -> None:
        self._said = Transcript(AGENT)
        self._nodes: dict[str, Node | None] = {}
        """The newest message after each line, by the line's uuid."""
        self._replies: dict[str, Node] = {}
        self._calls: dict[str, tuple[Node, str]] = {}
        """The message with each call, and the prompt that it gives a sub-agent."""
        self._agents: list[tuple[str, str]] = []
        """The calls whose results name a sub-agent, and its id."""
        self._titles = dict.fromkeys(_TITLES, "")
        self._boundary: dict[str, Any] = {}
        """What the newest compaction says about itself, until its summary comes."""

    @property
    def prompt(self) -> str:
        """What the session begins with."""
        tip = self._said.tip
        return tip.line()[0].message.text if tip else ""

    def take(self, line: dict[str, Any]) -> None:
        """Read one line."""
        uuid, kind = text_of(line.get("uuid")), text_of(line.get("type"))
        if uuid and uuid in self._nodes:
            return  # repeated
        said = self._said
        said.time = time_of(line.get("timestamp")) or said.time
        said.folder = text_of(line.get("cwd")) or said.folder
        node = None
        if field := _TITLES.get(kind):
            self._titles[kind] = text_of(line.get(field)) or self._titles[kind]
        elif kind in _SAID and isinstance(line.get("message"), dict):
            node = self._say(kind, line)
        elif line.get("subtype") == "compact_boundary":
            self._boundary = mapping_of(line.get("compactMetadata"))
        elif kind == "attachment":
            node = self._attach(mapping_of(line.get("attachment")), line)
        elif kind not in _BOOKKEEPING:
            node = self._add([said.blocks.unknown_form(kind or "line", line)], line)
        if uuid:
            self._nodes[uuid] = node or self._nodes.get(text_of(line.get("parentUuid"))) or said.tip

    def link(self, prompt: str, agent: str) -> None:
        """Say which call started a sub-agent: the first without one that gave it this prompt."""
        linked = dict(self._agents)
        free = (call for call, (_, given) in self._calls.items() if prompt and given == prompt and call not in linked)
        if agent not in linked.values() and (call := next(free, None)):
            self._agents.append((call, agent))

    def finished(self, name: str, parent: str = "") -> ForeignSession | None:
        """Return the session; None if it has no messages."""
        for call, agent in self._agents:
            self._calls[call][0].notes.append(SubagentLinked(call, session_id(AGENT, f"{name}/{agent}")))
        self._said.title = next(filter(None, reversed(self._titles.values())), self._said.title)[:200]
        return self._said.finished(name, parent)

    # Messages

    def _say(self, kind: str, line: dict[str, Any]) -> Node | None:
        message, said = line["message"], self._said
        if line.get("isApiErrorMessage") is True:
            texts = [text_of(mapping_of(part).get("text")) for part in _parts(message.get("content"))]
            said.note(AttemptFailed(" ".join(texts)[:1_000], 1))
            return None
        blocks = self._blocks(message.get("content"))
        if not blocks:
            return None
        if kind == "assistant":
            return self._reply(blocks, message, line)
        if line.get("isCompactSummary") is True:
            reason = "manual" if self._boundary.get("trigger") == "manual" else "threshold"
            before, self._boundary = number_of(self._boundary.get("preTokens")), {}
            summary = Message("user", tuple(blocks))
            said.note(CompactionEntry(summary, 0, reason, before, estimated_tokens(summary.text) if before else 0))
            return None
        return self._answer(blocks, line)

    def _reply(self, blocks: list[Block], message: dict[str, Any], line: dict[str, Any]) -> Node:
        said, key = self._said, text_of(message.get("id"))
        node = self._replies.get(key)
        if node is None or node not in said.recent:
            self._follow(line)
            node = said.say("assistant", [])
        known = {call.id for call in node.message.tool_calls}
        node.blocks += [block for block in blocks if not isinstance(block, ToolUseBlock) or block.id not in known]
        for call in node.message.tool_calls:
            self._calls.setdefault(call.id, (node, text_of(call.input.get("prompt"))))
        if key:
            self._replies[key] = node
        model = text_of(message.get("model"))
        if model and model != "<synthetic>":
            node.model = said.model = f"anthropic/{model}"
        node.usage = _usage(mapping_of(message.get("usage")))
        return node

    def _answer(self, blocks: list[Block], line: dict[str, Any]) -> Node:
        """Add a message of the user. The results of one reply are one message."""
        tip, results = self._said.tip, Message("user", tuple(blocks)).tool_results
        if (agent := text_of(mapping_of(line.get("toolUseResult")).get("agentId"))) and results:
            self._agents += [(each.tool_use_id, agent) for each in results[:1] if each.tool_use_id in self._calls]
        parent = self._nodes.get(text_of(line.get("parentUuid")))
        if results and tip and tip.role == "user" and tip.has_only_results and parent in (tip, tip.parent):
            tip.blocks += blocks
            return tip
        return self._add(blocks, line)

    def _attach(self, attached: dict[str, Any], line: dict[str, Any]) -> Node | None:
        """Add what the user queued or attached. Reminders of the program are left out."""
        kind = text_of(attached.get("type"))
        if kind == "queued_command":
            blocks = self._blocks(attached.get("prompt"))
        elif kind == "file" and "content" in attached:
            file = mapping_of(mapping_of(attached["content"]).get("file"))
            name = text_of(attached.get("filename")) or text_of(file.get("filePath"))
            text = text_of(file.get("content"))
            blocks = [TextBlock(f"[{name}]\n{text}")] if text.strip() else []
        elif _REMINDER.search(kind):
            blocks = []
        else:
            blocks = [self._said.blocks.unknown_form(f"attachment {kind}", attached)]
        return self._add(blocks, line) if blocks else None

    def _add(self, blocks: list[Block], line: dict[str, Any]) -> Node:
        self._follow(line)
        return self._said.say("user", blocks)

    def _follow(self, line: dict[str, Any]) -> None:
        """Go to the message that a line follows. A line of which no such message is known follows the newest."""
        node = self._nodes.get(text_of(line.get("parentUuid")))
        if node and node is not self._said.tip:
            self._said.go_to(node)

    def _blocks(self, content: object) -> list[Block]:
        return [block for part in _parts(content) if (block := self._block(part)) is not None]

    def _block(self, part: object) -> Block | None:
        made, each = self._said.blocks, mapping_of(part)
        match text_of(each.get("type")):
            case "text":
                text = text_of(each.get("text"))
                return TextBlock(text) if text.strip() else None
            case "thinking":
                thinking = text_of(each.get("thinking"))
                return ThinkingBlock(thinking) if thinking.strip() else None
            case "redacted_thinking":
                return None
            case "tool_use":
                return ToolUseBlock(text_of(each.get("id")), text_of(each.get("name")), mapping_of(each.get("input")))
            case "tool_result":
                given, is_error = self._blocks(each.get("content")), each.get("is_error") is True
                return result_block(text_of(each.get("tool_use_id")), given, is_error=is_error)
            case "image" | "document" if mapping_of(each.get("source")).get("type") == "base64":
                source = each["source"]
                return made.file(source.get("data"), source.get("media_type"), text_of(each.get("title")))
            case "server_tool_use":
                arguments = mapping_of(each.get("input"))
                return ServerToolUseBlock(text_of(each.get("id")), text_of(each.get("name")), arguments)
            case kind if kind.endswith("_tool_result"):
                text = msgspec.json.encode(each.get("content")).decode()[:20_000]
                return ServerToolResultBlock(text_of(each.get("tool_use_id")), text)
            case kind:
                return made.unknown_form(kind or "block", part)


def _parts(content: object) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content)


def _usage(given: dict[str, Any]) -> Usage:
    """Return the tokens of a reply, whose input comes in three parts."""
    cached, written = (number_of(given.get(f"cache_{name}_input_tokens")) for name in ("read", "creation"))
    return Usage(
        number_of(given.get("input_tokens")) + cached + written, number_of(given.get("output_tokens")), cached, written
    )
