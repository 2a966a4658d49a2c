"""Profile files of users and projects: found, read without trusting them, with a note for each problem."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from outrider import Limits, Profile
from outrider.coding.profiles import FoundProfiles, find_profiles
from outrider.coding.toolbox import TOOL_NAMES
from outrider.subagents.task import Order
from tests.subagents.teams import bench_in, play, results_of, run_in, task


def write(file: Path, name: str = "Helper", text: str = "You help.", **fields: str) -> Path:
    fields = {"name": name, "description": "Helps."} | fields
    lines = "".join(f"{field}: {value}\n" for field, value in fields.items())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\n{lines}---\n{text}\n")
    return file


def found_in(folder: Path, *users: Path, **options: Any) -> FoundProfiles:
    return find_profiles(folder, users, [], tools=TOOL_NAMES, home=folder.parent, **options)


def read(folder: Path, **fields: str) -> tuple[Profile, tuple[str, ...]]:
    """The profile of a file of the project with these fields, and what was said of it."""
    write(folder / ".outrider/agents/helper.md", **fields)
    found = found_in(folder)
    (profile,) = found.profiles
    return profile, found.notes


def test_a_file_says_all_that_there_is_to_a_profile(folder: Path) -> None:
    profile, notes = read(
        folder,
        name="code-reviewer",
        description="Reviews code.",
        tools="Read, Grep",
        model="powerful",
        limits="{max_turns: 5, max_cost: 0.5, max_total_tokens: none}",
        schemas="false",
        text="You review.\n\nWell.",
    )
    assert notes == ()
    assert profile == Profile(
        name="code-reviewer",
        description="Reviews code.",
        prompt="You review.\n\nWell.",
        tools=("Read", "Grep"),
        model="powerful",
        limits={"max_turns": 5, "max_cost": 0.5, "max_total_tokens": None},
        schemas=False,
        may_raise_limits=False,
        from_project=True,
    )


def test_without_a_name_it_has_that_of_its_file(folder: Path) -> None:
    (folder / ".claude/agents").mkdir(parents=True)
    (folder / ".claude/agents/poet.md").write_text("---\ndescription: Verse.\n---\nWrite.")
    assert [each.name for each in found_in(folder).profiles] == ["poet"]


def test_the_nearest_one_counts_and_the_project_s_before_the_user_s(folder: Path, tmp_path: Path) -> None:
    inner = folder / "packages/one"
    inner.mkdir(parents=True)
    places = [
        tmp_path / "user/.claude/agents",
        tmp_path / "user/settings/agents",
        folder / ".claude/agents",
        folder / ".outrider/agents",
        inner / ".claude/agents",
        inner / ".outrider/agents",
    ]
    built_in = [Profile(name="Helper", description="Helps.", prompt="built in"), Profile(name="Other", description="O")]
    texts = []
    for place in [None, *places]:
        if place:
            write(place / "helper.md", text=str(place))
        found = find_profiles(inner, places[:2], built_in, tools=TOOL_NAMES, home=tmp_path)
        helper, other = found.profiles
        assert other.name == "Other"
        texts.append(helper.prompt)
        assert helper.from_project is (place in places[2:])
    assert texts == ["built in", *map(str, places)]


def test_what_lies_above_the_repository_is_not_the_project_s(folder: Path) -> None:
    write(folder.parent / ".outrider/agents/helper.md")
    assert found_in(folder).profiles == ()


def test_the_users_own_profiles_are_not_the_projects_where_the_home_is_above(tmp_path: Path) -> None:
    """A project that is no repository is looked at up to the home, where the user's own files are."""
    project = tmp_path / "work"
    project.mkdir()
    write(tmp_path / ".claude/agents/helper.md")
    found = find_profiles(project, [tmp_path / ".claude/agents"], [], tools=TOOL_NAMES, home=tmp_path)
    assert [each.from_project for each in found.profiles] == [False]


@pytest.mark.parametrize(
    ("value", "tools", "said"),
    [
        ("Read, Grep", ("Read", "Grep"), ""),
        ("[Read, Grep, Read]", ("Read", "Grep"), ""),
        ("'*'", None, ""),
        ("", None, ""),
        ("[]", (), ""),
        ("TodoWrite, LS, MultiEdit", ("Todo", "Glob", "Edit"), ""),
        ("Read, Task", ("Read",), ""),
        ("Read, Telescope", ("Read",), "unknown tools are left out: Telescope"),
        ("Bash(git:*), Read", ("Read",), "unknown tools are left out: Bash(git:*)"),
        ("[Bash(git:*)]", (), "unknown tools are left out: Bash(git:*)"),
        ("Bash(git add, Bash, ls), Read", ("Read",), "unknown tools are left out: Bash(git add, Bash, ls)"),
        ("[Agent(Explore, Bash, Plan), Read]", ("Read",), "unknown tools are left out: Agent(Explore, Bash, Plan)"),
        ("bash, read", (), "unknown tools are left out: bash, read"),
        ("mcp__github__search, mcp__git__*, Read", ("mcp__github__search", "mcp__git__*", "Read"), ""),
    ],
)
def test_only_tools_that_it_may_use_wholly_are_its_own(
    folder: Path, value: str, tools: tuple[str, ...] | None, said: str
) -> None:
    profile, notes = read(folder, tools=value)
    assert profile.tools == tools
    assert [said in note and "helper.md" in note for note in notes] == ([True] if said else [])


