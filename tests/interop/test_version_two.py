"""The official TypeScript SDK as a client of the draft of version 2, with the real agent."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import run
from tests.interop import judging
from tests.interop.judging import words
from tests.interop.scenes import EDITED, SAID, Stage

HERE = Path(__file__).parent
pytestmark = pytest.mark.timeout(300)
Json = dict[str, Any]
FINAL = ("completed", "failed", "cancelled")


async def test_an_editor_on_the_draft_of_version_two_works_with_outrider(npm_clients: Path, stage: Stage) -> None:
    if _version(stage) != 2:
        pytest.skip("version 2 not tested: `outrider acp --v2` does not answer with it yet")
    seen = await stage.drive("node", str(HERE / "sdk_v2.mjs"), INTEROP_CLIENTS=str(npm_clients))
    assert seen["introduced"]["protocolVersion"] == 2
    _has_read(seen["read"], stage.project)
    assert (seen["streamed"]["stop"], words(seen["streamed"]["updates"])) == ("end_turn", SAID)
    _is_edited(seen["allowed"], stage.project)
    _is_refused(seen["rejected"], stage.project)
    judging.was_shown_a_picture(seen["picture"], stage)
    assert seen["cancelled"]["stop"] == "cancelled"
    [call] = calls(seen["cancelled"]["updates"]).values()
    assert call["status"] == "cancelled"
    await judging.has_ended(stage.project)
    for name in ("left", "right"):
        [call] = calls(seen[name]["updates"]).values()
        assert (seen[name]["stop"], call["status"]) == ("end_turn", "completed")
        assert f"{name} met" in printed(seen[name]["updates"]) + json.dumps(call.get("content", ()))
    live = [update for scene in ("streamed", "allowed", "rejected", "picture") for update in seen[scene]["updates"]]
    assert words(seen["loaded"]["updates"]) == words(live)
    assert calls(seen["loaded"]["updates"]) == calls(live)
    _has_read(seen["resumed"], stage.project)
    assert not {"agent_message_chunk", "tool_call_update"} & set(seen["resumed"]["replayed"])
    assert (seen["closed"]["exit"], seen["ended"]["exit"]) == (0, 0)


def _version(stage: Stage) -> int:
    params = {"protocolVersion": 2, "info": {"name": "interop", "version": "1"}, "capabilities": {}}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode() + b"\n"
    ended = run("acp", "--v2", input=hello, stdout=-1, stderr=-1, env=stage.environment)
    return int(json.loads(ended.stdout)["result"]["protocolVersion"])


def calls(updates: Iterable[Json]) -> dict[str, Json]:
    """The calls as a client shows them in the end: what is absent stays, null clears, chunks are appended."""
    known: dict[str, Json] = {}
    for update in updates:
        if update["sessionUpdate"] == "tool_call_update":
            call = known.setdefault(update["toolCallId"], {})
            assert call.get("status") not in FINAL, f"it was over: {update}"
            call |= {key: value for key, value in update.items() if key != "sessionUpdate"}
        elif update["sessionUpdate"] == "tool_call_content_chunk":
            call = known[update["toolCallId"]]
            assert call.get("status") not in FINAL, f"it was over: {update}"
            call["content"] = [*(call.get("content") or ()), update["content"]]
    return known


def printed(updates: Iterable[Json]) -> str:
    """What the terminals of a turn have shown."""
    pieces = [base64.b64decode(each["data"]) for each in updates if each["sessionUpdate"] == "terminal_output_chunk"]
    return b"".join(pieces).decode()


def _has_read(report: Json, project: Path) -> None:
    assert report["stop"] == "end_turn"
    assert report["messageId"]
    [call] = calls(report["updates"]).values()
    assert (call["kind"], call["status"], call["title"]) == ("read", "completed", "Read(notes.txt)")
    assert [place["path"] for place in call["locations"]] == [str(project / "notes.txt")]


def _is_edited(report: Json, project: Path) -> None:
    assert report["stop"] == "end_turn"
    call = calls(report["updates"])["toolu_edit"]
    assert call["status"] == "completed"
    [difference] = [item for item in call["content"] if item["type"] == "diff"]
    assert [change["path"] for change in difference["changes"]] == [str(project / "notes.txt")]
    assert "-The second line." in difference["patch"]["text"]
    assert "+The line that was changed." in difference["patch"]["text"]
    [question] = report["permissions"]
    assert question["subject"]["toolCall"]["toolCallId"] == "toolu_edit"
    assert question["options"][0]["kind"] == "allow_once"
    assert report["file"] == EDITED


def _is_refused(report: Json, project: Path) -> None:
    assert report["stop"] == "end_turn"
    assert calls(report["updates"])["toolu_again"]["status"] == "failed"
    assert len(report["permissions"]) == 1
    assert (project / "notes.txt").read_text() == EDITED
