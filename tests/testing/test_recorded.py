"""A recorded session as a model: the same replies to the same requests, and a clear error for others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from outrider import Agent, Attachment, Log, Profile, Session, Tool, tool, with_subagents
from outrider.conversation.usage import Usage
from outrider.errors import ProviderError, RequestRefusedError, UnknownSessionError
from outrider.providers.base import Provider, Reply, Request
from outrider.providers.deltas import Delta, TextDelta
from outrider.testing import Cut, Recorded, ScriptedModel, Step, call
from outrider.types import Prompt


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log") as log:
        yield log


def looking(result: str = "nothing there", description: str = "Look.") -> Tool:
    return tool(name="look", description=description)(lambda: result)


async def recorded(log: Log, *prompts: Prompt) -> str:
    model = ScriptedModel(
        lambda request: "Nothing." if request.messages[-1].tool_results else call("look"), usage=Usage(10, 2)
    )
    async with Session.open(log, agent=Agent(model, system="Be brief.", tools=[looking()])) as session:
        for prompt in prompts or ("What is there?",):
            await session.run(prompt)
        return session.id


async def test_the_same_requests_get_the_same_replies(log: Log) -> None:
    session = await recorded(log, "What is there?", "And now?")
    with Recorded(log, session) as model:
        assert isinstance(model, Provider)
        agent = Agent(model, system="Other instructions.", tools=[looking(description="Another text.")])
        again = agent.session()
        assert (await again.run("What is there?")).usage == Usage(20, 4)
        assert (await again.run("And now?")).text == "Nothing."
    assert again.messages == log.messages(session)


async def test_another_prompt_fails_the_test(log: Log) -> None:
    model = Recorded(log, await recorded(log))
    with pytest.raises(AssertionError, match=r"request 1 differs .*: it says 'Who.*'; recorded was 'What is there\?'"):
        await Agent(model, tools=[looking()]).run("Who is there?")


async def test_another_result_fails_the_test(log: Log) -> None:
    model = Recorded(log, await recorded(log))
    with pytest.raises(AssertionError, match=r"request 2 differs .*a bird.*; recorded was .*nothing there"):
        await Agent(model, tools=[looking("a bird")]).run("What is there?")


async def test_another_file_fails_the_test(log: Log) -> None:
    one, other = (Attachment(b"%PDF-1.4 " + each, "application/pdf") for each in (b"1", b"2"))
    model = Recorded(log, await recorded(log, ["Look.", one]))
    with pytest.raises(AssertionError, match="request 1 differs"):
        await Agent(model, tools=[looking()]).run(["Look.", other])


async def test_a_tool_that_is_gone_fails_the_test(log: Log) -> None:
    model = Recorded(log, await recorded(log))
    with pytest.raises(AssertionError, match="calls look, which the request does not offer; its tools are none"):
        await Agent(model).run("What is there?")


async def test_a_request_after_the_last_reply_fails_the_test(log: Log) -> None:
    model = Recorded(log, await recorded(log))
    first = await Agent(model, tools=[looking()]).run("What is there?")
    with pytest.raises(AssertionError, match=r"has 2 replies, and this is request 3; it says 'More\.'"):
        await Agent(model).session(first.conversation).run("More.")


async def test_replies_that_are_left_fail_the_test(log: Log) -> None:
    session = await recorded(log, "What is there?", "And now?")
    with (
        pytest.raises(AssertionError, match=r"2 of 4 steps were not used: reply 3 \['look'\], reply 4"),
        Recorded(log, session) as model,
    ):
        await Agent(model, tools=[looking()]).run("What is there?")


def test_an_unknown_session_is_an_error_at_once(log: Log) -> None:
    with pytest.raises(UnknownSessionError):
        Recorded(log, "nonsense")


def delegating(model: Provider, result: str = "nothing there") -> Agent:
    """Return an agent whose sub-agents use its model."""
    scout = Profile(name="scout", description="Looks.", tools=["look"])
    return with_subagents(Agent(model, tools=[looking(result)]), [scout])


def working(request: Request) -> Step:
    """Send two scouts at the same time, each of which looks and says what it was asked."""
    if request.messages[-1].tool_results:
        return f"Done: {request.messages[0].text.split()[-1]}"
    if "both" in request.messages[0].text:
        sides = ("east", "west")
        return [call("Task", subagent_type="scout", description=each, prompt=f"Look at {each}") for each in sides]
    return call("look")


async def test_sub_agents_get_their_own_replies(log: Log) -> None:
    async with Session.open(log, agent=delegating(ScriptedModel(working))) as session:
        await session.run("Look at both")
    with Recorded(log, session.id) as model:
        again = delegating(model).session()
        assert (await again.run("Look at both")).text == "Done: both"
    assert len(model.requests) == 6
    assert [each.text for each in again.messages[-2].tool_results] == ["Done: east", "Done: west"]


async def test_another_result_in_a_sub_agent_fails_the_test(log: Log) -> None:
    async with Session.open(log, agent=delegating(ScriptedModel(working))) as session:
        await session.run("Look at both")
    with (
        pytest.raises(AssertionError, match=r"request 2 differs .*a bird.*; recorded was .*nothing there"),
        Recorded(log, session.id) as model,
    ):
        await delegating(model, "a bird").run("Look at both")


Work = Callable[[Session], Awaitable[object]]


async def go(session: Session) -> list[str]:
    """Say two things."""
    return [(await session.run(prompt)).text for prompt in ("Go.", "And now?")]


async def go_compacted(session: Session) -> list[str]:
    first = await session.run("Go.")
    await session.compact()
    return [first.text, (await session.run("And now?")).text]


UNCHANGED = [
    pytest.param(go, [call("look"), "Nothing.", "No."], " \n", id="a result of whitespace"),
    pytest.param(go, [[call("nope"), call("look")], "Nothing.", "No."], "a cat", id="an unknown tool"),
    pytest.param(go, [call("look"), "", "Nothing.", "No."], "a cat", id="an empty reply"),
    pytest.param(go, [ProviderError("it is broken"), "No."], "a cat", id="a failed request"),
    pytest.param(
        go, [call("look"), ProviderError("it is broken"), "No."], "a cat", id="a failed request after results"
    ),
    pytest.param(
        go, [Cut("No", ProviderError("cut", retryable=True, retry_after=0.0)), "No.", "No."], "", id="a retry"
    ),
    pytest.param(go_compacted, ["Nothing.", "## Goal\nTo look.", "No."], "a cat", id="a compaction"),
    pytest.param(
        go_compacted, ["Nothing.", RequestRefusedError("too long"), "No."], "a cat", id="a compaction without a model"
    ),
]


@pytest.mark.parametrize(("work", "steps", "result"), UNCHANGED)
async def test_an_unchanged_agent_passes(log: Log, work: Work, steps: list[Step], result: str) -> None:
    agent = Agent(ScriptedModel(steps), tools=[looking(result)])
    async with Session.open(log, agent=agent) as session:
        said = await work(session)
    with Recorded(log, session.id) as model:
        again = agent.replace(model=model).session()
        assert await work(again) == said
    assert again.messages == session.messages


async def test_failures_at_the_end_may_be_left(log: Log) -> None:
    agent = Agent(ScriptedModel(["Nothing.", ProviderError("it is broken")]))
    async with Session.open(log, agent=agent) as session:
        assert await go(session) == ["Nothing.", ""]
    with Recorded(log, session.id) as model:
        await agent.replace(model=model).run("Go.")


async def test_a_compaction_that_is_missing_fails_the_test(log: Log) -> None:
    agent = Agent(ScriptedModel(["Nothing.", "## Goal\nTo look.", "No."]))
    async with Session.open(log, agent=agent) as session:
        await go_compacted(session)
    with pytest.raises(AssertionError, match=r"it says 'And now\?'; recorded was 'a request for a summary'"):
        await go(agent.replace(model=Recorded(log, session.id)).session())
    with pytest.raises(AssertionError, match=r"it says 'a request for a summary'; recorded was 'What is there\?'"):
        await go_compacted(
            agent.replace(
                model=Recorded(log, await recorded(log, "Go.", "What is there?")), tools=[looking()]
            ).session()
        )


class Stuck(ScriptedModel):
    """Says a few words, or none, of its first reply."""

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        async for item in super().stream(request):
            if len(self.requests) > 1:
                yield item
            elif isinstance(item, TextDelta):
                yield item
                await asyncio.Event().wait()


@pytest.mark.parametrize("words", ["", "Half a reply"])
async def test_a_request_after_a_cancelled_one_says_so(log: Log, words: str) -> None:
    model = Stuck([[words or " "], "No."])
    agent = Agent(model)
    async with Session.open(log, agent=agent) as session:
        running = asyncio.create_task(session.run("Go."))
        while not model.requests:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        session.cancel()
        assert (await running).status == "cancelled"
        await session.run("And now?")
    with pytest.raises(AssertionError, match=r"it says 'Go\.'; recorded was .*And now\?'\. Work before it was stopped"):
        await go(agent.replace(model=Recorded(log, session.id)).session())


async def test_agents_that_hand_over_share_the_model(log: Log) -> None:
    def agent(first: Provider, second: Provider) -> Agent:
        return Agent(first, name="triage", handoffs=[Agent(second, name="billing")])

    models = ScriptedModel([call("handoff", to="billing")]), ScriptedModel(["Refunded."])
    async with Session.open(log, agent=agent(*models)) as session:
        await session.run("Go.")
    with Recorded(log, session.id) as model:
        assert (await agent(model, model).run("Go.")).text == "Refunded."


async def test_a_sub_agent_that_failed_fails_again(log: Log) -> None:
    def reply(request: Request) -> Step:
        if "Task" not in {each.name for each in request.tools}:
            return ProviderError("it is broken")
        task = call("Task", subagent_type="scout", description="Look", prompt="Look around")
        return "Nobody looked." if request.messages[-1].tool_results else task

    async with Session.open(log, agent=delegating(ScriptedModel(reply))) as session:
        await session.run("Go.")
    with Recorded(log, session.id) as model:
        assert (await delegating(model).run("Go.")).text == "Nobody looked."
    assert len(model.requests) == 3


async def test_what_a_rewind_left_out_is_not_asked_for(log: Log) -> None:
    agent = Agent(ScriptedModel([call("look"), "Nothing.", "No.", "Yes."]), tools=[looking()])
    async with Session.open(log, agent=agent) as session:
        await session.run("Go.")
        await session.run("And here?")
        await session.rewind(2)
        await session.run("And now?")
    with Recorded(log, session.id) as model:
        assert await go(agent.replace(model=model).session()) == ["Nothing.", "Yes."]
