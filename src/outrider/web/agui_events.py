"""Events of a run as those of AG-UI (https://docs.ag-ui.com): messages, reasoning and calls that begin and end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from outrider.coding.remote.questions import json_text
from outrider.log.questions import ElicitationQuestion, Question

Json = dict[str, Any]
_CUSTOM = ("notice", "retrying", "tool_progress", "compaction_started", "compacted", "model_switched", "handed_off")
"""Events that AG-UI has no name for. They are CUSTOM, with their own names."""


class AgUiEvents:
    """Translates the events of one run. What begins also ends, whatever the run does."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._count = 0
        self._text = self._reasoning = ""
        """The ids of the messages that are open."""
        self._said = ""
        """The id of the text of this reply, to which its calls belong."""
        self._calls: set[str] = set()
        self._seen: set[str] = set()

    def of(self, event: Json) -> Iterator[Json]:
        """Yield the events for one of ours."""
        match event:
            case {"type": "text_delta", "text": str(text)} if text:
                yield from self._say(text)
            case {"type": "thinking_delta", "text": str(text)} if text:
                yield from self._think(text)
            case {"type": "tool_call_delta", "call_id": str(id), "name": str(name), "arguments": str(arguments)}:
                yield from self._call(id, name, arguments)
            case {"type": "message_added", "message": {"role": "assistant", "content": list(blocks)}}:
                yield from self._added(blocks)
            case {"type": "tool_finished", "call_id": str(id), "result": dict(result)}:
                content = "\n".join(each.get("text", "") for each in result.get("content", ()) if "text" in each)
                name = self._new_id()
                yield _event("TOOL_CALL_RESULT", messageId=name, toolCallId=id, content=content, role="tool")
            case {"type": "reply_discarded"}:
                yield from self.end()
                yield _event("CUSTOM", name="reply_discarded", value=event)
            case {"type": str(kind)} if kind in _CUSTOM:
                yield _event("CUSTOM", name=kind, value=event)

    def end(self) -> Iterator[Json]:
        """End the messages and calls that are open."""
        if self._reasoning:
            yield _event("REASONING_MESSAGE_END", messageId=self._reasoning)
            yield _event("REASONING_END", messageId=self._reasoning)
        if self._text:
            yield _event("TEXT_MESSAGE_END", messageId=self._text)
        for each in sorted(self._calls):
            yield _event("TOOL_CALL_END", toolCallId=each)
        self._text = self._reasoning = ""
        self._calls.clear()

    def _new_id(self) -> str:
        self._count += 1
        return f"{self._run}-{self._count}"

    def _say(self, text: str) -> Iterator[Json]:
        if not self._text:
            yield from self.end()
            self._text = self._said = self._new_id()
            yield _event("TEXT_MESSAGE_START", messageId=self._text, role="assistant")
        self._seen.add("text")
        yield _event("TEXT_MESSAGE_CONTENT", messageId=self._text, delta=text)

    def _think(self, text: str) -> Iterator[Json]:
        if not self._reasoning:
            yield from self.end()
            self._reasoning = self._new_id()
            yield _event("REASONING_START", messageId=self._reasoning)
            yield _event("REASONING_MESSAGE_START", messageId=self._reasoning, role="reasoning")
        yield _event("REASONING_MESSAGE_CONTENT", messageId=self._reasoning, delta=text)

    def _call(self, id: str, name: str, arguments: str) -> Iterator[Json]:
        if id not in self._seen:
            if not self._calls:
                yield from self.end()
            self._calls.add(id)
            self._seen.add(id)
            parent = {"parentMessageId": self._said} if self._said else {}
            yield _event("TOOL_CALL_START", toolCallId=id, toolCallName=name, **parent)
        if arguments:
            yield _event("TOOL_CALL_ARGS", toolCallId=id, delta=arguments)

    def _added(self, blocks: list[Json]) -> Iterator[Json]:
        """A reply is complete. Of a model that sends no deltas, all of it comes now."""
        for block in blocks:
            if block.get("type") == "text" and "text" not in self._seen:
                yield from self._say(str(block["text"]))
            elif block.get("type") == "tool_use" and block["id"] not in self._seen:
                yield from self._call(str(block["id"]), str(block["name"]), json_text(block.get("input") or {}))
        yield from self.end()
        self._seen.clear()
        self._said = ""


def _event(kind: str, **fields: Any) -> Json:
    return {"type": kind, **fields}


def interrupt(question: Question) -> Json:
    """Return a question as an interrupt, with the schema of its answer."""
    body = question.body
    kind = {"permission": "tool_approval", "plan": "plan_approval"}.get(str(body.__struct_config__.tag), "input")
    properties: Json = {"option": {"enum": [each.id for each in body.options]}, "words": {"type": "string"}}
    if body.schema:
        properties["content"] = body.schema
    return {
        "id": question.id,
        "reason": kind,
        "message": question.text,
        **({"toolCallId": question.call_id} if question.call_id else {}),
        "responseSchema": {"type": "object", "properties": properties, "required": ["option"]},
        "metadata": {
            "options": [{"id": each.id, "label": each.label, "allows": each.allows} for each in body.options],
            **({"url": body.url} if isinstance(body, ElicitationQuestion) and body.url else {}),
        },
    }
