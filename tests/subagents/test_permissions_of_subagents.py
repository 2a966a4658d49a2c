"""Permissions of sub-agents: those of the parent, decided for the sub-agent's own working directory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outrider import Allow, Deny, Session
from outrider.coding.permissions.question import Answer, Mode, Question
from outrider.providers.base import Request
from outrider.testing import Delay, Step, call
from tests.subagents.teams import Team, bench_in, play, results_of, run_in, task


class Person:
    """Answers questions, and remembers them."""

    def __init__(self, *verdicts: Any) -> None:
        self.asked: list[Question] = []
        self.at_once = self.most_at_once = 0
        self._verdicts = list(verdicts)

    async def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        for _ in range(3):
            await asyncio.sleep(0)
        self.at_once -= 1
        return Answer(self._verdicts.pop(0) if self._verdicts else "once")


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.txt"))


def write(name: str) -> Step:
    return [call("Write", file_path=name, content="x")]


async def test_a_question_of_a_sub_agent_says_whose_it_is(folder: Path) -> None:
    person = Person("once", "no")
    model = play([[task("a", "General")], write("mine.txt"), "Done."], {"a": [write("its.txt"), "Fine."]})
    session = await run_in(bench_in(folder, person), model)
    assert [(each.asker, each.input["file_path"]) for each in person.asked] == [
        ("General: do a", "its.txt"),
        ("", "mine.txt"),
    ]
    assert (folder / "its.txt").exists()
    assert not (folder / "mine.txt").exists()
    assert [each.is_error for each in results_of(session)] == [False, True]


async def test_a_refusal_reaches_the_sub_agent_and_nobody_else(folder: Path) -> None:
    person = Person("no")
    heard: list[str] = []

    def hear(request: Request) -> Step:
        heard.append(request.messages[-1].tool_results[0].text)
        return "I may not."

    model = play([[task("a", "General")], "Done."], {"a": [write("its.txt"), hear]})
    session = await run_in(bench_in(folder, person), model)
    assert heard == ["Write was not run: the user does not want this"]
    assert [(each.text, each.is_error) for each in results_of(session)] == [("I may not.", False)]


class Screen:
    """A front end that remembers whether the turn was cancelled. Implements `Front`."""

    place = "in the test"

    def __init__(self) -> None:
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True

    def answered(self, text: str) -> None: ...

    def use_mode(self, mode: Mode) -> None: ...

    async def say(self, text: str) -> None: ...


@pytest.mark.parametrize("behind", [True, False])
async def test_a_no_ends_a_sub_agent_in_the_background_alone(folder: Path, behind: bool) -> None:
    """In the foreground it ends the turn of its sender, which would only go on without it."""
    front = Screen()
    children = {"a": [write("its.txt"), "Never."]}
    model = play([[task("a", "General", run_in_background=behind)], "Meanwhile.", "I heard."], children)
    session = await run_in(bench_in(folder, Person("no"), front=front), model)
    assert front.is_stopped is not behind
    if behind:
        assert session.messages[-1].text == "I heard."
        (report,) = [each.text for each in session.messages if each.text.startswith("[Sub-agent")]
        assert "(General: do a) was stopped." in report
        assert "Write was not run: the user does not want this: they ended this sub-agent" in report
        assert [each.status for each in session.background] == ["cancelled"]


@pytest.mark.parametrize("first", ["sender", "sub-agent"])
async def test_always_holds_for_the_sender_and_its_sub_agents_alike(folder: Path, first: str) -> None:
    touch = [call("Bash", command="touch made")]
    person = Person("always")
    children = {"a": [touch, "Fine."], "b": [touch, "Fine."]}
    steps = [touch, [task("a", "Bash")], [task("b", "Bash")], "Done."]
    if first == "sub-agent":
        steps = [[task("a", "Bash")], touch, [task("b", "Bash")], "Done."]
    session = await run_in(bench_in(folder, person), play(steps, children))
    assert [each.asker for each in person.asked] == ["Bash: do a" if first == "sub-agent" else ""]
    assert not any(each.is_error for each in results_of(session))
    assert (folder / "made").exists()


async def test_one_question_at_a_time_over_all_of_them(folder: Path) -> None:
    person = Person()
    children = {name: [write(f"{name}.txt"), "Fine."] for name in "abc"}
    model = play([[*(task(name, "General") for name in "abc"), *write("mine.txt")], "Done."], children)
    await run_in(bench_in(folder, person), model)
    assert person.most_at_once == 1
    assert sorted(each.asker for each in person.asked) == ["", "General: do a", "General: do b", "General: do c"]
    assert files_in(folder) == ["a.txt", "b.txt", "c.txt", "mine.txt", "notes.txt"]


async def test_a_cancel_while_the_person_thinks_takes_the_question_back(folder: Path) -> None:
    asked = asyncio.Event()

    async def ask(_: Question) -> Answer:
        asked.set()
        await asyncio.Event().wait()
        return Answer("once")

    bench = bench_in(folder, ask)
    model = play(
        [[task("a", "General"), task("b", "General")], "Done."], {name: [write(f"{name}.txt")] for name in "ab"}
    )
    session = Session(bench.agent(model=model), cwd=folder, approve=bench.permissions)  # type: ignore[arg-type]
    running = asyncio.ensure_future(session.run("go"))
    await asyncio.wait_for(asked.wait(), 20)
    session.cancel()
    assert (await running).status == "cancelled"
    assert len(results_of(session)) == 2
    assert files_in(folder) == ["notes.txt"]


@pytest.mark.parametrize(
    ("flags", "wanted", "said"),
    [
        ({"permissions__mode": "plan"}, call("Write", file_path="new.txt", content="x"), "not permitted"),
        ({"permissions__mode": "plan"}, call("Bash", command="touch new.txt"), "not permitted"),
        ({"permissions__deny": ["Edit(./new.txt)"]}, call("Write", file_path="new.txt", content="x"), "not permitted"),
        ({"permissions__deny": ["Bash(touch:*)"]}, call("Bash", command="touch new.txt"), "not permitted"),
        ({"permissions__mode": "all"}, call("Write", file_path=".outrider/agents/x.md", content="x"), "not permitted"),
        ({}, call("Write", file_path="new.txt", content="x"), "it needs permission"),
    ],
)
async def test_a_sub_agent_may_never_do_more_than_its_sender(
    folder: Path, flags: dict[str, Any], wanted: Any, said: str
) -> None:
    heard: list[str] = []

    def hear(request: Request) -> Step:
        heard.append(request.messages[-1].tool_results[0].text)
        return "I may not."

    model = play([[task("a", "General")], [wanted], "Done."], {"a": [[wanted], hear]})
    session = await run_in(bench_in(folder, **flags), model)
    own = results_of(session)[1]
    assert own.is_error
    assert heard == [own.text], "it is told what its sender is told"
    assert said in heard[0]
    assert not (folder / "new.txt").exists()
    assert not (folder / ".outrider").exists()


async def test_secrets_stay_closed_and_are_not_found_by_searches(folder: Path) -> None:
    (folder / ".env").write_text("TOKEN=correct-horse\n")
    person = Person()
    child = [
        [
            call("Read", file_path=".env"),
            call("Bash", command="cat .env"),
            call("Grep", pattern="correct", output_mode="content"),
        ],
        "I could not.",
    ]
    model = play([[task("a", "General")], "Done."], {"a": child})
    await run_in(bench_in(folder, person, permissions__mode="all"), model)
    assert person.asked == []
    assert "among the secrets" in str(model.requests[2].messages)
    assert "correct-horse" not in str([request.messages for request in model.requests])


async def test_a_rule_may_deny_sub_agents_altogether(folder: Path) -> None:
    model = play([[task("a", "Explore")], "Done."])
    session = await run_in(bench_in(folder, permissions__deny=["Task"]), model)
    assert "not permitted" in results_of(session)[0].text
    assert len(model.requests) == 2


async def test_a_changed_mode_applies_to_running_sub_agents(folder: Path) -> None:
    bench = bench_in(folder, permissions__mode="all")

    def change(_: Request) -> Step:
        bench.permissions.mode = "plan"
        return write("late.txt")

    model = play([[task("a", "General")], "Done."], {"a": [write("early.txt"), change, "Fine."]})
    await run_in(bench, model)
    assert (folder / "early.txt").exists()
    assert not (folder / "late.txt").exists()


async def test_in_a_team_the_permit_of_the_session_is_asked_about_sub_agents_too() -> None:
    asked: list[str] = []

    async def approve(use: Any, _: Any) -> Allow | Deny:
        asked.append(use.name)
        return Deny("it is Sunday") if use.name == "work" else Allow()

    def work() -> str:
        """Work."""
        return "done"

    team = Team(play([[task("a")], "Done."], {"a": [[call("work")], "I may not."]}), [work], approve=approve)
    await team.run()
    assert asked == ["Task", "work"]
    assert "it is Sunday" in str(team.nested)


# Where its shell stands


async def test_a_sub_agent_s_shell_stands_in_a_place_of_its_own(folder: Path) -> None:
    for name in ("deep", "deeper"):
        (folder / name).mkdir()
    pwd = [call("Bash", command="pwd")]
    child = [[call("Bash", command="cd deeper")], pwd, lambda request: request.messages[-1].tool_results[0].text]
    steps = [[call("Bash", command="cd deep")], [task("a", "Bash")], pwd, "Done."]
    bench = bench_in(folder, permissions__mode="all")
    session = await run_in(bench, play(steps, {"a": child}))
    _, its, mine = results_of(session)
    assert its.text.strip() == str(folder / "deeper"), "it begins in the project's folder, not where its sender went"
    assert mine.text.strip() == str(folder / "deep")
    assert bench.workspace.shell_cwd == folder / "deep"
    bench.close()


async def test_its_commands_are_judged_from_where_its_own_shell_stands(folder: Path) -> None:
    """The same words mean another file there."""
    (folder / "deep").mkdir()
    (folder.parent / "notes.txt").write_text("outside")
    look = [call("Bash", command="cat ../notes.txt")]
    children = {"above": [look, "I may not."], "deep": [[call("Bash", command="cd deep")], look, "I saw it."]}
    steps = [[call("Bash", command="cd deep")], look, [task("above", "Bash")], [task("deep", "Bash")], "Done."]
    person = Person("no", "no", "no")
    bench = bench_in(folder, person, permissions__mode="edits")
    model = play(steps, children)
    session = await run_in(bench, model)
    assert [(each.asker, each.reason) for each in person.asked] == [
        (
            "Bash: do above",
            "it reads ../notes.txt outside the folder; access full: runs without a sandbox, as you",
        )
    ]
    assert results_of(session)[1].text.startswith("one\n")
    assert "outside" not in [result.text for request in model.requests for result in request.messages[-1].tool_results]
    bench.close()


async def test_what_its_commands_print_can_be_read_by_it_without_a_question(folder: Path) -> None:
    person = Person()
    places: list[str] = []

    def child(request: Request) -> Step:
        if len(request.messages) == 1:
            return [call("Bash", command="echo hello", run_in_background=True)]
        told = request.messages[-1].tool_results[0].text
        if places and "hello" in told:
            return "hello was there"
        if not places:
            places.extend(word.rstrip(".,)") for word in told.split() if "/outrider-" in word)
        return Delay(0.02, [call("Read", file_path=places[0])])

    bench = bench_in(
        folder, person, permissions__mode="ask", permissions__allow=["Bash(echo:*)"], limits__max_repeats=1000
    )
    model = play([[task("a", "General")], "Done."], {"a": [child] * 80})
    session = await run_in(bench, model)
    assert person.asked == []
    assert results_of(session)[0].text == "hello was there"
    assert Path(places[0]).is_relative_to(bench.workspace.temporary_path)
    bench.close()
    assert not bench.workspace.temporary_path.exists()


async def test_what_a_sub_agent_has_read_its_sender_has_not(folder: Path) -> None:
    """To replace a file, whoever replaces it has to have seen it."""
    read = [call("Read", file_path="notes.txt")]
    write = [call("Write", file_path="notes.txt", content="three")]
    model = play([[task("a", "Explore")], write, "Done."], {"a": [read, "I saw it."]})
    session = await run_in(bench_in(folder, permissions__mode="all"), model)
    assert results_of(session)[1].is_error
    assert (folder / "notes.txt").read_text() == "one\ntwo\n"
