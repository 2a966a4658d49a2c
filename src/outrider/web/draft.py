"""What a session does right now and the log does not have yet: the growing reply, and the output of running calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.text.terminal import rendered
from outrider.text.visible import safe_lines
from outrider.web.markdown_nodes import Node, render

Json = dict[str, Any]
MAX_OUTPUT = 8_000
"""Characters of a call's output that are kept; the end is what people watch."""
MAX_THINKING = 2_000
_NOTICES = {
    "retrying": "The request failed; trying again…",
    "compaction_started": "Compacting the conversation…",
    "goal_check_started": "Checking the goal…",
}
_WITH_ENTRIES = (
    *("message_added", "tool_started", "tool_finished", "run_finished", "subagent_started", "compacted"),
    "goal_checked",
)


class Draft:
    """The state of a run, built from its events."""

    def __init__(self) -> None:
        self.is_working = False
        self._text = ""
        self._thinking = ""
        self._prepared: dict[str, str] = {}
        """The names of calls whose arguments are being written, by call id."""
        self._outputs: dict[str, str] = {}
        self._notice = ""
        self._rendered: tuple[str, list[Node]] = ("", [])

    def apply(self, event: Mapping[str, Any]) -> bool:
        """Apply an event. Return whether it also made entries in the log."""
        kind, text = event.get("type"), str(event.get("text") or "")
        match kind:
            case "text_delta":
                self._text += text
            case "thinking_delta":
                self._thinking += text
            case "tool_call_delta":
                self._prepared[str(event["call_id"])] = str(event["name"])
            case "tool_progress":
                self._add_output(str(event["call_id"]), event.get("content"))
            case "tool_finished":
                self._outputs.pop(str(event["call_id"]), None)
            case "reply_discarded" | "message_added" | "turn_started" | "run_finished":
                self._forget_reply()
            case "notice" | "retrying" | "compaction_started" | "goal_check_started":
                self._notice = text or _NOTICES.get(str(kind), "")
        self.is_working = self.is_working if kind == "session" else kind != "run_finished"
        return kind in _WITH_ENTRIES

    def _forget_reply(self) -> None:
        self._text = self._thinking = self._notice = ""
        self._prepared.clear()

    def _add_output(self, call_id: str, content: object) -> None:
        more = content.get("output") if isinstance(content, dict) else content
        if isinstance(more, str):
            ending = "" if isinstance(content, dict) else "\n"
            self._outputs[call_id] = f"{self._outputs.get(call_id, '')}{more}{ending}"[-MAX_OUTPUT:]

    def fields(self) -> Json:
        """Return the state as the page shows it."""
        if self._rendered[0] != self._text:
            self._rendered = self._text, render(self._text)
        return {
            "working": self.is_working,
            "nodes": self._rendered[1],
            "thinking": safe_lines(self._thinking[-MAX_THINKING:]),
            "prepared": [safe_lines(name) for name in self._prepared.values()],
            "outputs": {call_id: safe_lines(rendered(output)) for call_id, output in self._outputs.items()},
            "notice": safe_lines(self._notice),
        }


def difference(before: Json, after: Json) -> Json:
    """Return what changed, for a page that has the state before. Of the nodes, only those from the first that differs.

    >>> difference({"nodes": ["a", "b"], "notice": ""}, {"nodes": ["a", "c"], "notice": ""})
    {'keep': 1, 'nodes': ['c']}
    """
    changed = {name: value for name, value in after.items() if name != "nodes" and before.get(name) != value}
    old, new = before.get("nodes", []), after["nodes"]
    if old != new:
        pairs = zip(old, new, strict=False)
        keep = next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))
        changed |= {"keep": keep, "nodes": new[keep:]}
    return changed
