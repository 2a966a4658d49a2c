"""Several models of one agent: the next one goes on where one cannot answer, with the whole conversation."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Limits, Log, Session, Usage, ask, run, think, tool, with_subagents
from outrider.errors import (
    AuthenticationError,
    ContextExceededError,
    MissingKeyError,
    ProviderError,
    RateLimitedError,
    RequestRefusedError,
    UnavailableError,
    UnknownModelError,
)
from outrider.log.entries import AttemptFailed, SessionSettings
from outrider.providers.base import Reply, StopReason
from outrider.runtime.entry_events import EntryEvents
from outrider.runtime.events import Event, ModelSwitched, Notice, ReplyDiscarded, TextDelta
from outrider.runtime.retry import Retry
from outrider.subagents.profile import Profile
from outrider.testing import Cut, ScriptedModel, Step, call
from outrider.testing.scripted import Delay
from outrider.web.entry_view import EntryView
from tests.adapters import ONE_EACH, Case
from tests.log.test_usage import sums
from tests.modelserver import Broken, ModelServer, Page, Status
from tests.modelserver import Step as Served
from tests.streams import Answer
from tests.subagents.teams import task
from tests.waits import without_waiting

KEY = "hunter2-hunter2-hunter2"
ANTHROPIC = next(case for case in ONE_EACH if case.prefix == "anthropic")
OPENAI = next(case for case in ONE_EACH if case.prefix == "openai")
DOWN = UnavailableError("it is down")
WELL = Answer("All is well.")


def model(name: str, *steps: Step, **options: Any) -> ScriptedModel:
    made = ScriptedModel(steps, **options)
    made.name = name
    return made


@tool(effect="read")
def look(at: str = "it") -> str:
    """Look."""
    return f"seen {at}"


def switches(events: list[Event]) -> list[ModelSwitched]:
    return [event for event in events if isinstance(event, ModelSwitched)]


# On the wire


FAULTS: dict[str, Served] = {
    "a rejected key": Status(401),
    "a forbidden key": Status(403),
    "an unknown model": Status(404),
    "no credit": Status(400, body=b'{"error": {"message": "Your credit balance is too low"}}'),
    "a bill that is due": Status(402),
    "no quota": Status(429, body=b'{"error": {"message": "no", "code": "insufficient_quota"}}'),
    "too many requests": Status(429),
    "overloaded": Status(529),
    "an internal error": Status(500),
    "a login page": Page(),
    "a reset": Broken(WELL, "nothing", "reset"),
    "a reply that breaks off": Broken(WELL, "first delta", "reset"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_next_model_goes_on_after_each_fault(fault: str) -> None:
    events: list[Event] = []
    async with ModelServer(lambda _: FAULTS[fault]) as broken, ModelServer([WELL]) as good:
        first, second = ANTHROPIC.adapter(broken.url, key=KEY), OPENAI.adapter(good.url, key=KEY)
        agent = Agent([first, second], retry=Retry(seconds=0))
        result = await agent.run("Hello", observer=events.append)
    assert (result.status, result.text) == ("done", WELL.text)
    [switch] = switches(events)
    assert (switch.former, switch.model) == (first.name, second.name)
    assert KEY not in switch.reason
    at = events.index(switch)
    shown = [event for event in events[:at] if isinstance(event, TextDelta)]
    discarded = [event for event in events[:at] if isinstance(event, ReplyDiscarded)]
    assert bool(shown) == bool(discarded), "what the first one had said is void"
    assert second.name in result.usage_by_model


async def test_a_server_that_is_not_there_is_retried_before_the_next_model_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_waiting(monkeypatch)
    async with ModelServer() as gone:
        pass
    async with ModelServer([Status(529), Status(529), WELL]) as good:
        agent = Agent([ANTHROPIC.adapter(gone.url, key=KEY), OPENAI.adapter(good.url, key=KEY)], retry=Retry(seconds=1))
        assert (await agent.run("Hello")).text == WELL.text
        assert len(good.requests) == 3, "each model has its retries"


WRONG: dict[str, Served] = {
    "a wrong request": Status(400, body=b'{"error": {"message": "messages: at least one is required"}}'),
    "a filter": Status(400, body=b'{"error": {"message": "content_policy_violation"}}'),
}


@pytest.mark.parametrize("fault", WRONG)
async def test_a_request_that_is_itself_wrong_is_not_sent_elsewhere(fault: str) -> None:
    async with ModelServer([WRONG[fault]]) as refusing, ModelServer([WELL]) as other:
        result = await Agent([ANTHROPIC.adapter(refusing.url, key=KEY), OPENAI.adapter(other.url, key=KEY)]).run(
            "Hello"
        )
        assert result.status == "error"
        assert other.requests == []


@pytest.mark.parametrize(("here", "there"), [(ANTHROPIC, OPENAI), (OPENAI, ANTHROPIC)])
async def test_a_run_with_calls_moves_to_another_api_in_the_middle(here: Case, there: Case) -> None:
    calling = Answer("I look.", (("call_a", "look", {"at": "a"}), ("call_b", "look", {"at": "b"})), thinking="Hm.")
    more = Answer("Once more.", (("call_c", "look", {"at": "c"}),))
    async with ModelServer([calling, Status(401)]) as first, ModelServer([more, WELL]) as second:
        one, other = here.adapter(first.url, key=KEY), there.adapter(second.url, key=KEY)
        session = Session(Agent([one, other], tools=[look]))
        result = await session.run("Look at all of them")
        assert (result.status, result.turns) == ("done", 3)
        assert [block.text for message in session.messages for block in message.tool_results] == [
            *("seen a", "seen b", "seen c")
        ]
        assert [request.api for request in second.requests] == [there.prefix, there.prefix]
        assert b"seen a" in second.requests[0].body
        assert b"seen b" in second.requests[0].body
        assert session.provider is other
        assert set(result.usage_by_model) == {one.name, other.name}
        total = sum(result.usage_by_model.values(), Usage())
        assert (total.input_tokens, total.output_tokens) == (result.usage.input_tokens, result.usage.output_tokens)


async def test_the_error_names_each_model_with_its_reason_and_no_key() -> None:
    events: list[Event] = []
    body = b'{"error": {"message": "wrong key %s"}}' % KEY.encode()
    async with ModelServer(lambda _: Status(401, body=body)) as first, ModelServer(lambda _: Status(404)) as second:
        one, other = ANTHROPIC.adapter(first.url, key=KEY), OPENAI.adapter(second.url, key=KEY)
        result = await Agent([one, other]).run("Hello", observer=events.append)
        assert result.status == "error"
        assert one.name in result.error
        assert "does not accept the key" in result.error
        assert other.name in result.error
        assert "does not know" in result.error
        assert KEY not in result.error
        assert KEY not in repr(events)
        with pytest.raises(ProviderError, match="none of the models could answer"):
            await Agent([one, other]).session().think("Hello")


# Which models, and in which order


def test_several_models_are_a_list_or_names_with_commas() -> None:
    for given in (["anthropic/fast", "openai/fast"], "anthropic/fast, openai/fast"):
        agent = Agent(given)
        assert (agent.model, agent.fallbacks) == ("anthropic/fast", ("openai/fast",))
        assert [provider.name.partition("/")[0] for provider in agent.providers] == ["anthropic", "openai"]
    assert agent.replace(system="x").fallbacks == ("openai/fast",)
    assert agent.replace(model="demo").fallbacks == ()


def test_wrong_models_are_refused_at_the_start() -> None:
    with pytest.raises(UnknownModelError, match="empty"):
        Agent([])
    with pytest.raises(UnknownModelError, match="no model 'nonsense'"):
        Session(Agent(["demo", "nonsense"]))
    with pytest.raises(UnknownModelError, match="not int"):
        Session(Agent(["demo", 3]))  # type: ignore[list-item]


@pytest.mark.parametrize("name", ["anthropic/fast", "balanced"])
async def test_a_model_without_a_key_is_skipped_and_that_is_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_keys(monkeypatch)
    events: list[Event] = []
    result = await Agent([name, "demo"]).run("What is 2+2?", observer=events.append)
    assert result.text == "4"
    [switch] = switches(events)
    assert "there is no key" in switch.reason
    assert "demo" not in switch.reason
    assert switch.model == "demo"


async def test_without_any_key_it_is_an_error_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    without_keys(monkeypatch)
    with pytest.raises(MissingKeyError, match=r"Anthropic.*OpenAI"):
        await Agent(["anthropic/fast", "openai/fast"]).run("Hello")
    with pytest.raises(MissingKeyError):
        await Agent(["anthropic/fast", "balanced"]).session().think("Hello")


def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("outrider.providers.credentials.keys.stored_values", dict)


async def test_each_model_is_asked_once_for_a_reply_and_the_next_reply_begins_with_the_last_one() -> None:
    a = model("a", DOWN, "a again")
    b = model("b", "from b", UnavailableError("b is down"))
    session = Session(Agent([a, b]))
    assert (await session.run("1")).text == "from b"
    assert (await session.run("2")).text == "a again", "the first one is asked again after the last"
    both = Agent([model("a", DOWN), model("b", RateLimitedError("no quota"))])
    assert "a: it is down. b: no quota" in (await both.run("3")).error


@pytest.mark.parametrize(("window", "status"), [(None, "error"), (1000, "error"), (8000, "done")])
async def test_a_conversation_that_is_too_long_moves_only_to_a_larger_window(window: int | None, status: str) -> None:
    small = model("small", ContextExceededError("too long"), window=2000)
    agent = Agent([small, model("other", "read", window=window)], compaction=None)
    assert (await agent.run("Hello")).status == status


async def test_refusals_limits_and_cancels_do_not_switch() -> None:
    refused = Reply((await said("I will not.")), StopReason.REFUSAL)
    other = model("b")
    assert (await Agent([model("a", refused), other]).run("Hello")).stop_reason is StopReason.REFUSAL
    slow = Agent([model("a", Delay(30, "late")), other], limits=Limits(max_seconds=0.05))
    assert (await slow.run("Hello")).status == "max_seconds"
    session = Session(Agent([model("a", Delay(30, "late")), other]))
    running = asyncio.ensure_future(session.run("Hello"))
    await asyncio.sleep(0.05)
    session.cancel()
    assert (await running).status == "cancelled"
    wrong = RequestRefusedError("the schema is wrong", status=400)
    assert (await Agent([model("a", wrong), other]).run("Hello")).status == "error"
    assert other.requests == []


async def said(text: str) -> Any:
    from outrider import Message

    return Message.assistant(text)


async def test_a_budget_that_the_failed_reply_used_up_ends_the_run() -> None:
    error = UnavailableError("it broke off")
    error.usage = Usage(100, cost=2.0)
    other = model("b", "more")
    agent = Agent([model("a", Cut("half", error)), other], limits=Limits(max_cost=1.0))
    result = await agent.run("Hello")
    assert (result.status, other.requests) == ("max_cost", [])
    assert result.usage_by_model == {"a": error.usage}


async def test_the_price_of_each_model_is_looked_for() -> None:
    events: list[Event] = []
    a = model("a", call("look"), DOWN, usage=Usage(1, cost=0.1))
    agent = Agent([a, model("b", call("look"), "done")], tools=[look], limits=Limits(max_cost=1))
    await agent.run("Hello", observer=events.append)
    said = [event.text for event in events if isinstance(event, Notice)]
    assert said == ["the price of b is not known: the cost limit cannot be kept"]


# Every way to ask


def test_scripts_take_several_models() -> None:
    assert think("Hello", model=[model("a", DOWN), model("b", "b")]) == "b"
    assert ask("Hello", model=[model("a", DOWN), model("b", "b")]) == "b"
    result = run("Hello", model=[model("a", AuthenticationError("no")), model("b", "b", usage=Usage(3))])
    assert (result.text, result.usage_by_model) == ("b", {"b": Usage(3)})
    assert result["usage_by_model"]["b"]["input_tokens"] == 3


async def test_a_typed_answer_comes_from_the_next_model() -> None:
    agent = Agent([model("a", DOWN), model("b", call("report_back", result=4))])
    assert (await agent.run("2+2?", output=int)).output == 4


async def test_sub_agents_with_the_parents_model_have_its_fallbacks_and_count_by_model() -> None:
    helper = Profile(name="Helper", description="Helps.", prompt="Help.")
    a = model("a", task("help", "Helper"), DOWN, "the end", usage=Usage(10))
    b = model("b", "helped", usage=Usage(1))
    result = await with_subagents(Agent([a, b]), [helper]).run("Hello")
    assert (result.status, result.text) == ("done", "the end")
    assert result.usage_by_model == {"a": Usage(20), "b": Usage(1)}
    assert result.usage == Usage(21)


# In the log


async def test_a_resumed_session_goes_on_with_the_model_that_it_switched_to(tmp_path: Path) -> None:
    def agent(*steps: Step) -> Agent:
        return Agent([model("a", *([] if steps else [DOWN])), model("b", *(steps or ["one"]))])

    with Log(tmp_path / "log.db") as log:
        async with Session.open(log, agent=agent()) as session:
            assert (await session.run("1")).text == "one"
        async with Session.open(log, session.id, agent("two")) as session:
            assert session.provider.name == "b"
            assert (await session.run("2")).text == "two"
        entries = [record.entry for record in log.records(session.id)]
        [switch] = [each for each in entries if isinstance(each, SessionSettings) and each.former]
        assert (switch.former, switch.model, switch.reason) == ("a", "b", "it is down")
        stored = EntryEvents()
        told = [event for record in log.records(session.id) for event in stored.of(record)]
        assert switches(told) == [ModelSwitched("a", "b", "it is down")]
        shown = EntryView("").entries(list(log.records(session.id)))
        assert "a cannot answer; b goes on. it is down" in str(shown), "the page has it in a line"
        async with Session.open(log, agent=agent()) as fresh:
            assert fresh.provider.name == "a", "a new session starts with the first model"
        async with Session.open(log, session.id, Agent(model("c", "three"))) as session:
            assert (await session.run("3")).text == "three", "another agent has its own model"


async def test_the_usage_report_has_each_request_under_its_model(tmp_path: Path) -> None:
    broken = UnavailableError("it broke off")
    broken.usage = Usage(7, cost=0.7)
    a = model("a", call("look"), Cut("half", broken), usage=Usage(100, cost=1.0))
    with Log(tmp_path / "log.db") as log:
        async with Session.open(log, agent=Agent([a, model("b", "done", usage=Usage(5))], tools=[look])) as session:
            result = await session.run("Hello")
        [failed] = [each.entry for each in log.records(session.id) if isinstance(each.entry, AttemptFailed)]
        assert failed.model == "a"
        assert {name: each.input_tokens for name, each in sums(log, "model").items()} == {"a": 107, "b": 5}
    assert {name: usage.input_tokens for name, usage in result.usage_by_model.items()} == {"a": 107, "b": 5}


SCRIPT = """
import asyncio, sys
from outrider import Agent, Log, Session, Usage, tool
from outrider.errors import UnavailableError
from outrider.testing import ScriptedModel, call