def test_a_profile_that_denies_a_tool_of_a_server_has_none_of_servers(folder: Path) -> None:
    profile, _ = read(folder, disallowedTools="mcp__git__push")
    assert profile.server_tools == ()


@pytest.mark.parametrize(
    ("fields", "without"),
    [
        ({"disallowedTools": "Bash, Write"}, {"Bash", "Write"}),
        ({"disallowedTools": "[Bash(git push:*)]"}, {"Bash"}),
        ({"disallowedTools": "MultiEdit"}, {"Edit"}),
    ],
)
def test_what_another_program_would_deny_it_is_not_given_here(
    folder: Path, fields: dict[str, str], without: set[str]
) -> None:
    profile, notes = read(folder, **fields)
    assert set(profile.tools or ()) == {*TOOL_NAMES, "mcp__*"} - without
    assert notes == ()
    assert read(folder, tools="Read, Bash", **fields)[0].tools == (("Read",) if "Bash" in without else ("Read", "Bash"))


@pytest.mark.parametrize(
    ("written", "model"),
    [("sonnet", "balanced"), ("opus", "powerful"), ("haiku", "fast"), ("inherit", ""), ("fast", "fast"), ("", "")],
)
def test_the_model_may_be_a_tier_under_the_names_of_other_programs(folder: Path, written: str, model: str) -> None:
    assert read(folder, model=written)[0].model == model
    assert read(folder, tier=written)[0].model == model


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"You help.", "no fields at the top"),
        (b"---\nname: Helper\n", "no fields at the top"),
        (b"---\nname: Helper\n---\n", "needs a description"),
        (b"---\nname: two words\ndescription: D\n---\n", "'two words' is not a valid profile name"),
        (b"---\nname: [a, b]\ndescription: D\n---\n", "is not a valid profile name"),
        (b"---\nname: H\xff\ndescription: D\n---\n", "is not a valid profile name"),
        (b"---\nname: Helper\nwhat is this\n---\n", "line 3: 'what is this'"),
        (b"---\ndescription: D\nlimits: 5\n---\n", "limits must give a number for each name"),
        (
            b"---\ndescription: D\nlimits: {max_turns: many}\n---\n",
            "the limit max_turns must be a number or none, not 'many'",
        ),
        (b"---\ndescription: D\nlimits: {max_turns: inf}\n---\n", "whole number"),
        (b"---\ndescription: D\nlimits: {max_turns: -1}\n---\n", "turns"),
        (b"---\ndescription: D\nlimits: {max_turns: nan}\n---\n", "turns"),
        (b"---\ndescription: D\nlimits: {cost: 0.5}\n---\n", "it is called max_cost now"),
        (b"---\ndescription: D\nlimits: {speed: 5}\n---\n", "'speed'"),
        (b"---\ndescription: D\nlimits: {result_characters: 2.5}\n---\n", "result_characters"),
        (b"---\ndescription: D\nschemas: perhaps\n---\n", "true or false"),
        (b"\x00\x01\x02" * 100, "no fields at the top"),
        (b"---\n" + b"a: b\n" * 200_000, "no fields at the top"),
    ],
)
def test_a_file_that_is_no_profile_is_named_and_harms_no_other(folder: Path, content: bytes, said: str) -> None:
    write(folder / ".outrider/agents/aa.md", "Other")
    write(folder / ".outrider/agents/zz.md", "Another")
    (folder / ".outrider/agents/helper.md").write_bytes(content)
    found = found_in(folder)
    assert [each.name for each in found.profiles] == ["Other", "Another"]
    (note,) = found.notes
    assert note.startswith(f"{folder / '.outrider/agents/helper.md'}: ")
    assert said in note
    assert len(note) < 1000


def test_a_field_that_there_is_not_is_said_for_our_own_files_alone(folder: Path) -> None:
    _, notes = read(folder, colour="red")
    assert "unknown field 'colour'" in notes[0]
    (folder / ".outrider/agents/helper.md").unlink()
    write(folder / ".claude/agents/helper.md", color="red")
    assert found_in(folder).notes == ()


