"""Sub-agents in the background, as an editor shows them: their steps live, also after the turn, and loaded."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from outrider import Log, tool
from outrider.acp.turns import replay_session
from outrider.coding.tasks import agent_lines
from outrider.testing import call
from tests.acp.editor import introduced
from tests.acp.seen import Seen
from tests.acp.test_event_translator import Watched
from tests.cli.asking import everywhere
from tests.modelserver import Held, ModelServer, Recorded
from tests.modelserver import Step as Sent
from tests.streams import Answer
from tests.subagents.teams import Team, play, task


def seen_by(watched: Watched) -> Seen:
    """What the editor shows now."""
    watched.engine.flush()
    seen = Seen()
    for line in watched.lines:
        seen.take(json.loads(line)["params"]["update"])
    return seen


class Place:
    """A tool that waits, and a team with one sub-agent that calls it."""

    def __init__(self, log: Log, script: list[Any], child: list[Any]) -> None:
        self.began, self.goes_on = asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        async def hold() -> str:
            """Wait."""
            self.began.set()
            await self.goes_on.wait()
            return "let go"

        @tool(effect="read")
        async def begun() -> str:
            """Return when the sub-agent has called hold."""
            await self.began.wait()
            return "it has"

        self.team = Team(
            play([[task("a", run_in_background=True)], *script], {"a": [[call("hold")], *child]}),
            [hold, begun],
            log=log,
        )
        self.watched = Watched()
        self.team.session.observe(self.watched.translator.handle)

    @property
    def agent(self) -> str:
        """The id of the sub-agent's session."""
        return next(iter(self.team.session.background)).session


async def test_its_steps_are_shown_while_it_works_and_after_the_turn(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        place = Place(log, [[call("begun")], "Meanwhile.", "Thanks."], ["Found it."])
        place.team.session.background.wake = lambda: None  # the turn does not wait for it
        await place.team.run()
        seen = seen_by(place.watched)
        steps, held = seen.calls[place.agent], seen.call("hold")
        (line,) = agent_lines(place.team.session.background)
        assert line.endswith("  running      Helper: do a · 1 call, the newest hold")
        assert (steps["title"], steps["status"]) == ("Task(Helper: do a)", "in_progress")
        assert "… hold" in steps["content"][0]["content"]["text"]
        assert held["status"] == "in_progress"
        assert seen.parents[held["toolCallId"]] == place.agent
        place.goes_on.set()
        await place.team.session.background.wait([place.agent])
        seen = seen_by(place.watched)
        assert seen.calls[place.agent]["status"] == "completed"
        assert [each["content"]["text"] for each in seen.calls[place.agent]["content"]] == [
            "Helper\n✓ hold()",
            "Helper: do a has finished.",
        ]
        assert not seen.open_calls
        await place.team.session.aclose()


async def test_one_that_goes_on_has_a_call_of_its_own_and_loads_as_it_was_shown(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        place: Place
        talks = [lambda _: [call("Task", agent_id=place.agent, prompt="Once more.")], "Meanwhile.", "Done."]
        place = Place(log, ["Meanwhile.", *talks], ["First.", [call("hold")], "Second."])
        place.goes_on.set()
        result = await place.team.run()
        assert (result.status, result.text) == ("done", "Done.")
        seen = seen_by(place.watched)
        assert [seen.calls[name]["status"] for name in (place.agent, f"{place.agent}-2")] == ["completed"] * 2
        assert "✓ hold" in str(seen.calls[f"{place.agent}-2"]["content"])
        loaded = Watched()
        loaded.translator.is_replaying = True
        for event in replay_session(log, place.team.session.id):
            loaded.translator.handle(event)
        assert not seen_by(loaded).open_calls
        assert seen_by(loaded).lasting()["calls"] == seen.lasting()["calls"]
        await place.team.session.aclose()


async def test_the_end_of_the_session_ends_its_call(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        place = Place(log, ["Meanwhile."], ["Never."])
        place.team.session.background.wake = lambda: None
        await place.team.run()
        await place.began.wait()
        place.watched.translator.subagents.close()
        assert not seen_by(place.watched).open_calls
        await place.team.session.aclose()


def answer_in_the_background(request: Recorded) -> Sent:
    """The sub-agent speaks until it is released; the agent starts it, and says what it was told."""
    messages = request.json["messages"]
    if "Task one:" in str(messages[0]):
        return Held(Answer("Words, and then the end."))
    if "has finished" in str(messages[-1]):
        return Answer(f"{request.json['model']} heard of it.")
    given = {"description": "look at one", "prompt": "Task one: do it.", "run_in_background": True}
    return Answer("", (("c1", "Task", given),)) if len(messages) == 1 else Answer("I go on.")


async def test_it_works_on_when_the_model_is_changed(tmp_path: Path) -> None:
    async with (
        ModelServer(answer_in_the_background) as server,
        introduced(**everywhere(server)) as editor,
    ):
        session = await editor.new(tmp_path)
        turn, seen = editor.say(session, "Go"), editor.seen(session)
        await editor.until(lambda: "I go on." in seen.text() and len(server.requests) == 3, "the sub-agent at work")
        editor.tell("session/cancel", sessionId=session)
        assert await editor.answer(turn) == {"stopReason": "cancelled"}
        model = "anthropic/claude-opus-4-5"
        await editor.ask("session/set_config_option", sessionId=session, configId="model", value=model)
        await editor.prompt(session, "/tasks")
        assert "running      General: look at one" in seen.text()
        server.release.set()
        await editor.until(lambda: not seen.open_calls, "the end of the sub-agent")
        await editor.prompt(session, "What came of it?")
        assert seen.text().endswith("claude-opus-4-5 heard of it.")
