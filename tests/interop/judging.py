"""What a client must have seen, whichever client it was."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.interop.scenes import EDITED, NOTES, SAID, Stage

Json = dict[str, Any]
FINAL = ("completed", "failed")


def words(updates: Iterable[Json]) -> str:
    """What the model said."""
    said = (each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk")
    return "".join(said)


def calls(updates: Iterable[Json]) -> dict[str, Json]:
    """The calls as a client shows them in the end, merged by the specification: each announced once, ended once."""
    known: dict[str, Json] = {}
    for update in updates:
        if update["sessionUpdate"] not in ("tool_call", "tool_call_update"):
            continue
        call_id = update["toolCallId"]
        is_new = update["sessionUpdate"] == "tool_call"
        assert is_new == (call_id not in known), f"{call_id} was announced twice, or never: {update}"
        before = known.setdefault(call_id, {})
        assert before.get("status") not in FINAL, f"{call_id} was over: {update}"
        before |= {key: value for key, value in update.items() if value is not None and key != "sessionUpdate"}
    return known


def text_of(call: Json) -> str:
    """The text that a call shows, in its content or appended to its terminal."""
    shown = (item["content"]["text"] for item in call.get("content", ()) if item["type"] == "content")
    return "".join(shown)


def appended(updates: Iterable[Json]) -> str:
    """The output that came in pieces, for clients that take them."""
    metas = (update.get("_meta") or {} for update in updates)
    return "".join(meta["terminal_output"]["data"] for meta in metas if "terminal_output" in meta)


def is_introduced(report: Json) -> None:
    """The agent says who it is and what it can do."""
    assert report["protocolVersion"] == 1
    assert report["agentInfo"]["name"] == "outrider"
    can = report["agentCapabilities"]
    assert can["loadSession"] is True
    assert can["promptCapabilities"]["image"] is True


def is_streamed(report: Json) -> None:
    """The text came in pieces; that the first came before the rest was there is seen by the release of the server."""
    assert report["stop"] == "end_turn"
    assert words(report["updates"]) == SAID
    assert sum(each["sessionUpdate"] == "agent_message_chunk" for each in report["updates"]) >= 2


def has_read(report: Json, project: Path) -> None:
    """A tool call from its announcement to its end, and the answer."""
    assert report["stop"] == "end_turn"
    [call] = calls(report["updates"]).values()
    assert (call["kind"], call["status"], call["title"]) == ("read", "completed", "Read(notes.txt)")
    assert [place["path"] for place in call["locations"]] == [str(project / "notes.txt")]
    assert "The first line." in text_of(call)
    assert "notes.txt" in words(report["updates"])


def is_edited(report: Json, project: Path) -> None:
    """The person was shown the difference, said yes, and has it."""
    assert report["stop"] == "end_turn"
    call = calls(report["updates"])["toolu_edit"]
    assert (call["kind"], call["status"]) == ("edit", "completed")
    [difference] = [item for item in call["content"] if item["type"] == "diff"]
    assert difference["path"] == str(project / "notes.txt")
    assert (difference["oldText"].strip("\n"), difference["newText"].strip("\n")) in (
        (NOTES.strip("\n"), EDITED.strip("\n")),
        ("The second line.", "The line that was changed."),
    ), "the changed region, with or without the lines around it"
    if "permissions" in report:
        _was_asked(report["permissions"], "toolu_edit", difference)
    assert report.get("file", EDITED) == EDITED
    assert words(report["updates"]).endswith("It is changed.")


def is_refused(report: Json, project: Path) -> None:
    """The person said no: the call has failed, the turn is over, and the file is as it was."""
    assert report["stop"] == "end_turn"
    call = calls(report["updates"])["toolu_again"]
    assert call["status"] == "failed"
    assert "not want" in text_of(call)
    if "permissions" in report:
        _was_asked(report["permissions"], "toolu_again")
    assert (project / "notes.txt").read_text() == EDITED


def _was_asked(permissions: list[Json], id: str, difference: Json | None = None) -> None:
    [question] = permissions
    assert question["toolCall"]["toolCallId"] == id
    kinds = [option["kind"] for option in question["options"]]
    assert kinds[0] == "allow_once"
    assert kinds[-2:] == ["reject_once", "reject_always"]
    if difference:
        assert difference in question["toolCall"]["content"]


def was_shown_a_picture(report: Json, stage: Stage) -> None:
    """The picture reached the model as the client gave it."""
    assert report["stop"] == "end_turn"
    asked = stage.server.requests[-1].json["messages"][-1]["content"]
    [picture] = [block for block in asked if block["type"] == "image"]
    assert picture["source"]["data"] == stage.play["picture"]
    assert picture["source"]["media_type"] == "image/png"


async def is_cancelled(report: Json, stage: Stage) -> None:
    """The turn ended as cancelled, the call as failed, and the command for good."""
    assert report["stop"] == "cancelled"
    [call] = calls(report["updates"]).values()
    assert call["status"] == "failed"
    await stage.has_ended()


def was_seen_running(report: Json) -> None:
    """The output came before the end of the call."""
    *earlier, last = [each for each in report["updates"] if each["sessionUpdate"] == "tool_call_update"]
    assert last["status"] == "failed"
    assert "started" in "".join(map(text_of, earlier)) + appended(earlier)


def is_delegated(report: Json) -> None:
    """The calls of a sub-agent name the call that started it."""
    assert report["stop"] == "end_turn"
    shown = calls(report["updates"])
    [task] = [call for call in shown.values() if call["title"].startswith("Task(")]
    inner = [call for call in shown.values() if "claudeCode" in (call.get("_meta") or {})]
    assert inner
    assert {call["_meta"]["claudeCode"]["parentToolUseId"] for call in inner} == {task["toolCallId"]}
    assert {call["status"] for call in shown.values()} == {"completed"}
    assert "Read(notes.txt)" in text_of(task)


def is_the_same(loaded: Iterable[Json], *live: Iterable[Json]) -> None:
    """A session that is loaded looks as it looked when it happened."""
    before = [update for updates in live for update in updates]
    after = list(loaded)
    assert words(after) == words(before)
    assert calls(after) == calls(before)
    assert all(call["status"] in FINAL for call in calls(after).values())


def met(left: Json, right: Json) -> None:
    """Two sessions at work at the same moment: each waited for the other, and heard its own updates only."""
    for report, said in ((left, "left met right"), (right, "right met left")):
        assert report["stop"] == "end_turn"
        [call] = calls(report["updates"]).values()
        assert call["status"] == "completed"
        assert said in text_of(call) + appended(report["updates"])


def is_untouched(project: Path) -> None:
    """Nothing was changed so far."""
    assert (project / "notes.txt").read_text() == NOTES
