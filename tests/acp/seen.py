"""What an editor shows of a session: updates merged as the specification of version 1 wants it.

Fails at once on what no editor could make sense of: a change of a call that was not announced, or one after its end.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from outrider.text.terminal import rendered

Json: TypeAlias = dict[str, Any]
FINAL = ("completed", "failed")
_SAID = {"user_message_chunk": "user", "agent_message_chunk": "agent", "agent_thought_chunk": "thought"}
_RANK = {"pending": 0, "in_progress": 1, "completed": 2, "failed": 2}


class Seen:
    """One session as it is on the screen."""

    def __init__(self) -> None:
        self.updates: list[Json] = []
        self.calls: dict[str, Json] = {}
        """Each call, with all its fields as they are now; the order is that of the announcements."""
        self.terminals: dict[str, str] = {}
        """What was appended, by terminal."""
        self.exits: dict[str, Any] = {}
        self.parents: dict[str, str] = {}
        """The call that started the sub-agent, by call of a sub-agent."""
        self.transcript: list[tuple[str, Any]] = []
        """What stands on the screen, from above: what was said, in one piece until something else comes, and calls."""
        self.plan: list[Json] = []
        self.commands: list[str] = []
        self.notices: list[str] = []
        self.compactions: dict[str, Json] = {}
        self.usage: Json = {}
        self.title = ""
        self.mode = ""
        self.options: list[Json] = []

    def kinds(self) -> list[str]:
        """The kinds of updates in their order."""
        return [update["sessionUpdate"] for update in self.updates]

    def of_call(self, call_id: str) -> list[Json]:
        """The updates of one call."""
        return [update for update in self.updates if update.get("toolCallId") == call_id]

    def call(self, title: str) -> Json:
        """The one call whose title begins so."""
        (found,) = (call for call in self.calls.values() if call["title"].startswith(title))
        return found

    def text(self, who: str = "agent") -> str:
        """All that one side said."""
        return "".join(said for speaker, said in self.transcript if speaker == who and isinstance(said, str))

    @property
    def open_calls(self) -> list[str]:
        """Calls without an end."""
        return [call["title"] for call in self.calls.values() if call["status"] not in FINAL]

    def take(self, update: Json) -> None:
        """One more."""
        self.updates.append(update)
        kind = update["sessionUpdate"]
        if kind in _SAID:
            self.say(_SAID[kind], update["content"])
        elif kind == "tool_call":
            assert update["toolCallId"] not in self.calls, f"announced twice: {update}"
            self.calls[update["toolCallId"]] = {"kind": "other", "status": "pending", "content": [], "locations": []}
            self.transcript.append(("call", update["toolCallId"]))
            if parent := update.get("_meta", {}).get("claudeCode"):
                assert parent["parentToolUseId"] in self.calls, f"its parent is not known: {update}"
                self.parents[update["toolCallId"]] = parent["parentToolUseId"]
            self._merge(update)
        elif kind == "tool_call_update":
            self._merge(update)
        else:
            self._know(kind, update)

    def ask(self, call: Json) -> None:
        """A permission question: about a call that is known and not over, of which it says what is known already."""
        known = self.calls.get(call["toolCallId"])
        assert known, f"asked about a call that was not announced: {call}"
        assert known["status"] not in FINAL, f"asked about a call that is over: {call}"
        for name, value in call.items():
            assert known[name] == value, f"the question has another {name} than was told: {value}, {known.get(name)}"

    def _know(self, kind: str, update: Json) -> None:
        match kind:
            case "plan":
                self.plan = update["entries"]
            case "available_commands_update":
                self.commands = [command["name"] for command in update["availableCommands"]]
            case "current_mode_update":
                self.mode = update["currentModeId"]
            case "config_option_update":
                self.options = update["configOptions"]
            case "session_info_update":
                self.title = update["title"]
            case "usage_update":
                self.usage = update
            case "notice":
                self.notices.append(update["title"])
            case "compaction_update":
                known = self.compactions.setdefault(update["compactionId"], {})
                assert known.get("status") in (None, "in_progress"), f"after its end: {update}"
                known |= update
            case _:
                raise AssertionError(f"an update of an unknown kind: {kind}")

    def say(self, who: str, content: Json) -> None:
        """More words of the person or the model."""
        if content["type"] != "text":
            self.transcript.append((who, content))
        elif self.transcript and self.transcript[-1][0] == who and isinstance(self.transcript[-1][1], str):
            self.transcript[-1] = (who, self.transcript[-1][1] + content["text"])
        else:
            self.transcript.append((who, content["text"]))

    def _merge(self, update: Json) -> None:
        call = self.calls.get(update["toolCallId"])
        assert call is not None, f"a change of a call that was not announced: {update}"
        assert call["status"] not in FINAL, f"a change of a call that is over: {update}"
        fields = {name: value for name, value in update.items() if name not in ("sessionUpdate", "_meta")}
        assert None not in fields.values(), f"null says nothing: {update}"
        before = call["status"]
        call |= fields
        assert _RANK[call["status"]] >= _RANK[before], f"a call went backwards: {update}"
        self._append(update.get("_meta", {}))

    def _append(self, meta: Json) -> None:
        if info := meta.get("terminal_info"):
            self.terminals.setdefault(info["terminal_id"], "")
        if output := meta.get("terminal_output"):
            self.terminals[output["terminal_id"]] += output["data"]
        if ending := meta.get("terminal_exit"):
            assert ending["terminal_id"] in self.terminals, "an exit of a terminal that nobody knows"
            self.exits[ending["terminal_id"]] = ending["exit_code"]

    def lasting(self) -> Json:
        """What must look the same when the session is loaded again."""
        printed = {name: rendered(text).rstrip() for name, text in self.terminals.items()}
        return {
            "transcript": self.transcript,
            "calls": self.calls,
            "plan": self.plan,
            "terminals": printed,
            "exits": self.exits,
            "parents": self.parents,
        }


def diff_at(line: int, path: Any, old: str, new: str) -> Json:
    """A changed region of a file, as it is sent."""
    meta = {"outrider": {"line": line}}
    return {"type": "diff", "path": str(path), "oldText": old, "newText": new, "_meta": meta}
