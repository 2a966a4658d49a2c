"""A recorded session as a model: the same replies to the same requests, and a clear error for others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider import Agent, Attachment, Log, Profile, Session, Tool, tool, with_subagents
from outrider.conversation.usage import Usage
from outrider.errors import UnknownSessionError
from outrider.providers.base import Provider, Request
from outrider.testing import Recorded, ScriptedModel, Step, call
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
