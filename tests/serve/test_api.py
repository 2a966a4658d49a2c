"""The API of sessions as an ASGI app: begin, prompt, steer, cancel, answer, read, search and watch."""

from __future__ import annotations

from typing import Any

import pytest

from outrider import Agent
from outrider.conversation.usage import Usage
from outrider.runtime.budget import Budget
from outrider.serve import ServerLimits
from outrider.testing import ScriptedModel, call
from tests.serve.clients import API, client, entries, first, until_released
from tests.serve.counting import counting, refund


async def test_a_session_is_begun_watched_and_read() -> None:
    async with client(counting()) as ada:
        name = (await ada.post("sessions", {"text": "Count to 2", "metadata": {"case": "7"}}))["id"]
        events = await ada.until_done(name)
        shown = entries(events)
        assert [each["seq"] for each in shown] == sorted({each["seq"] for each in shown})
        replies = [each["message"]["content"][0]["text"] for each in entries(events, "message") if each.get("model")]
        assert replies[-1].endswith("Counted to 2.")
        assert "system" not in str(entries(events, "settings"))
        page = await ada.get("sessions", metadata="case=7")
        assert [each["id"] for each in page["sessions"]] == [name]
        messages = (await ada.get(f"sessions/{name}/messages"))["messages"]
        assert messages[-1]["content"][0]["text"].endswith("Counted to 2.")
        await ada.post(f"sessions/{name}/prompt", {"text": "Count to 1"})
        status, found = await ada.ask("GET", f"{API}/sessions/{name}")
        assert (status, found["owner"]) == (200, "ada")


async def test_an_owner_never_reaches_the_sessions_of_another() -> None:
    async with client(counting()) as ada:
        bob = ada.as_user("bob")
        name = (await ada.post("sessions", {"text": "Count to 1, my xylophone"}))["id"]
        await ada.until_done(name)
        assert (await bob.get("sessions"))["sessions"] == []
        assert (await bob.get("sessions", owner="ada"))["sessions"] == []
        assert (await bob.get("sessions", search="xylophone"))["sessions"] == []
        assert len((await ada.get("sessions", search="xylophone"))["sessions"]) == 1
        own = (await bob.post("sessions", {"text": "Count to 0", "owner": "ada"}))["id"]
        assert (await bob.get(f"sessions/{own}"))["owner"] == "bob"
        one = f"{API}/sessions/{name}"
        for path in (
            "",
            "/entries",
            "/entries/1",
            "/messages",
            "/events",
            "/context",
            "/context.csv",
            "/budget",
            f"/files/{'0' * 64}",
        ):
            unknown = await bob.ask("GET", f"{API}/sessions/{'0' * 32}{path}")
            assert (await bob.ask("GET", one + path))[0] == unknown[0] == 404, path
        assert (await bob.ask("GET", f"{API}/events", session=name))[0] == 404
        goal = ("goal", {"command": "true"})
        for path, body in (("prompt", {"text": "1"}), ("steer", {"text": "1"}), ("cancel", None), ("fork", {}), goal):
            assert (await bob.ask("POST", f"{one}/{path}", body))[0] == 404, path
        assert (await bob.ask("GET", f"{API}/sessions/{name[:8]}"))[0] == 404  # nor by a part of its id
        for path in ("facets", "figures/day", f"sessions/{name}/wire/3", "links"):
            assert (await ada.ask("GET", f"{API}/{path}"))[0] == 404  # what all have done, and system prompts
        fork = (await ada.post(f"sessions/{name}/fork", {}))["id"]
        assert (await ada.get(f"sessions/{fork}"))["owner"] == "ada"
        assert (await ada.as_user("").ask("GET", f"{API}/sessions"))[0] == 401


async def test_an_owner_sees_the_own_budget_and_sets_no_goal_without_a_workbench() -> None:
    model = ScriptedModel(["Yes."], usage=Usage(10, 1, cost=0.9))
    async with client(Agent(model, budget=Budget(day=7.0, owner_day=1.0))) as ada:
        name = (await ada.post("sessions", {"text": "Hello"}))["id"]
        await ada.until_done(name)
        (spent,) = (await ada.get(f"sessions/{name}/budget"))["budgets"]  # not what all have spent
        assert spent == {
            "name": "owner_day",
            "cost": 0.9,
            "budget": 1.0,
            "text": "$0.9000 of $1.00 of this owner today (budget.owner_day)",
            "warned": True,
        }
        status, found = await ada.ask("POST", f"{API}/sessions/{name}/goal", {"command": "true"})
        assert (status, found["error"]) == (409, "a goal is a command, which only sessions of the coding agent run")
        assert await ada.post(f"sessions/{name}/prompt", {"text": "Go on"}), "the session can be used"