a = ScriptedModel([[call("look")], UnavailableError("it is down")], usage=Usage(10))
b = ScriptedModel([[call("look")]], usage=Usage(3))
a.name, b.name = "a", "b"

async def main():
    looks = iter([0, 60])

    @tool(effect="read")
    async def look() -> str:
        "Look."
        seconds = next(looks)
        if seconds:
            print("looking", flush=True)
        await asyncio.sleep(seconds)
        return "seen"

    with Log(sys.argv[1]) as log:
        async with Session.open(log, "5" * 32, Agent([a, b], tools=[look]), create=True) as session:
            await session.run("Look")

asyncio.run(main())
"""


def test_a_run_that_is_killed_after_the_switch_goes_on_with_that_model(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", SCRIPT, tmp_path / "log.db"], stdout=subprocess.PIPE)
    assert child.stdout
    assert child.stdout.readline() == b"looking\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    a, b = model("a"), model("b", "done", usage=Usage(4))
    with Log(tmp_path / "log.db") as log, Session.open(log, "5" * 32, Agent([a, b], tools=[look])) as session:
        result = asyncio.run(session.run())
    assert (result.status, result.text, result.turns) == ("done", "done", 3)
    assert result.usage_by_model == {"a": Usage(10), "b": Usage(7)}
    assert a.requests == []