def test_a_huge_file_is_read_in_part(folder: Path) -> None:
    write(folder / ".outrider/agents/helper.md", text="Help.\n" * 200_000)
    (profile,) = found_in(folder).profiles
    assert len(profile.prompt) < 70_000
    assert "The file goes on" in profile.prompt[-100:]


def test_bytes_that_are_no_text_are_replaced(folder: Path) -> None:
    (folder / ".outrider/agents").mkdir(parents=True)
    (folder / ".outrider/agents/helper.md").write_bytes(b"\xef\xbb\xbf---\ndescription: D\xff\n---\nHelp \xed\xa0\x80.")
    (profile,) = found_in(folder).profiles
    assert profile.description == "D\N{REPLACEMENT CHARACTER}"
    profile.prompt.encode()


def test_special_files_and_links_that_lead_out_are_passed_over(folder: Path, tmp_path: Path) -> None:
    agents = folder / ".outrider/agents"
    write(agents / "good.md", "Good")
    outside = write(tmp_path / "outside.md", "Outside")
    write(folder / "docs/inside.md", "Inside")
    os.mkfifo(agents / "pipe.md")
    (agents / "passwords.md").symlink_to("/etc/passwd")
    (agents / "outside.md").symlink_to(outside)
    (agents / "inside.md").symlink_to(folder / "docs/inside.md")
    (agents / "loop.md").symlink_to(agents / "loop.md")
    (agents / "gone.md").symlink_to(agents / "nothing.md")
    (agents / "endless.md").symlink_to("/dev/zero")
    (agents / "folder.md").mkdir()
    (folder / ".git/config.md").write_text("---\nname: Git\ndescription: D\n---\n")
    (agents / "git.md").symlink_to(folder / ".git/config.md")
    assert sorted(each.name for each in found_in(folder).profiles) == ["Good", "Inside"]


def test_a_folder_of_profiles_that_is_a_link_out_of_the_repository_is_passed_over(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/helper.md")
    (folder / ".outrider").mkdir()
    (folder / ".outrider/agents").symlink_to(tmp_path / "elsewhere")
    assert found_in(folder).profiles == ()


def test_a_hostile_file_takes_no_time(folder: Path) -> None:
    """Within the 64 KB that are read of it."""
    agents = folder / ".outrider/agents"
    for number, line in enumerate(("tools: " + "(," * 30_000, "tools: " + '"' * 60_000, "a: " + "# " * 30_000)):
        write(agents / f"{number}.md", f"Helper{number}", more=f"x\n{line}")
    write(agents / "fences.md", "Fences", text="---" * 20_000)
    begun = time.process_time()
    found_in(folder)
    assert time.process_time() - begun < 5


# In a workbench


async def test_a_profile_of_the_project_is_listed_and_can_be_sent_out(folder: Path) -> None:
    write(folder / ".claude/agents/poet.md", "Poet", description="Writes verse.", tools="Read", text="You rhyme.")
    model = play([[task("a", "Poet")], "Done."], {"a": ["A rose."]})
    session = await run_in(bench_in(folder), model)
    assert results_of(session)[0].text == "A rose."
    assert "\n- Poet: Writes verse." in model.requests[0].system
    assert "You rhyme." in model.requests[1].system
    assert [each.name for each in model.requests[1].tools] == ["Read"]


def test_a_project_s_profile_does_not_go_beyond_what_the_user_allows(folder: Path) -> None:
    write(
        folder / ".outrider/agents/helper.md",
        limits="{max_turns: 500, max_cost: 900, max_seconds: none, max_repeats: none}",
    )
    bench = bench_in(folder, limits__max_turns=10, limits__max_cost=1.0)
    bench.agent(model="demo")
    helper = next(each for each in bench.found_profiles.profiles if each.name == "Helper")
    with bench.subagents.start(Order(helper, "try")) as worker:
        limits = worker.agent.limits
    assert limits == Limits(max_turns=10, max_cost=1.0)


def test_a_project_s_profile_that_takes_the_name_of_a_built_in_one_stays_a_project_s(folder: Path) -> None:
    write(folder / ".outrider/agents/explore.md", "Explore", limits="{max_turns: 500}", model="openai/gpt-6.1-sol")
    bench = bench_in(folder, limits__max_turns=10)
    (explore,) = [each for each in bench.found_profiles.profiles if each.name == "Explore"]
    assert explore.from_project
    assert explore.limits_within(bench.settings.limits).max_turns == 10


def test_what_is_wrong_with_profiles_is_said_where_there_is_task(folder: Path, own_home: Path) -> None:
    write(own_home / "settings/agents/mine.md", "my own")
    assert ["mine.md" in note for note in bench_in(folder).notes] == [True]
    assert bench_in(folder, tools=["Read"]).notes == ()