async def test_a_question_waits_for_its_owner_and_the_session_goes_on_with_the_answer() -> None:
    script = ScriptedModel([call("refund", order=17), "Done."])
    async with client(Agent(script, tools=[refund])) as ada:
        bob = ada.as_user("bob")
        async with ada.events("events") as events, bob.events("events") as others:
            assert (await anext(events)).data == (await anext(others)).data == []
            name = (await ada.post("sessions", {"text": "Refund order 17"}))["id"]
            asked = (await first(events, "questions")).data[0]
            assert asked["session"] == name
            answer = f"{API}/questions/{asked['id']}/answer"
            assert (await bob.get("questions"))["questions"] == []
            assert (await bob.ask("POST", answer, {"option": "once"}))[0] == 404
            assert (await bob.ask("GET", f"{API}/questions/{asked['id']}"))[0] == 404
            wrong = await ada.ask("POST", answer, {"option": "never heard of"})
            assert wrong[0] == 422, wrong
            option = next(each["id"] for each in asked["body"]["options"] if each["allows"])
            assert (await ada.ask("POST", answer, {"option": option}))[1]["first"]
            done = await ada.until_text(name, "Done.")
            assert "refunded 17" in str(entries(done, "tool_finished"))
            decided = entries(done, "decided")[-1]
            assert (decided["by"], decided["allowed"]) == ("ada", True)
            assert "signature" not in decided
            late = await ada.ask("POST", answer, {"option": option})
            assert late[0] == 404 or late[1]["first"] is False


async def test_a_message_steers_the_run_and_cancel_ends_it() -> None:
    async with client(counting(0.05)) as ada:
        name = (await ada.post("sessions", {"text": "Count to 1000"}))["id"]
        async with ada.events(f"sessions/{name}/events") as events:
            async for event in events:
                if event.name == "text_delta":
                    break
            await ada.post(f"sessions/{name}/steer", {"text": "Count to 1001"})
            assert (await ada.ask("POST", f"{API}/sessions/{name}/prompt", {"text": " "}))[0] == 422
            await ada.post(f"sessions/{name}/cancel")
            async for event in events:
                if event.name == "entry" and event.data["kind"] == "run_stopped":
                    assert event.data["status"] == "cancelled"
                    break
        await until_released(ada, name)
        assert (await ada.ask("POST", f"{API}/sessions/{name}/steer", {"text": "1"}))[0] == 409


async def test_what_one_owner_does_at_once_is_limited() -> None:
    limits = ServerLimits(sessions=1, prompts=3, streams=1)
    async with client(counting(0.2), limits=limits) as ada:
        bob = ada.as_user("bob")
        name = (await ada.post("sessions", {"text": "Count to 1000"}))["id"]
        status, found = await ada.ask("POST", f"{API}/sessions", {"text": "Count to 1"})
        assert (status, "sessions work already" in found["error"]) == (429, True)
        assert int(ada.last.headers["Retry-After"]) > 0
        await bob.post("sessions", {"text": "Count to 0"})
        async with ada.events("events"):
            assert (await ada.ask("GET", f"{API}/events"))[0] == 429
        await ada.post(f"sessions/{name}/prompt", {"text": "Count to 1001"})
        await ada.post(f"sessions/{name}/prompt", {"text": "Count to 1002"})
        status, found = await ada.ask("POST", f"{API}/sessions/{name}/prompt", {"text": "Count to 1003"})
        assert (status, "within a minute" in found["error"]) == (429, True)
        assert 0 < int(ada.last.headers["Retry-After"]) <= 60  # the machine may be slow


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nothing", None, 404),
        ("DELETE", "/sessions", None, 405),
        ("POST", "/sessions", {"text": 7}, 400),
        ("POST", "/sessions", {"text": "Hi", "modell": "openai/fast"}, 400),
        ("POST", "/sessions", {"text": "x" * 500_001}, 400),
        ("POST", "/sessions", {"text": "x" * 1_000_001}, 413),
        ("POST", "/sessions", {"text": "Hi", "folder": "/"}, 422),
        ("POST", "/sessions", {"text": "Hi", "metadata": {"a b": ""}}, 400),
        ("GET", "/sessions?limit=0", None, 400),
        ("GET", "/sessions?offset=-1", None, 400),
        ("GET", f"/sessions/{'x' * 5000}", None, 404),
        ("GET", "/sessions/%00", None, 404),
        ("GET", "/events?after=x", None, 400),
        ("GET", "/questions/none", None, 404),
    ],
)
async def test_a_request_that_cannot_be_answered_says_why(method: str, path: str, body: Any, status: int) -> None:
    async with client(counting()) as ada:
        found = await ada.ask(method, f"{API}{path}", body)
        assert found[0] == status, found
        assert found[1]["error"]
