"""What a session of the terminal program or an editor is made of."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from outrider import Agent, Log, Message, ToolUseBlock
from outrider.cli import main
from outrider.coding.access import NO_SANDBOX
from outrider.coding.config.loading import load
from outrider.coding.config.settings import Settings
from outrider.coding.front_end import FrontEnd
from outrider.coding.permissions.question import Answer, Ask, Question
from outrider.coding.sandbox.available import ClosedNetwork
from outrider.coding.workbench import Workbench
from outrider.conversation.messages import ToolResultBlock
from outrider.environment import config_file, data_folder
from outrider.errors import ConfigError, UnknownModelError
from outrider.log.questions import Answer as Given
from outrider.log.questions import ChoiceQuestion
from outrider.mcp import tokens
from outrider.processes.programs import ENVIRONMENTS
from outrider.providers.credentials import keys
from outrider.runtime.events import Event, ToolFinished
from outrider.runtime.session import Session
from outrider.subagents.task import Order
from outrider.sync import default_log
from outrider.testing import ScriptedModel, call
from tests.coding.sandbox.test_proof import NoSandbox
from tests.coding.toolbox.test_access import RecordingSandbox
from tests.conversations import PNG_BYTES as PNG


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("one\ntwo\n")
    return folder


def bench_in(folder: Path, ask: Ask | None = None, **flags: Any) -> Workbench:
    flags = {"model": "demo"} | {name.replace("__", "."): value for name, value in flags.items()}
    return Workbench(load(folder, environment=os.environ, flags=flags).settings, folder, front_end=FrontEnd(ask))


async def results_of_open(bench: Workbench, *calls: tuple[str, dict[str, Any]]) -> list[ToolResultBlock]:
    """What comes of calls that a model makes in one reply."""
    uses = [ToolUseBlock(f"c{number}", *call) for number, call in enumerate(calls)]
    agent = bench.agent(model=ScriptedModel([Message.assistant(*uses), "Fine."]))  # type: ignore[arg-type]
    session = Session(agent, cwd=bench.folder, approve=bench.permissions)
    if bench._front_end.choose:
        session.attend(bench._dialogue.person)
    result = await session.run("go")
    return list(result.conversation[2].tool_results)


async def results(bench: Workbench, *calls: tuple[str, dict[str, Any]]) -> list[ToolResultBlock]:
    """The same, and the end of the workbench."""
    try:
        return await results_of_open(bench, *calls)
    finally:
        bench.close()


async def test_all_tools_are_there_and_reading_is_free(folder: Path) -> None:
    read, listed, found = await results(
        bench_in(folder),
        ("Read", {"file_path": "notes.txt"}),
        ("Glob", {"pattern": "*"}),
        ("Grep", {"pattern": "two", "output_mode": "content"}),
    )
    assert "one" in read.text
    assert listed.text == "notes.txt"
    assert found.text.startswith("notes.txt:2:two")


async def test_without_anybody_to_ask_a_change_is_refused_and_the_flag_named(folder: Path) -> None:
    (refused,) = await results(bench_in(folder), ("Write", {"file_path": "new.txt", "content": "x"}))
    assert refused.is_error
    assert "--permissions edits" in refused.text
    assert not (folder / "new.txt").exists()


ASKED = {"questions": [{"question": "Which colour?", "options": [{"label": "red"}, {"label": "blue"}]}]}


@pytest.mark.parametrize("mode", ["plan", "ask", "all"])
async def test_the_model_asks_the_user_in_every_mode_without_permission(folder: Path, mode: str) -> None:
    async def choose(call_id: str, question: ChoiceQuestion) -> Given:
        assert (call_id, question.title) == ("c0", "Which colour?")
        return Given("answer", content={"q1": "blue"})

    settings = load(folder, environment=os.environ, flags={"model": "demo", "permissions.mode": mode}).settings
    (answered,) = await results(Workbench(settings, folder, front_end=FrontEnd(choose=choose)), ("AskUser", ASKED))
    assert (answered.text, answered.is_error) == ("Which colour? → blue", False)


async def test_with_nobody_to_ask_the_model_is_told_so_and_no_answer_is_made_up(folder: Path) -> None:
    (result,) = await results(bench_in(folder), ("AskUser", ASKED))
    assert result.is_error
    assert result.text.startswith("Nobody can answer")


def test_only_the_agent_that_talks_to_the_user_asks_the_user(folder: Path) -> None:
    bench = bench_in(folder)
    assert "AskUser" in [tool.name for tool in bench.tools]
    for profile in bench.found_profiles.profiles:
        with bench.subagents.start(Order(profile, "a task")) as setup:
            names = [tool.name for tool in setup.agent.tools]
            assert names
            assert "AskUser" not in names
    bench.close()
    other = bench_in(folder, tools=["Read"])
    assert [tool.name for tool in other.tools] == ["Read"]
    other.close()


async def test_a_file_outside_the_folders_is_not_attached_and_the_turn_goes_on(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(PNG)
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "chart.png").write_bytes(PNG)
    bench = bench_in(folder, permissions__folders=[str(tmp_path / "open")])
    paths = ["../secret.png", "../open/chart.png"]
    model = ScriptedModel([[call("Read", file_path=path, original=True) for path in paths], "Fine."])
    events: list[Event] = []
    session = Session(bench.agent(model=model), cwd=bench.folder, approve=bench.permissions, observer=events.append)  # type: ignore[arg-type]
    assert (await session.run("go")).text == "Fine."
    bench.close()
    refused, attached = session.messages[2].tool_results
    assert (refused.is_error, refused.attachments) == (True, ())
    assert "Read was not run" in refused.text
    assert [file.name for file in attached.attachments] == ["chart.png"]
    assert refused in [event.result for event in events if isinstance(event, ToolFinished)]


@pytest.mark.parametrize("use", ["off", "auto"])
@pytest.mark.parametrize("secrets", [None, []], ids=["built-in secrets", "no secrets"])
async def test_no_mode_shows_the_agent_the_keys_that_the_user_has_stored(
    folder: Path, use: str, secrets: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_SANDBOX", use)
    data_folder().mkdir(parents=True, exist_ok=True)
    for name in (keys.FILE, tokens.FILE):
        (data_folder() / name).write_text('{"OPENAI_API_KEY": {"key": "sk-stored-9f2c"}}')
        given = {} if secrets is None else {"permissions__secrets": secrets}
        bench = bench_in(folder, permissions__mode="all", sandbox__use=use, **given)
        path = data_folder() / name
        link = folder / "innocent.txt"
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        found = await results(
            bench,
            ("Read", {"file_path": str(path)}),
            ("Read", {"file_path": "innocent.txt"}),
            ("Grep", {"pattern": "stored", "path": str(path.parent), "output_mode": "content"}),
            ("Bash", {"command": f"cat {path}", "access": "read"}),
            ("Bash", {"command": "cat innocent.txt", "access": "write"}),
            ("Edit", {"file_path": str(path), "old_string": "sk", "new_string": "xx"}),
        )
        assert not [each.text for each in found if "9f2c" in each.text]
        assert found[0].is_error
        assert "9f2c" in path.read_text()


@pytest.mark.parametrize("use", ["off", "auto"])
async def test_no_mode_shows_the_agent_sessions_snapshots_or_settings(
    folder: Path, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_SANDBOX", use)
    other = folder / "logs"
    bench = bench_in(folder, permissions__mode="all", sandbox__use=use)
    bench.permissions.hide(other)
    paths = [
        data_folder() / "sessions" / "log.db",
        data_folder() / "sessions" / "snapshots" / "ab" / "abcd",
        config_file().parent / "mcp.json",
        config_file(),
        other / "log.db",
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("canary" if path != config_file() else "# canary")
    calls = [("Read", {"file_path": str(path)}) for path in paths]
    calls += [("Bash", {"command": f"cat {path}", "access": "read"}) for path in paths]
    calls += [("Grep", {"pattern": "canary", "path": str(data_folder()), "output_mode": "content"})]
    calls += [("Bash", {"command": "cat logs/*", "access": "write"})]
    found = await results(bench, *calls)
    assert not [each.text for each in found if "canary" in each.text]
    assert all(each.is_error for each in found[: len(paths)])


async def test_with_the_right_mode_it_is_done(folder: Path) -> None:
    bench = bench_in(folder, permissions__mode="edits")
    (written,) = await results(bench, ("Write", {"file_path": "new.txt", "content": "x"}))
    assert not written.is_error
    assert (folder / "new.txt").read_text() == "x"


async def test_an_answer_of_always_holds_for_the_next_workbench_here(folder: Path) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer("always")

    for _ in range(2):
        (done,) = await results(bench_in(folder, ask), ("Bash", {"command": "touch made"}))
        assert not done.is_error
    assert len(asked) == 1
    assert (folder / "made").exists()


async def test_commands_see_neither_keys_nor_what_changes_their_meaning(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "correct-horse")
    monkeypatch.setenv("BASH_ENV", str(folder / "evil.sh"))
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}:")
    (folder / "evil.sh").write_text("touch evil")
    for name in ("env", "ls", "bash"):
        (folder / name).write_text("#!/bin/sh\ntouch evil\n")
        (folder / name).chmod(0o755)
    (seen,) = await results(bench_in(folder, permissions__mode="all"), ("Bash", {"command": "/usr/bin/env; ls"}))
    assert "correct-horse" not in seen.text
    assert "BASH_ENV" not in seen.text
    assert not (folder / "evil").exists()


async def test_a_repository_within_the_repository_does_not_say_what_git_runs(folder: Path) -> None:
    evil = folder / "evil"
    for name in ("objects", "refs", "wt"):
        (evil / name).mkdir(parents=True)
    (evil / "HEAD").write_text("ref: refs/heads/main\n")
    (evil / "config").write_text(f'[core]\nbare = false\nworktree = wt\nfsmonitor = "touch {folder}/owned; false"\n')
    await results(bench_in(folder, permissions__mode="all"), ("Bash", {"command": "cd evil && git status"}))
    assert not (folder / "owned").exists()


@pytest.mark.parametrize("name", [".outrider/config.toml", ".outrider/tools/tool.py", "mine.py", "settings.toml"])
async def test_what_outrider_itself_goes_by_is_not_changed(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_CONFIG", str(folder / "settings.toml"))
    (folder / "mine.py").write_text("")
    (folder / ".outrider").mkdir()
    bench = bench_in(folder, permissions__mode="all", tool_files=[str(folder / "mine.py")])
    calls = [("Read", {"file_path": name}), ("Write", {"file_path": name, "content": "x = 1"})]
    _, written = await results(bench, *calls)
    assert written.is_error
    assert "not permitted" in written.text


async def test_the_installed_package_is_not_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = folder / "site-packages/outrider"
    (package / "coding").mkdir(parents=True)
    monkeypatch.setattr("outrider.coding.user_policy.__file__", str(package / "coding/user_policy.py"))
    calls = [("Write", {"file_path": str(package / name), "content": "x = 1"}) for name in ("errors.py", "coding/a.py")]
    for written in await results(bench_in(folder, permissions__mode="all"), *calls):
        assert written.is_error
        assert "not permitted" in written.text


async def test_what_a_background_command_prints_can_be_read(folder: Path) -> None:
    bench = bench_in(folder, permissions__mode="edits")
    bench.permissions.mode = "all"
    (started,) = await results_of_open(bench, ("Bash", {"command": "echo hello", "run_in_background": True}))
    printed = next(word.rstrip(".,;)") for word in started.text.split() if str(bench.workspace.temporary_path) in word)
    bench.permissions.mode = "ask"
    for _ in range(200):
        (read,) = await results_of_open(bench, ("Read", {"file_path": printed}))
        if "hello" in read.text:
            break
        await asyncio.sleep(0.05)
    bench.close()
    assert "hello" in read.text


def test_a_sandbox_that_must_be_there_and_is_not_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.coding.sandbox.available.find_sandbox", lambda **_: None)
    monkeypatch.delenv("OUTRIDER_SANDBOX")
    (folder / ".outrider").mkdir()
    (folder / ".outrider/config.toml").write_text('[sandbox]\nuse = "require"\n')
    with pytest.raises(ConfigError, match="outrider doctor"):
        _ = bench_in(folder).tools


async def test_the_system_prompt_has_the_instructions_of_the_project(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("Always whistle.")
    with default_log() as log, bench_in(folder, model="demo").open(log) as session:
        assert "Always whistle." in session.agent.system
        assert str(folder) in session.agent.system


def test_a_prompt_says_on_standard_error_that_there_is_no_sandbox(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("outrider.coding.sandbox.available.find_sandbox", lambda **_: None)
    monkeypatch.delenv("OUTRIDER_SANDBOX")
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["-p", "What is 2+2?", "--model", "demo"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err.count(NO_SANDBOX)) == ("4\n", 1)
    assert main(["-p", "What is 2+2?", "--model", "demo", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_the_sandbox_of_a_prompt_is_tried_after_its_request(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("outrider.coding.sandbox.available.find_sandbox", lambda **_: os.write(1, b"TRIED\n") and None)
    monkeypatch.delenv("OUTRIDER_SANDBOX")
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["-p", "What is 2+2?", "--model", "demo", "--output-format", "stream-json"]) == 0
    said = capfd.readouterr()
    assert said.out.count("TRIED") == 1
    assert said.out.index('"turn_started"') < said.out.index("TRIED")
    assert said.err.count(NO_SANDBOX) == 1


def test_the_user_is_told_once_if_there_is_no_sandbox(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.coding.sandbox.available.find_sandbox", lambda **_: None)
    monkeypatch.delenv("OUTRIDER_SANDBOX")
    bench = bench_in(folder)
    assert bench.project.sandbox_note == NO_SANDBOX
    assert not bench.permissions.sandboxed
    assert bench_in(folder, sandbox__use="off").project.sandbox_note == ""


@pytest.mark.parametrize("mode", ["ask", "edits", "all"])
async def test_the_environment_that_runs_outrider_is_not_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setitem(ENVIRONMENTS, str(folder / ".venv"), str(folder / ".venv"))
    sandbox = RecordingSandbox()
    monkeypatch.setattr("outrider.coding.sandbox.available.find_sandbox", lambda **_: sandbox)
    monkeypatch.delenv("OUTRIDER_SANDBOX")
    bench = bench_in(folder, permissions__mode=mode)
    written, _ = await results(
        bench, ("Write", {"file_path": ".venv/lib/x.pth", "content": "x"}), ("Bash", {"command": "true"})
    )
    assert f"the rule Edit({folder}/.venv) denies" in written.text
    [(_, places)] = sandbox.asked
    assert f"{bench.folder}/.venv" in places.protected


def test_the_setting_allow_hosts_reaches_the_sandbox(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.coding.sandbox.available.find_sandbox", lambda **_: NoSandbox())
    monkeypatch.delenv("OUTRIDER_SANDBOX")
    assert isinstance(bench_in(folder)._tools.sandbox, NoSandbox)
    assert isinstance(bench_in(folder, sandbox__allow_hosts=("pypi.org",))._tools.sandbox, ClosedNetwork)


async def test_a_sandbox_that_works_decides_about_the_first_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials: list[NoSandbox] = []

    def find(**_: object) -> NoSandbox:
        trials.append(NoSandbox())
        return trials[-1]

    monkeypatch.setattr("outrider.coding.sandbox.available.find_sandbox", find)
    monkeypatch.delenv("OUTRIDER_SANDBOX")
    bench = bench_in(folder)
    assert bench.tools
    assert not trials, "it is tried when a command needs it"
    assert not bench.permissions.sandboxed, "it is not in force before it is found"
    (ran,) = await results(bench, ("Bash", {"command": "for each in a b; do echo $each; done"}))
    assert ran.text == "a\nb", "without a sandbox, the user would have been asked about such a loop"
    assert bench.permissions.sandboxed
    assert bench.project.sandbox_note == ""
    assert len(trials) == 1


def test_a_sandbox_that_is_needed_during_its_trial_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Event(), threading.Event()
    trials: list[NoSandbox] = []

    def find(**_: object) -> NoSandbox:
        begun.set()
        assert may_end.wait(60)
        trials.append(NoSandbox())
        return trials[-1]

    monkeypatch.setattr("outrider.coding.sandbox.available.find_sandbox", find)
    monkeypatch.delenv("OUTRIDER_SANDBOX")
    bench = bench_in(folder)
    with ThreadPoolExecutor() as threads:
        note = threads.submit(lambda: bench.project.sandbox_note)
        assert begun.wait(60)
        verdict = threads.submit(lambda: bench.permissions.verdict("Bash"))
        assert not bench.permissions.sandboxed
        may_end.set()
        assert note.result() == ""
        verdict.result()
    assert bench.permissions.sandboxed
    assert len(trials) == 1


@pytest.mark.parametrize("file", ["mine/plugins/evil/plugin.json", "checks.json"])
async def test_a_model_does_not_change_programs_that_need_no_consent(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_CONFIG", str(tmp_path / "mine/config.toml"))
    bench = bench_in(tmp_path, permissions__mode="all", hooks__files=[str(tmp_path / "checks.json")])
    (refused,) = await results(bench, ("Write", {"file_path": str(tmp_path / file), "content": "{}"}))
    assert refused.is_error
    assert not (tmp_path / file).exists()


def test_a_session_of_a_program_opens_with_the_chosen_model(tmp_path: Path) -> None:
    """A model that is an object has no name that means something here."""
    with Log(tmp_path / "log") as log:
        with Session.open(log, agent=Agent(ScriptedModel(["Hello."]))) as made:
            asyncio.run(made.run("Hi"))
        with pytest.raises(UnknownModelError, match="there is no model 'scripted'"):
            Workbench(Settings(), tmp_path).open(log, made.id)
        session = Workbench(Settings(model="demo"), tmp_path).open(log, made.id)
        assert session.provider.name == "demo"
        session.close()
