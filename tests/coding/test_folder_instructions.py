"""AGENTS.md and CLAUDE.md of subfolders: when the model reads them, how often, and which it never reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from outrider import Session
from outrider.log.log import Log
from outrider.testing import ScriptedModel, call
from tests.subagents.teams import bench_in, play, task

HEADING = "[Instructions of the project for this folder, from "


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    put(folder / "AGENTS.md", "Root rule.")
    put(folder / "sub/AGENTS.md", "Sub rule.")
    put(folder / "sub/deep/CLAUDE.md", "Deep rule.")
    put(folder / "sub/deep/AGENTS.md", "Deep rule.")
    put(folder / "sub/deep/code.py", "x = 1\n")
    put(folder / "sub/notes.txt", "note\n")
    put(folder / "top.txt", "top\n")
    return folder


async def results(folder: Path, *steps: Any, session: Session | None = None, **flags: Any) -> list[str]:
    """Return what the model has read of each call."""
    bench = bench_in(folder, permissions__mode="all", sandbox__use="off", **flags)
    model = ScriptedModel([*steps, "Done."])
    session = session or Session(bench.agent(model=model), cwd=folder, approve=bench.permissions)  # type: ignore[arg-type]
    try:
        await session.run("go")
    finally:
        bench.close()
    return texts(session)


def texts(session: Session) -> list[str]:
    return [result.text for message in session.messages for result in message.tool_results]


def rules(text: str) -> Sequence[str]:
    return [name for name in ("Root", "Sub", "Deep", "Other", "Secret") if f"{name} rule." in text]


def read(name: str) -> Any:
    return call("Read", file_path=name)


async def test_they_come_with_the_first_result_that_is_about_the_folder_and_once(project: Path) -> None:
    found = await results(
        project,
        [read("top.txt")],
        [read("sub/deep/code.py")],
        [read("sub/deep/code.py")],
    )
    assert [rules(each) for each in found] == [[], ["Sub", "Deep"], []]
    assert found[1].index("x = 1") < found[1].index(f"{HEADING}{project}/sub/AGENTS.md:]\n\nSub rule.")
    assert found[1].count("Deep rule.") == 1, "once if both files agree"
    together = await results(project, [read("sub/deep/code.py"), read("sub/notes.txt"), read("sub/deep/code.py")])
    assert sorted(rule for each in together for rule in rules(each)) == ["Deep", "Sub"]


@pytest.mark.parametrize(
    "about",
    [
        call("Grep", pattern="x", path="sub"),
        call("Glob", pattern="*", path="sub"),
        call("Write", file_path="sub/new.txt", content="x"),
        call("Bash", command="cd sub", access="full"),
    ],
    ids=["Grep", "Glob", "Write", "Bash"],
)
async def test_other_tools_touch_a_folder_too(project: Path, about: Any) -> None:
    first, second = await results(project, [about], [read("sub/notes.txt")])
    assert (rules(first), rules(second)) == (["Sub"], [])


async def test_what_is_not_there_or_outside_gives_none(project: Path, tmp_path: Path) -> None:
    put(tmp_path / "elsewhere/AGENTS.md", "Secret rule.")
    put(tmp_path / "elsewhere/file.txt", "x")
    (project / "out").symlink_to(tmp_path / "elsewhere")
    put(project / "linked/file.txt", "x")
    (project / "linked/AGENTS.md").symlink_to(tmp_path / "elsewhere/AGENTS.md")
    put(project / "hidden/file.txt", "x")
    put(project / "hidden/AGENTS.md", "Secret rule.")
    names = ("out/file.txt", str(tmp_path / "elsewhere/file.txt"), "linked/file.txt", "hidden/file.txt", "sub/none")
    found = await results(project, [read(each) for each in names], permissions__deny=("Read(hidden/AGENTS.md)",))
    assert [rules(each) for each in found] == [[]] * 5


async def test_another_working_folder_has_its_own(project: Path, tmp_path: Path) -> None:
    put(tmp_path / "other/AGENTS.md", "Other rule.")
    put(tmp_path / "other/file.txt", "x")
    name = str(tmp_path / "other/file.txt")
    (found,) = await results(project, [read(name)], permissions__folders=(str(tmp_path / "other"),))
    assert rules(found) == ["Other"]


async def test_they_do_not_cut_what_a_tool_shows(project: Path) -> None:
    put(project / "sub/AGENTS.md", "Sub rule.\n" + "y" * 30_000)
    put(project / "sub/long.txt", "line\n" * 5_000)
    (found,) = await results(project, [read("sub/long.txt")], limits__result_characters=30_000)
    assert "characters left out" not in found
    assert rules(found) == ["Sub"]


async def test_a_resumed_session_knows_them_and_a_compacted_one_reads_them_again(project: Path, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    steps = [[read("sub/notes.txt")], "One.", [read("sub/notes.txt")], "Two.", "A summary.", [read("sub/notes.txt")]]
    model = ScriptedModel([*steps, "Three."])

    def opened(id: str | None) -> tuple[Any, Session]:
        bench = bench_in(project, permissions__mode="all", sandbox__use="off")
        agent = bench.agent(model=model)  # type: ignore[arg-type]
        return bench, Session.open(log, id, agent, cwd=project, approve=bench.permissions).now()

    bench, session = opened(None)
    await session.run("go")
    name = session.id
    session.close()
    bench.close()
    bench, session = opened(name)
    await session.run("again")
    assert [rules(each) for each in texts(session)] == [["Sub"], []]
    await session.compact()
    await session.run("and again")
    assert [rules(each) for each in texts(session)] == [["Sub"], [], ["Sub"]]
    session.close()
    bench.close()


async def test_a_sub_agent_reads_them_for_itself(project: Path) -> None:
    heard: list[str] = []

    def hear(request: Any) -> str:
        heard.append(request.messages[-1].tool_results[0].text)
        return "Fine."

    model = play([[read("sub/notes.txt")], [task("a", "General")], "Done."], {"a": [[read("sub/notes.txt")], hear]})
    bench = bench_in(project)
    session = Session(bench.agent(model=model), cwd=project, approve=bench.permissions)  # type: ignore[arg-type]
    await session.run("go")
    bench.close()
    assert rules(heard[0]) == ["Sub"]
