"""The Task tool: which agents have it, its results and their order, and concurrency."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider import Agent, Log, Profile, Session, Tool, ToolContext, spawn, tool, with_subagents
from outrider.coding.config.settings import Settings
from outrider.errors import ConfigError, OutriderError, ToolDefinitionError
from outrider.prompts import prompt
from outrider.providers.base import Request
from outrider.runtime.events import Event, SubagentStarted, ToolFinished
from outrider.runtime.limits import Limits
from outrider.subagents.task import RESULT_CHARACTERS
from outrider.testing import Delay, ScriptedModel, Step, call
from outrider.tools.result import ToolResult
from tests.subagents.teams import HELPER, Team, bench_in, play, results_of, run_in, task

BEGINNING = "\n".join(prompt("task").splitlines()[:3])
"""Of the guidance; below it stands what depends on the agent."""


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
    assert "returned no text" in team.results[0].text


async def test_a_sub_agent_that_ends_with_nothing_returns_its_last_words() -> None:
    def look() -> str:
        """Look around."""
        return "hay"

    children = {"a": [["The needle is in the hay.", call("look")], [call("look")], ""]}
    team = Team(play([[task("a")], "Done."], children), [look])
    await team.run()
    assert [(each.text, each.is_error) for each in team.results] == [("The needle is in the hay.", False)]


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


@pytest.mark.parametrize("length", [10_000, 10_001, 60_000])
async def test_a_sender_reads_ten_thousand_characters_of_an_answer(log: Log | None, length: int) -> None:
    words = ("ü☂" * length)[:length]
    team = Team(play([[task("a")], "Done."], {"a": [words]}), log=log)
    await team.run()
    (result,) = team.results
    if length <= 10_000:
        assert (result.text, result.whole) == (words, None)
    else:
        assert result.text.startswith(f"{words[:7_500]}\n[{length - 10_000:,} of {length:,} characters left out here.")
        assert result.text.endswith(words[-2_500:])
        assert result.whole is not None
        assert f"attachment:{result.whole.sha256}" in result.text
        assert team.session.store.read(result.whole).decode() == words


async def test_how_much_a_sender_reads_is_a_setting_of_task() -> None:
    words = "x" * 200
    for wanted, limit, kept in [(150, 50_000, 150), (150, 100, 100)]:
        agent = Agent(model=play([[task("a")], "Done."], {"a": [words]}), limits=Limits(result_characters=limit))
        session = Session(with_subagents(agent, [HELPER], result_characters=wanted))
        await session.run("go")
        assert f"[{200 - kept} of 200 characters left out" in results_of(session)[0].text


async def test_in_a_workbench_the_setting_says_how_much_is_read(folder: Path) -> None:
    model = play([[task("a", "Explore")], "Done."], {"a": ["x" * 200]})
    session = await run_in(bench_in(folder, subagents__result_characters=150), model)
    assert "[50 of 200 characters left out" in results_of(session)[0].text
    assert Settings().subagents.result_characters == RESULT_CHARACTERS


@pytest.mark.parametrize("characters", [0, -1])
def test_a_limit_below_one_character_of_an_answer_is_refused(characters: int) -> None:
    with pytest.raises(ToolDefinitionError, match="result_characters of Task"):
        with_subagents(Agent(model="demo"), [HELPER], result_characters=characters)


async def test_a_sub_agent_has_no_task_and_cannot_start_others(log: Log | None) -> None:
    @tool
    async def delegate(context: ToolContext) -> str:
        """Send somebody out."""
        child = await spawn(context, Agent(model=ScriptedModel(["I am out."])))
        return (await child.run("go")).text

    child = [[call("delegate"), task("b")], "I could not."]
    sender = [[call("delegate"), task("a")], "Done."]
    team = Team(play(sender, {"a": child}), [delegate], log=log)
    await team.run()
    assert team.results[0].text == "I am out.", "whoever is not a sub-agent may"
    unknown, refused = sorted((event.result for event in team.inside(ToolFinished)), key=lambda each: each.text)
    assert refused.is_error
    assert "a sub-agent cannot start sub-agents" in refused.text
    assert unknown.is_error
    assert "There is no tool named 'Task'. The tools are: delegate." in unknown.text


@pytest.mark.parametrize("in_background", [False, True])
async def test_a_spawned_agent_that_has_task_is_refused_without_a_traceback(
    in_background: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def step(request: Request) -> Step:
        if request.messages[-1].tool_results:
            return request.messages[-1].tool_results[0].text
        return (
            task("b", run_in_background=in_background)
            if any(each.name == "Task" for each in request.tools)
            else call("outer")
        )

    @tool
    async def outer(context: ToolContext) -> str:
        """Go."""
        with await spawn(context, with_subagents(Agent(ScriptedModel(step)), [HELPER])) as child:
            return (await child.run("go")).text

    result = await Agent(ScriptedModel(step), tools=[outer]).run("go")
    assert "a sub-agent cannot start sub-agents" in result.text
    assert not [record for record in caplog.records if record.exc_info]


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
        ({"prompt": " "}, "a prompt must be given"),
        ({"cwd": "/"}, "cwd"),
    ],
)
async def test_invalid_arguments_start_no_sub_agent(more: dict[str, str], said: str) -> None:
    wanted = {"description": "do it", "prompt": "a", "subagent_type": "Helper"} | more
    team = Team(play([[call("Task", **wanted)], "Done."], {"a": ["Never."]}))
    await team.run()
    assert team.results[0].is_error
    assert said in team.results[0].text
    assert len(team.model.requests) == 2


GENERAL = Profile(name="General", description="Does all.")


@pytest.mark.parametrize("name", ["General", "GeneralPurpose", "general-purpose", "general_purpose", "general"])
async def test_general_has_the_names_that_other_programs_give_it(name: str) -> None:
    team = Team(play([[task("a", name)], "Done."], {"a": ["Fine."]}), profiles=[HELPER, GENERAL])
    await team.run()
    assert [(each.text, each.is_error) for each in team.results] == [("Fine.", False)]
    assert team.finished()[0].details["profile"] == "General"
    assert team.session.messages[1].tool_calls[0].input["subagent_type"] == name, "the history is as it was said"


async def test_a_profile_that_has_the_name_itself_is_the_one_that_is_meant() -> None:
    own = Profile(name="general-purpose", description="The user's own.")
    names = ["general-purpose", "GeneralPurpose", "General"]
    children = {name: ["Fine."] for name in names}
    team = Team(play([[task(name, name) for name in names], "Done."], children), profiles=[GENERAL, own])
    await team.run()
    profiles = {event.call_id: event.details["profile"] for event in team.finished()}
    assert [profiles[each.id] for each in team.session.messages[1].tool_calls] == [own.name, own.name, "General"]


@pytest.mark.parametrize("name", ["Nobody", "help er s", ""])
async def test_a_wrong_type_is_answered_with_all_types(name: str) -> None:
    profiles = [Profile(name=f"Kind{number}", description="A kind.") for number in range(9)]
    team = Team(play([[task("a", name)], "Done."], {"a": ["Never."]}), profiles=profiles)
    await team.run()
    (result,) = team.results
    assert result.is_error
    assert "other candidates" not in result.text
    for profile in profiles:
        assert f'"{profile.name}"' in result.text


def test_other_spellings_are_not_offered() -> None:
    (sending,) = with_subagents(Agent(model="demo"), [HELPER, GENERAL]).tools
    assert isinstance(sending, Tool)
    assert sending.parameters["properties"]["subagent_type"]["enum"] == ["Helper", "General"]
    assert sending.parameters["required"] == ["description", "prompt"]


@pytest.mark.parametrize("more", [{"output_schema": None}, {"model": None}, {"output_schema": None, "model": None}])
async def test_null_counts_as_absent(log: Log | None, more: dict[str, None]) -> None:
    team = Team(play([[task("a", **more)], "Done."], {"a": ["Fine."]}), log=log)
    await team.run()
    assert [(each.text, each.is_error) for each in team.results] == [("Fine.", False)]
    assert [each.name for each in team.model.requests[1].tools] == []


async def test_null_for_what_is_needed_is_still_missing() -> None:
    wanted = {"description": "do it", "prompt": None, "subagent_type": "Helper"}
    team = Team(play([[call("Task", **wanted)], "Done."], {"a": ["Never."]}))
    await team.run()
    assert '"prompt" is a required property' in team.results[0].text


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
    assert alone.system_prompt == "You are kind."
    assert team.system_prompt.startswith(f"You are kind.\n\n{BEGINNING}")
    assert "\n- Helper: Helps. Model: the same as yours.\n- Poet: Writes verse. " in team.system_prompt


async def test_in_a_workbench_the_sender_reads_the_guidance_and_its_sub_agents_do_not(folder: Path) -> None:
    model = play([[task("a", "Explore")], "Done."], {"a": ["Fine."]})
    bench = bench_in(folder)
    assert results_of(await run_in(bench, model))[0].text == "Fine."
    sender, child, _ = model.requests
    assert BEGINNING in sender.system
    for name in ("Explore", "Plan", "Bash", "General"):
        assert f"\n- {name}: " in sender.system
    assert BEGINNING not in child.system
    assert prompt("subagent") in child.system
    assert prompt("explore") in child.system
    assert str(folder) in child.situation


@pytest.mark.parametrize("tools", [["Read", "Bash"], []])
def test_a_session_without_task_reads_nothing_of_it(folder: Path, tools: list[str]) -> None:
    agent = bench_in(folder, tools=tools).agent(model="demo")
    assert "Task" not in [each.name for each in agent.tools]
    assert BEGINNING not in agent.system_prompt


def test_task_without_a_tool_for_anybody_is_refused_with_what_to_do(folder: Path) -> None:
    """The list is a fence for the whole session: sub-agents get nothing that it leaves out."""
    with pytest.raises(ConfigError, match=r"no sub-agent would have any.* --tools Task,Read,Glob,Grep"):
        bench_in(folder, tools=["Task"]).agent(model="demo")


def test_task_with_a_tool_of_the_user_s_own_is_enough(folder: Path) -> None:
    @tool
    def whistle() -> str:
        """Whistle."""
        return "tune"

    agent = bench_in(folder, own=[whistle], tools=["Task"]).agent(model="demo")
    assert [each.name for each in agent.tools] == ["whistle", "Task"]
    assert "\n- General: " in agent.system_prompt
    assert "\n- Explore: " not in agent.system_prompt


def test_only_those_are_listed_for_whom_there_are_tools(folder: Path) -> None:
    instructions = bench_in(folder, tools=["Task", "Bash"]).agent(model="demo").system_prompt
    offered = [name for name in ("Explore", "Plan", "Bash", "General") if f"\n- {name}: " in instructions]
    assert offered == ["Bash", "General"]


def test_without_profiles_there_is_no_task() -> None:
    with pytest.raises(OutriderError, match="no sub-agent could be started"):
        with_subagents(Agent(model="demo"))
    with pytest.raises(OutriderError, match="no sub-agent could be started"):
        with_subagents(Agent(model="demo"), [])


def test_sending_out_twice_makes_one_task() -> None:
    team = with_subagents(with_subagents(Agent(model="demo"), [HELPER]), [Profile(name="Poet", description="Verse.")])
    assert [each.name for each in team.tools] == ["Task"]
    assert "- Helper" not in team.system_prompt


@pytest.mark.parametrize(("names", "chosen"), [(["Poet"], "Poet"), (["Poet", "General"], "General")])
async def test_a_task_that_names_no_type_goes_to_the_only_one_or_to_general(names: list[str], chosen: str) -> None:
    profiles = [Profile(name=name, description=f"{name}.") for name in names]
    steps = [call("Task", description="A task", prompt="Do it."), "Done it.", "Fine."]
    team = with_subagents(Agent(ScriptedModel(steps)), profiles)
    seen: list[Event] = []
    result = await Session(team, observer=seen.append).run("go")
    assert result.conversation[2].tool_results[0].text == "Done it."
    assert [event.name for event in seen if isinstance(event, SubagentStarted)] == [chosen]


async def test_of_several_types_without_general_one_must_be_named() -> None:
    profiles = [Profile(name=name, description=f"{name}.") for name in ("Poet", "Critic")]
    steps = [call("Task", description="A task", prompt="Do it."), "Fine."]
    result = await Session(with_subagents(Agent(ScriptedModel(steps)), profiles)).run("go")
    assert "subagent_type must be one of Poet, Critic" in result.conversation[2].tool_results[0].text
