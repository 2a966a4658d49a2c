"""What an editor shows of a session: updates merged as the draft of version 2 wants it.

Fails at once on what no editor could make sense of: a change after the end of a call, output after the exit of a
terminal, or work that is told while the session rests.
"""

from __future__ import annotations

import base64
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
FINAL = ("completed", "failed", "cancelled")
_WHOLE = {"user_message": "user", "agent_message": "agent", "agent_thought": "thought"}
_CHUNKS = {f"{kind}_chunk": who for kind, who in _WHOLE.items()}
_RANK = {"pending": 0, "in_progress": 1, "completed": 2, "failed": 2, "cancelled": 2}
_EMPTY = {"title": "", "name": "", "kind": "other", "status": "pending", "content": [], "locations": []}


class SeenV2:
    """One session as it is on the screen."""

    def __init__(self) -> None:
        self.updates: list[Json] = []
        self.order: list[tuple[str, str]] = []
        """What stands on the screen, from above: who says a message, or a call, and its id."""
        self.messages: dict[tuple[str, str], list[Json]] = {}
        self.calls: dict[str, Json] = {}
        self.terminals: dict[str, Json] = {}
        self.states: list[Json] = []
        self.plans: dict[str, list[Json]] = {}
        self.options: list[Json] = []
        self.notices: list[str] = []
        self.title = ""

    @property
    def state(self) -> str:
        """Whether it works; a new session rests."""
        return str(self.states[-1]["state"]) if self.states else "idle"

    @property
    def stops(self) -> list[str]:
        """How each piece of work ended."""
        return [state["stopReason"] for state in self.states if "stopReason" in state]

    def kinds(self) -> list[str]:
        """The kinds of updates in their order."""
        return [update["sessionUpdate"] for update in self.updates]

    def of_call(self, call_id: str) -> list[Json]:
        """The updates of one call."""
        return [update for update in self.updates if update.get("toolCallId") == call_id]

    def text(self, who: str = "agent") -> str:
        """All that one side said."""
        blocks = [block for each in self.order if each[0] == who for block in self.messages[each]]
        return "".join(block.get("text", "") for block in blocks)

    def output(self, terminal: str) -> bytes:
        """What was printed."""
        return bytes(self.terminals[terminal]["output"])

    def take(self, update: Json) -> None:
        """One more."""
        self.updates.append(update)
        kind = update["sessionUpdate"]
        if kind in _WHOLE or kind in _CHUNKS:
            self._say(update)
        elif kind in ("tool_call_update", "tool_call_content_chunk"):
            self.patch_call(update)
        elif kind in ("terminal_update", "terminal_output_chunk"):
            self._patch_terminal(update)
        else:
            self._know(kind, update)

    def patch_call(self, update: Json) -> None:
        """A change of a call, as an update or as what a question is about."""
        call_id = update["toolCallId"]
        is_new = call_id not in self.calls
        if is_new:
            assert update["sessionUpdate"] == "tool_call_update", f"content for a call that nobody knows: {update}"
            assert update.get("title"), f"announced without a title: {update}"
            self.order.append(("call", call_id))
            self.calls[call_id] = dict(_EMPTY)
        call = self.calls[call_id]
        assert call["status"] not in FINAL, f"a change of a call that is over: {update}"
        if update.get("sessionUpdate") == "tool_call_content_chunk":
            call["content"] = [*call["content"], update["content"]]
            return
        fields = {name: value for name, value in update.items() if name not in ("sessionUpdate", "toolCallId")}
        assert fields, f"it says nothing: {update}"
        for name, value in fields.items():
            assert is_new or value is None or call.get(name) != value, f"{name} is known: {update}"
        assert _RANK[fields.get("status", call["status"])] >= _RANK[call["status"]], f"backwards: {update}"
        self.calls[call_id] = call | {name: _EMPTY.get(name) if v is None else v for name, v in fields.items()}

    def _patch_terminal(self, update: Json) -> None:
        name = update["terminalId"]
        known = self.terminals.get(name)
        if update["sessionUpdate"] == "terminal_output_chunk":
            assert known, f"output for a terminal that nobody knows: {update}"
            assert "exitStatus" not in known, f"output after the exit: {update}"
            known["output"] += base64.b64decode(update["data"], validate=True)
            return
        assert known is None or "exitStatus" not in known, f"a change of a terminal that is over: {update}"
        fields = {key: value for key, value in update.items() if key not in ("sessionUpdate", "terminalId")}
        if "output" in fields:
            fields["output"] = base64.b64decode(fields["output"]["data"], validate=True)
        self.terminals[name] = {"output": b""} | (known or {}) | fields

    def _say(self, update: Json) -> None:
        kind = update["sessionUpdate"]
        key = (_WHOLE.get(kind) or _CHUNKS[kind], update["messageId"])
        if key not in self.messages:
            self.order.append(key)
        if kind in _CHUNKS:
            self.messages[key] = _appended(self.messages.get(key, []), update["content"])
        elif "content" in update:
            self.messages[key] = update["content"] or []

    def _know(self, kind: str, update: Json) -> None:
        match kind:
            case "state_update":
                if update["state"] == "requires_action":
                    assert self.state == "running", "only work can be blocked"
                self.states.append(update)
            case "plan_update":
                self.plans[update["plan"]["planId"]] = update["plan"]["entries"]
            case "config_option_update":
                self.options = update["configOptions"]
            case "session_info_update":
                self.title = update["title"]
            case "notice":
                self.notices.append(update["title"])
            case "available_commands_update" | "usage_update":
                pass
            case _:
                raise AssertionError(f"an update of an unknown kind: {kind}")

    def lasting(self) -> Json:
        """What must look the same when the session is resumed; what was discarded is gone."""
        shown = [key for key in self.order if key[0] == "call" or self.messages[key]]
        apart = [key for key in shown if key[1].startswith("apart-")]
        return {
            "messages": [(key, self.messages.get(key)) for key in shown if key not in apart],
            "calls": self.calls,
            "terminals": self.terminals,
            "plans": self.plans,
        }


def _appended(content: list[Json], block: Json) -> list[Json]:
    """Text goes on where text ended: how it was cut is of no matter."""
    if content and block["type"] == content[-1]["type"] == "text":
        return [*content[:-1], {"type": "text", "text": content[-1]["text"] + block["text"]}]
    return [*content, block]
