"""The model of a sub-agent: the conversation stays with the vendor that the user chose."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider import Agent, Hooks, Session, with_subagents
from outrider.coding.workbench import Workbench
from outrider.errors import UnknownModelError
from outrider.providers.catalogue.tiers import TIERS
from outrider.providers.resolution import resolve
from outrider.runtime.hooks import BeforeTool
from outrider.subagents.profile import model_for, same_vendor
from outrider.subagents.task import Order
from outrider.testing import call
from outrider.tools.tool import make_tool
from tests.subagents.teams import HELPER, Team, bench_in, play, results_of, run_in, task


def name_of(wanted: str, sender: str) -> str:
    return resolve(model_for(wanted, resolve(sender))).name


@pytest.mark.parametrize(
    ("sender", "fast", "powerful"),
    [
        ("anthropic/claude-opus-5-5", "anthropic/claude-haiku-5-5", "anthropic/claude-opus-5-5"),
        ("openai/gpt-6.1-sol", "openai/gpt-6-luna", "openai/gpt-6.1-sol"),
        ("openai-chat/gpt-6.1-sol", "openai-chat/gpt-6-luna", "openai-chat/gpt-6.1-sol"),
        ("gemini/gemini-4-argon", "gemini/gemini-3.5-flash-lite", "gemini/gemini-4-argon"),
    ],
)
def test_a_tier_is_a_model_of_the_parents_vendor(
    sender: str, fast: str, powerful: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "correct-horse")  # whose key is found first does not matter
    assert (name_of("fast", sender), name_of("powerful", sender)) == (fast, powerful)


@pytest.mark.parametrize("sender", ["ollama/qwen3", "demo", "http://localhost:8000/v1#qwen3"])
@pytest.mark.parametrize("tier", TIERS)
def test_where_there_are_no_tiers_the_sender_s_model_stays(
    sender: str, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "correct-horse")
    provider = resolve(sender)
    assert model_for(tier, provider) is provider


@pytest.mark.parametrize("wanted", ["", "inherit"])
def test_without_a_wish_the_sender_s_model_stays(wanted: str) -> None:
    provider = resolve("anthropic/claude-opus-5-5")
    assert model_for(wanted, provider) is provider


def test_the_user_may_set_a_tier_to_another_vendor_and_a_vendor_s_tier_to_another_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUTRIDER_FAST", "openai/gpt-6-luna")
    monkeypatch.setenv("OUTRIDER_ANTHROPIC_BALANCED", "claude-other")
    assert name_of("fast", "anthropic/claude-opus-5-5") == "openai/gpt-6-luna"
    assert name_of("balanced", "anthropic/claude-opus-5-5") == "anthropic/claude-other"
    monkeypatch.setenv("OUTRIDER_FAST", "powerful")
    with pytest.raises(UnknownModelError, match="OUTRIDER_FAST"):
        model_for("fast", resolve("demo"))


@pytest.mark.parametrize(
    ("wanted", "sender", "same"),
    [
        ("", "anthropic/a", True),
        ("inherit", "anthropic/a", True),
        ("fast", "anthropic/a", True),
        ("anthropic/b", "anthropic/a", True),
        ("openai/b", "anthropic/a", False),
        ("claude-haiku-5-5", "anthropic/a", True),
        ("gpt-5.6", "anthropic/a", False),
        ("http://localhost:8000/v1#b", "anthropic/a", False),
        ("http://localhost:8000/v1#b", "http://localhost:8000/v1#a", True),
        ("http://localhost:8000/v1/#b", "http://localhost:8000/v1#a", True),
        ("http://elsewhere.example/v1#a", "http://localhost:8000/v1#a", False),
        ("http://localhost:8001/v1#a", "http://localhost:8000/v1#a", False),
        ("http://localhost:8000/v1@elsewhere.example#a", "http://localhost:8000/v1#a", False),
        ("litellm/deepseek/b", "litellm/anthropic/a", False),
        ("litellm/anthropic/b", "litellm/anthropic/a", True),
    ],
)
def test_a_server_is_a_vendor_of_its_own(wanted: str, sender: str, same: bool) -> None:
    class Sender:
        name = sender

    assert same_vendor(wanted, Sender()) is same  # type: ignore[arg-type]


# In a team, and in a workbench


def models_in(bench: Workbench, model: str, profile: str, tier: str = "") -> str:
    """Who would answer for a sub-agent of the workbench."""
    bench.agent(model=model)
    chosen = next(each for each in bench.found_profiles.profiles if each.name == profile)
    with bench.subagents.start(Order(chosen, "try", tier=tier)) as worker:
        return worker.agent.provider.name


def write_profile(folder: Path, model: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "helper.md").write_text(f"---\nname: Helper\ndescription: Helps.\nmodel: {model}\n---\nHelp.\n")


@pytest.mark.parametrize(
    ("profile", "tier", "name"),
    [
        ("Explore", "", "claude-haiku-5-5"),
        ("Plan", "", "claude-sonnet-5-5"),
        ("Bash", "", "claude-haiku-5-5"),
        ("General", "", "claude-sonnet-5-5"),
        ("Explore", "powerful", "claude-opus-5-5"),
        ("General", "fast", "claude-haiku-5-5"),
    ],
)
def test_in_a_workbench_a_profile_has_its_tier_unless_the_call_asks_for_another(
    folder: Path, profile: str, tier: str, name: str
) -> None:
    assert models_in(bench_in(folder), "anthropic/claude-opus-5-5", profile, tier) == f"anthropic/{name}"


def test_sub_agents_of_one_kind_share_a_connection_and_follow_their_sender(folder: Path) -> None:
    bench = bench_in(folder)
    explore = bench.found_profiles.profiles[0]
    bench.agent(model="anthropic/claude-opus-5-5")
    with bench.subagents.start(Order(explore, "a")) as one, bench.subagents.start(Order(explore, "b")) as other:
        assert one.agent.provider is other.agent.provider
    assert models_in(bench, "openai/gpt-6.1-sol", "Explore") == "openai/gpt-6-luna"


def test_sub_agents_have_the_cache_and_the_temperature_of_the_settings(folder: Path) -> None:
    bench = bench_in(folder, cache="1h", temperature=0.5)
    with bench.subagents.start(Order(bench.found_profiles.profiles[0], "a")) as one:
        assert (one.agent.cache, one.agent.temperature) == ("1h", 0.5)


@pytest.mark.parametrize(
    ("wanted", "sender", "name"),
    [
        ("openai/gpt-6.1-sol", "anthropic/claude-opus-5-5", "anthropic/claude-opus-5-5"),
        ("http://elsewhere.example/v1#x", "anthropic/claude-opus-5-5", "anthropic/claude-opus-5-5"),
        ("http://elsewhere.example/v1#x", "http://localhost:8000/v1#qwen3", "http://localhost:8000/v1#qwen3"),
        ("anthropic/claude-haiku-5-5", "anthropic/claude-opus-5-5", "anthropic/claude-haiku-5-5"),
        ("haiku", "anthropic/claude-opus-5-5", "anthropic/claude-haiku-5-5"),
        ("sonnet", "gemini/gemini-4-argon", "gemini/gemini-3.8-flash"),
        ("inherit", "ollama/qwen3", "ollama/qwen3"),
    ],
)
def test_a_project_s_profile_does_not_choose_another_vendor(folder: Path, wanted: str, sender: str, name: str) -> None:
    write_profile(folder / ".outrider/agents", wanted)
    assert models_in(bench_in(folder), sender, "Helper") == name


def test_the_user_s_own_profile_may(folder: Path, own_home: Path) -> None:
    write_profile(own_home / "settings/agents", "openai/gpt-6.1-sol")
    assert models_in(bench_in(folder), "anthropic/claude-opus-5-5", "Helper") == "openai/gpt-6.1-sol"


async def test_a_profile_with_a_model_that_is_none_is_an_error_result(folder: Path, own_home: Path) -> None:
    write_profile(own_home / "settings/agents", "nobody/nothing")
    bench = bench_in(folder)
    model = play([[task("a")], "Done."])
    (result,) = results_of(await run_in(bench, model))
    assert result.is_error
    assert "there is no model 'nobody/nothing'" in result.text


async def test_the_model_of_a_task_is_one_of_the_tiers_and_nothing_else() -> None:
    wanted = [task("a", model=name) for name in ("fast", "openai/gpt-6-luna", "inherit", "demo")]
    team = Team(play([wanted, "Done."], {"a": ["Fine."]}))
    await team.run()
    fine, *refused = team.results
    assert fine.text == "Fine."
    assert all(each.is_error and "not run" in each.text for each in refused)


@pytest.mark.parametrize("later", [False, True], ids=["before", "in the session"])
async def test_a_copy_of_an_agent_sends_out_sub_agents_of_its_own(later: bool) -> None:
    """As in a test of a team: its model and its hooks are replaced, and no request may go to the real model."""
    started: list[str] = []

    async def note(event: BeforeTool) -> None:
        started.append(event.tool)

    real, stand_in = (play([[task("a")], "Done."], {"a": [call("peek"), "Seen."]}) for _ in range(2))
    team = with_subagents(Agent(real, tools=[make_tool(lambda: "a cat", name="peek", description="Look.")]), [HELPER])
    copy = team.replace(model=stand_in, hooks=Hooks(before_tool=note))
    session = Session(team if later else copy)
    session.agent = copy
    assert (await session.run("go")).status == "done"
    assert (len(real.requests), len(stand_in.requests), started) == (0, 4, ["Task", "peek"])
