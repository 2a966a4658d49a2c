"""Sessions as trajectories in ATIF, judged by the schema of Harbor 0.25 (made from its models)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from outrider import Agent, Attachment, Log, Session, Usage
from outrider.conversation.messages import Message
from outrider.errors import LogError
from outrider.log.atif import trajectory
from outrider.messages import ThinkingBlock
from outrider.providers.base import Reply
from outrider.subagents.delegation import with_subagents
from outrider.subagents.profile import Profile
from outrider.testing import ScriptedModel, call
from tests.cli.program import outrider

SCHEMA = json.loads((Path(__file__).parent / "atif-1.8.json").read_text())
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


def check(found: dict[str, Any]) -> None:
    """Check what the schema says, and what Harbor's models check beyond it."""
    jsonschema_rs.Draft202012Validator(SCHEMA).validate(found)
    assert [step["step_id"] for step in found["steps"]] == list(range(1, len(found["steps"]) + 1))
    embedded = {child["trajectory_id"] for child in found.get("subagent_trajectories", ())}
    for step in found["steps"]:
        if step["source"] != "agent":
            assert not {"model_name", "reasoning_content", "tool_calls", "metrics"} & step.keys()
        calls = {each["tool_call_id"] for each in step.get("tool_calls", ())}
        for result in step.get("observation", {"results": ()})["results"]:
            assert result["source_call_id"] in calls
            assert {each["trajectory_id"] for each in result.get("subagent_trajectory_ref", ())} <= embedded
    for child in found.get("subagent_trajectories", ()):
        check(child)


def look(at: str) -> Any:
    "Look at something."
    if at == "nothing":
        raise ValueError("there is nothing")
    return [f"{at} is fine", Attachment(PNG, name=f"{at}.png")]


async def test_a_session_is_a_trajectory(tmp_path: Path) -> None:
    thought = Reply(Message.assistant(ThinkingBlock("Hm."), "Done."), usage=Usage(9, 3, 4, cost=0.5))
    script: list[Any] = [[call("look", at="a"), call("look", at="nothing")], thought, "A summary.", "Again."]
    with Log(tmp_path) as log:
        agent = Agent(ScriptedModel(script, usage=Usage(5, 2, 1, cost=0.25)), tools=[look], system="Be kind.")
        async with Session.open(log, agent=agent) as session:
            await session.run(["Look", Attachment(PNG, name="z.png")])
            await session.compact()
            await session.run("Once more")
        found = trajectory(log, session.id)
    check(found)
    assert found["session_id"] == session.id
    assert [step["source"] for step in found["steps"]] == [
        "system",
        "user",
        "agent",
        "agent",
        "system",
        "user",
        "agent",
    ]
    system, asked, calls, done, compacted, *_ = found["steps"]
    assert (system["message"], compacted["extra"]) == ("Be kind.", {"compaction": True})
    assert asked["message"].startswith("Look\n[file z.png, image/png, sha256 ")
    assert [each["arguments"] for each in calls["tool_calls"]] == [{"at": "a"}, {"at": "nothing"}]
    fine, failed = calls["observation"]["results"]
    assert fine["content"].startswith("a is fine\n[file a.png")
    assert (failed["extra"], "there is nothing" in failed["content"]) == ({"is_error": True}, True)
    assert (done["message"], done["reasoning_content"]) == ("Done.", "Hm.")
    assert done["metrics"] == {"prompt_tokens": 9, "completion_tokens": 3, "cached_tokens": 4, "cost_usd": 0.5}
    assert found["agent"]["tool_definitions"][0]["function"]["name"] == "look"
    assert found["final_metrics"]["total_steps"] == 7


async def test_sub_agents_are_embedded_where_they_were_called(tmp_path: Path) -> None:
    helper = Profile(name="Helper", description="Helps.", model=ScriptedModel(lambda _: "I helped."))
    task = call("Task", description="help", prompt="Help me", subagent_type="Helper")
    with Log(tmp_path) as log:
        agent = with_subagents(Agent(ScriptedModel([task, "Thanks."])), [helper])
        async with Session.open(log, agent=agent) as session:
            await session.run("Go")
        found = trajectory(log, session.id)
    check(found)
    (child,) = found["subagent_trajectories"]
    assert child["steps"][-1]["message"] == "I helped."
    (result,) = next(step for step in found["steps"] if "observation" in step)["observation"]["results"]
    assert result["subagent_trajectory_ref"][0]["trajectory_id"] == child["trajectory_id"]


def test_the_command_writes_it_and_an_empty_session_has_none(tmp_path: Path) -> None:
    home = {"OUTRIDER_HOME": str(tmp_path / "home")}
    assert outrider("-p", "What is 2+2?", "--model", "demo", cwd=tmp_path, **home).returncode == 0
    with Log(tmp_path / "home" / "sessions") as log:
        (summary,) = log.sessions()
        empty = Session.open(log, agent=Agent("demo")).now()
        empty.close()
        with pytest.raises(LogError, match="has no messages; there is no trajectory"):
            trajectory(log, empty.id)
    ended = outrider("sessions", "export", summary.id, "--format", "atif", cwd=tmp_path, **home)
    assert ended.returncode == 0, ended.stderr
    check(json.loads(ended.stdout))
