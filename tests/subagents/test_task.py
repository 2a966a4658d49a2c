"""The Task tool: who has it, what comes back, in which order, and how many work at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider import Agent, Log, Profile, ScriptedModel, Session, ToolContext, tool, with_subagents
from outrider.errors import OutriderError
from outrider.events import SubagentStarted, ToolFinished
from outrider.limits import Limits
from outrider.prompts import prompt
from outrider.providers.scripted import Delay, call
from outrider.results import ToolResult
from tests.subagents.teams import HELPER, Team, bench_in, play, results_of, run_in, task


@pytest.fixture(params=["in memory", "in a log"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log | None]:
    if request.param == "in memory":
        yield None
    else:
        with Log(tmp_path / "log") as log:
            yield log


async def test_only_the_last_words_of_a_sub_agent_come_back(log: Log | None) -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "a needle"

    child = [["Let me look.", call("look")], "There is a needle."]
    team = Team(play([[task("look around")], "It is there."], {"look around": child}), [look], log=log)
    result = await team.run()
    assert (result.status, result.text) == ("done", "It is there.")
    assert [(each.text, each.is_error) for each in team.results] == [("There is a needle.", False)]
    assert "a needle" in str(team.model.requests[2].messages), "the sub-agent saw it"
    assert "Let me look" not in str(team.session.messages)
    team.check()


async def test_what_comes_back_says_how_it_went() -> None:
    team = Team(play([[task("a")], "Done."], {"a": ["Fine."]}))
    await team.run()
    (finished,) = team.finished()
    (started,) = [event for event in team.events if isinstance(event, SubagentStarted)]
    assert (started.name, started.title) == ("Helper", "do a")
    assert finished.details == {
        "session": started.session,
        "profile": "Helper",
        "status": "done",
        "turns": 1,
        "cost": None,
    }


async def test_a_sub_agent_that_says_nothing_is_no_empty_result() -> None:
    team = Team(play([[task("a")], "Done."], {"a": [""]}))
    await team.run()
    assert "without a word" in team.results[0].text


async def test_a_failed_sub_agent_is_an_error_result_and_its_sibling_survives(log: Log | None) -> None:
    children = {"good": ["Good."], "bad": [OSError("the line is dead")]}
    team = Team(play([[task("bad"), task("good")], "Done."], children), log=log)
    assert (await team.run()).status == "done"
    bad, good = team.results
    assert bad.is_error
    assert bad.text.startswith("The sub-agent did not finish: ")
    assert "the line is dead" in bad.text
    assert (good.text, good.is_error) == ("Good.", False)


async def test_sub_agents_of_one_reply_work_at_the_same_time_and_answer_in_call_order(log: Log | None) -> None:
    names = [f"part {number}" for number in range(5)]
    meeting = asyncio.Barrier(len(names))
    gone: list[str] = []
    somebody_left = asyncio.Condition()

    @tool(effect="read")
    async def meet(number: int) -> str:
        """Wait for all others, and leave when those behind have left."""
        async with asyncio.timeout(20):
            await meeting.wait()
            async with somebody_left:
                await somebody_left.wait_for(lambda: len(gone) == len(names) - 1 - number)
        return "met"

    children = {name: [[call("meet", number=number)], f"{name} is done"] for number, name in enumerate(names)}
    team = Team(play([[task(name) for name in names], "All."], children), [meet], log=log)

    async def notify() -> None:
        async with somebody_left:
            gone[:] = [event.result.text for event in team.finished()]
            somebody_left.notify_all()

    waking: set[asyncio.Task[None]] = set()
    team.session.observe(lambda event: waking.add(asyncio.ensure_future(notify())))
    assert (await team.run()).status == "done"
    assert [each.text for each in team.results] == [f"{name} is done" for name in names]
    assert [event.result.text for event in team.finished()] == [f"{name} is done" for name in reversed(names)]
    await asyncio.gather(*waking)
    team.check()


@pytest.mark.parametrize("at_once", [1, 3])
async def test_no_more_than_so_many_work_at_once_and_the_others_wait_for_their_turn(at_once: int) -> None:
    working: set[str] = set()
    most = 0

    @tool(effect="read")
    async def work(name: str) -> str:
        """Work."""
        nonlocal most
        working.add(name)
        most = max(most, len(working))
        for _ in range(5):
            await asyncio.sleep(0.001)
        working.remove(name)
        return "worked"

    names = [f"part {number}" for number in range(8)]
    children = {name: [[call("work", name=name)], f"{name} is done"] for name in names}
    team = Team(play([[task(name) for name in names], "All."], children), [work], at_once=at_once)
    assert (await team.run()).status == "done"
    assert most == at_once
    assert [each.text for each in team.results] == [f"{name} is done" for name in names]


def test_a_team_can_be_used_in_one_event_loop_after_the_other() -> None:
    """Each `asyncio.run` has a loop of its own, and those who wait for their turn wait in one."""
    children = {name: [Delay(0.001, "Fine.")] for name in "abc"}
    agent = with_subagents(Agent(model=play([[task(name) for name in "abc"], "All."], children)), [HELPER], at_once=1)
    for _ in range(2):
        session = Session(agent)
        asyncio.run(session.run("go"))
        assert [each.text for each in results_of(session)] == ["Fine."] * 3


async def test_a_long_answer_is_cut_between_characters_and_the_whole_is_stored(log: Log | None) -> None:
    words = "".join(chr(0x1F600 + number % 60) for number in range(500)) + "é"
    team = Team(play([[task("a")], "Done."], {"a": [words]}), limits=Limits(result_characters=40), log=log)
    await team.run()
    (result,) = team.results
    assert result.text.startswith(words[:30] + "\n[461 of 501 characters left out here.")
    assert result.text.endswith("\n" + words[-10:])
    assert result.whole is not None
    assert team.session.store.read(result.whole).decode() == words
    assert words not in str(team.model.requests[-1].messages)


async def test_an_answer_just_within_the_limit_is_unchanged() -> None:
    words = "ü" * 40
    team = Team(play([[task("a")], "Done."], {"a": [words]}), limits=Limits(result_characters=40))
    await team.run()
    assert (team.results[0].text, team.results[0].whole) == (words, None)


async def test_a_sub_agent_has_no_task_and_cannot_send_out_others_by_itself(log: Log | None) -> None:
    @tool
    async def delegate(context: ToolContext) -> str:
        """Send somebody out."""
        child = await context.spawn(Agent(model=ScriptedModel(["I am out."])))
        return (await child.run("go")).text

    child = [[call("delegate"), task("b")], "I could not."]
    sender = [[call("delegate"), task("a")], "Done."]
    team = Team(play(sender, {"a": child}), [delegate], log=log)
    await team.run()
    assert team.results[0].text == "I am out.", "whoever is not a sub-agent may"
    unknown, refused = sorted((event.result for event in team.inside(ToolFinished)), key=lambda each: each.text)
    assert refused.is_error
    assert "a sub-agent cannot send out sub-agents" in refused.text
    assert unknown.is_error
    assert "There is no tool named 'Task'. The tools are: delegate." in unknown.text


async def test_a_model_that_gives_two_calls_the_same_id_gets_two_sub_agents(log: Log | None) -> None:
    """In a log the session of a sub-agent is found again by its call."""
    first, second = (type(task(name))("same", "Task", task(name).input) for name in ("a", "b"))
    team = Team(play([[first], [second], "Done."], {"a": ["A."], "b": ["B."]}), log=log)
    await team.run()
    assert [each.text for each in team.results] == ["A.", "B."]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"subagent_type": "Nobody"}, "Nobody"),
        ({"model": "openai/gpt-6-luna"}, "model"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": " "}, "blank"),
        ({"cwd": "/"}, "cwd"),
    ],
)
async def test_arguments_that_do_not_fit_send_nobody_out(more: dict[str, str], said: str) -> None:
    wanted = {"description": "do it", "prompt": "a", "subagent_type": "Helper"} | more
    team = Team(play([[call("Task", **wanted)], "Done."], {"a": ["Never."]}))
    await team.run()
    assert team.results[0].is_error
    assert said in team.results[0].text
    assert len(team.model.requests) == 2


async def test_a_result_that_is_final_ends_the_sub_agent_alone() -> None:
    @tool
    def give_up() -> ToolResult:
        """End it."""
        return ToolResult("I give up.", final=True)

    team = Team(play([[task("a")], "Then I do it."], {"a": [[call("give_up")]]}), [give_up])
    result = await team.run()
    assert team.results[0].text == "I give up."
    assert result.text == "Then I do it."


# Guidance


def test_guidance_stands_in_the_system_prompt_if_and_only_if_the_agent_has_task() -> None:
    alone = Agent(model="demo", system="You are kind.")
    team = with_subagents(alone, [HELPER, Profile(name="Poet", description="Writes\n  verse.")])
    assert prompt("task") not in alone.instructions
    assert team.instructions.startswith("You are kind.\n\n" + prompt("task"))
    assert "- Helper: Helps.\n- Poet: Writes verse." in team.instructions


async def test_in_a_workbench_the_sender_reads_the_guidance_and_its_sub_agents_do_not(folder: Path) -> None:
    model = play([[task("a", "Explore")], "Done."], {"a": ["Fine."]})
    bench = bench_in(folder)
    assert results_of(await run_in(bench, model))[0].text == "Fine."
    sender, child, _ = model.requests
    assert prompt("task") in sender.system
    for name in ("Explore", "Plan", "Bash", "General"):
        assert f"\n- {name}: " in sender.system
    assert prompt("task") not in child.system
    assert prompt("subagent") in child.system
    assert prompt("explore") in child.system
    assert str(folder) in child.system


@pytest.mark.parametrize("tools", [["Read", "Bash"], ["Task"], []])
def test_a_session_without_task_reads_nothing_of_it(folder: Path, tools: list[str]) -> None:
    agent = bench_in(folder, tools=tools).agent(model="demo")
    assert "Task" not in [each.name for each in agent.tools]
    assert prompt("task") not in agent.instructions


def test_only_those_are_listed_for_whom_there_are_tools(folder: Path) -> None:
    instructions = bench_in(folder, tools=["Task", "Bash"]).agent(model="demo").instructions
    offered = [name for name in ("Explore", "Plan", "Bash", "General") if f"\n- {name}: " in instructions]
    assert offered == ["Bash", "General"]


def test_without_anybody_to_send_out_there_is_no_task() -> None:
    with pytest.raises(OutriderError, match="nobody could be sent out"):
        with_subagents(Agent(model="demo"))
    with pytest.raises(OutriderError, match="nobody could be sent out"):
        with_subagents(Agent(model="demo"), [])


def test_sending_out_twice_makes_one_task() -> None:
    team = with_subagents(with_subagents(Agent(model="demo"), [HELPER]), [Profile(name="Poet", description="Verse.")])
    assert [each.name for each in team.tools] == ["Task"]
    assert "- Helper" not in team.instructions
