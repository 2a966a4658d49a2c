"""Hooks in files: consent, the sandbox, what they are told, what they may do, and hostile ones."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider.cli import main
from outrider.coding.config.loading import load
from outrider.coding.consent.item import Consents, waiting_note
from outrider.coding.extensions import Extensions
from outrider.coding.front_end import FrontEnd
from outrider.coding.hooks.hook_files import HookCommand, read_hooks
from outrider.coding.permissions.question import Answer, Question
from outrider.coding.workbench import Workbench
from outrider.environment import config_file, data_folder
from outrider.log.questions import Answer as Given
from outrider.log.questions import ChoiceQuestion
from outrider.runtime.events import Notice
from outrider.runtime.run import RunResult
from outrider.sync import default_log
from outrider.testing import ScriptedModel, call
from tests.coding.test_found_skills import home, project
from tests.coding.test_workbench import bench_in

__all__ = ["home", "project"]


def write_hooks(project: Path, event: str, command: str, file: str = ".claude/settings.json", **options: Any) -> Path:
    path = project / file
    path.parent.mkdir(exist_ok=True)
    group = {"hooks": [{"type": "command", "command": command, **options}]}
    path.write_text(json.dumps({"hooks": {event: [group]}}))
    return path


def trust(project: Path) -> None:
    Consents(data_folder()).give(Extensions(project).waiting)


async def run(bench: Workbench, steps: list[Any], events: list[Any] | None = None) -> RunResult:
    model = ScriptedModel(steps)
    try:
        with default_log() as log:
            session = bench.open(log, observer=(events if events is not None else []).append)
            session.agent = session.agent.replace(model=model)
            with session:
                return await session.run("go")
    finally:
        bench.close()


async def test_hooks_of_a_project_wait_for_consent_and_one_changed_byte_asks_again(home: Path, project: Path) -> None:
    (project / "check.sh").write_text("exit 0")
    path = write_hooks(project, "PreToolUse", 'sh "$CLAUDE_PROJECT_DIR"/check.sh')
    found = Extensions(project).hooks
    assert (len(found.hooks), len(found.waiting)) == (0, 1)
    assert waiting_note(found.waiting) == "1 hook waits for your consent, not used until you agree: outrider trust"
    trust(project)
    assert len(Extensions(project).hooks.hooks) == 1
    (project / "check.sh").write_text("exit 1")  # the script counts as well
    assert len(Extensions(project).hooks.waiting) == 1
    trust(project)
    path.write_text(path.read_text() + " ")  # the form of the file does not count
    assert len(Extensions(project).hooks.hooks) == 1
    write_hooks(project, "PreToolUse", 'sh "$CLAUDE_PROJECT_DIR"/check.sh', timeout=61)
    assert len(Extensions(project).hooks.waiting) == 1
    trust(project)
    # Other files of the folder for agents have a consent of their own.
    write_hooks(project, "Stop", "true", ".outrider/hooks.json")
    trust(project)
    assert len(Extensions(project).hooks.hooks) == 2


async def test_a_hook_reads_the_event_and_blocks_with_exit_code_2(home: Path, project: Path) -> None:
    write_hooks(project, "PreToolUse", "cat > seen.json; echo 'not this one' >&2; exit 2")
    trust(project)
    result = await run(bench_in(project), [call("Read", file_path="a.txt"), "Fine."])
    (refused,) = result.conversation[2].tool_results
    assert refused.text == "Read was not run: a hook blocked it: not this one"
    seen = json.loads((project / "seen.json").read_text())
    assert (seen["hook_event_name"], seen["tool_name"]) == ("PreToolUse", "Read")
    assert seen["tool_input"] == {"file_path": "a.txt"}
    assert (seen["cwd"], seen["permission_mode"]) == (str(project), "ask")


async def test_a_hook_of_the_user_needs_no_consent_and_answers_in_json(home: Path, project: Path) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"file_path": "b.txt"}}}
    own = config_file().parent
    own.mkdir(parents=True, exist_ok=True)
    write_hooks(own.parent, "PreToolUse", f"echo '{json.dumps(answer)}'", f"{own.name}/hooks.json")
    (project / "b.txt").write_text("of b")
    result = await run(bench_in(project), [call("Read", file_path="a.txt"), "Fine."])
    assert "of b" in result.conversation[2].tool_results[0].text


async def test_a_permission_that_a_hook_gives_does_not_widen_ours(home: Path, project: Path) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
    write_hooks(project, "PreToolUse", f"echo '{json.dumps(answer)}'")
    trust(project)
    result = await run(bench_in(project), [call("Write", file_path="new.txt", content="x"), "Fine."])
    assert result.conversation[2].tool_results[0].is_error
    assert not (project / "new.txt").exists()


async def test_a_stop_hook_keeps_the_run_going_once(home: Path, project: Path) -> None:
    command = 'grep -q \'"stop_hook_active": true\' && exit 0; echo "Run the tests." >&2; exit 2'
    write_hooks(project, "Stop", command)
    trust(project)
    result = await run(bench_in(project), ["Done.", "Tests pass."])
    assert result.text == "Tests pass."


async def test_what_a_hook_prints_for_a_prompt_is_context(home: Path, project: Path) -> None:
    write_hooks(project, "UserPromptSubmit", "echo 'The branch is main.'")
    trust(project)
    result = await run(bench_in(project), ["Done."])
    assert result.conversation[0].text.endswith("[A hook says:]\nThe branch is main.")


async def test_a_hook_that_hangs_and_forks_is_ended_with_its_children(home: Path, project: Path) -> None:
    write_hooks(project, "PreToolUse", "(sleep 1000 & echo $! > child.pid; wait) & setsid sleep 1001 & wait", timeout=1)
    trust(project)
    (project / "a.txt").write_text("of a")
    result = await run(bench_in(project), [call("Read", file_path="a.txt"), "Fine."])
    (refused,) = result.conversation[2].tool_results
    assert refused.is_error, "a hook without a verdict lets nothing through"
    assert "did not end within 1 seconds" in refused.text
    assert not sleepers_in(project)


async def test_a_hook_that_cannot_be_started_blocks_a_call_and_is_a_notice_elsewhere(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk() -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_hooks(project, "PreToolUse", "exit 2")
    write_hooks(project, "PostToolUse", "exit 2", ".agents/hooks.json")
    write_hooks(project, "Stop", "true", ".outrider/hooks.json")
    trust(project)
    (project / "a.txt").write_text("of a")
    monkeypatch.setattr("outrider.coding.hooks.hook_runner.tempfile.TemporaryFile", full_disk)
    events: list[Any] = []
    result = await run(bench_in(project), [call("Read", file_path="a.txt"), "Fine."], events)
    (refused,) = result.conversation[2].tool_results
    assert refused.is_error
    assert "No space left on device" in refused.text
    assert any("No space left on device" in each.text for each in events if isinstance(each, Notice))


def sleepers_in(project: Path) -> list[str]:
    """The programs named sleep that still run in a folder."""
    processes = Path("/proc").glob("[0-9]*/cmdline")
    return [each.parent.name for each in processes if b"sleep\x00100" in _reads(each) and _is_ours(each, project)]


def _reads(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _is_ours(path: Path, project: Path) -> bool:
    try:
        return os.readlink(path.parent / "cwd") == str(project)
    except OSError:
        return False


async def test_a_cancel_ends_the_program_of_a_hook(home: Path, project: Path) -> None:
    write_hooks(project, "UserPromptSubmit", "touch begun; sleep 1000", timeout=500)
    trust(project)
    bench = bench_in(project)
    with default_log() as log, bench.open(log) as session:
        running = asyncio.ensure_future(session.run("go"))
        while not (project / "begun").exists():
            await asyncio.sleep(0.01)
        session.cancel()
        assert (await running).status == "cancelled"
        left = sleepers_in(project)
    bench.close()
    assert not left


async def test_hooks_run_in_a_process_with_many_open_files(home: Path, project: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1500:
        pytest.skip("this machine does not let a process open many files")
    write_hooks(project, "UserPromptSubmit", "echo The branch is main.")
    trust(project)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1500), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        result = await run(bench_in(project), ["Done."])
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert result.conversation[0].text.endswith("The branch is main.")


async def test_much_output_is_bounded(home: Path, project: Path) -> None:
    write_hooks(project, "UserPromptSubmit", f"{sys.executable} -c 'print(\"x\" * 5_000_000)'")
    trust(project)
    result = await run(bench_in(project), ["Done."])
    assert len(result.conversation[0].text) < 11_000


async def test_a_question_to_the_person_is_told_to_the_hooks(home: Path, project: Path) -> None:
    write_hooks(project, "Notification", "cat > told.json")
    trust(project)

    async def ask(question: Question) -> Answer:
        while not (project / "told.json").exists() or not (project / "told.json").read_text():
            await asyncio.sleep(0.01)
        return Answer("no")

    await run(bench_in(project, ask), [call("Write", file_path="new.txt", content="x"), "Fine."])
    assert "Write" in json.loads((project / "told.json").read_text())["message"]


async def test_a_question_of_the_model_is_told_to_the_hooks(home: Path, project: Path) -> None:
    write_hooks(project, "Notification", "cat > told.json")
    trust(project)

    async def choose(call_id: str, question: ChoiceQuestion) -> Given:
        while not (project / "told.json").exists() or not (project / "told.json").read_text():
            await asyncio.sleep(0.01)
        return Given("decline")

    settings = load(project, environment=os.environ, flags={"model": "demo"}).settings  # without a sandbox
    bench = Workbench(settings, project, front_end=FrontEnd(choose=choose))
    await run(bench, [call("AskUser", questions=[{"question": "Which colour?"}]), "Fine."])
    assert json.loads((project / "told.json").read_text())["message"] == "AskUser: Which colour?"


def test_faults_in_files_are_named_and_the_rest_is_used() -> None:
    good = {"matcher": "Bash|Write", "hooks": [{"type": "command", "command": "true"}]}
    data = {
        "hooks": {
            "PreToolUse": [good, {"matcher": "(", "hooks": []}, {"hooks": [{"type": "prompt", "prompt": "x"}]}, 3],
            "WorldEnd": [good],
            "Stop": {"hooks": [{"command": "true", "timeout": 100_000}]},
        }
    }
    hooks, notes = read_hooks(data, "hooks.json")
    assert [(hook.event, hook.matcher) for hook in hooks] == [("PreToolUse", "Bash|Write")]
    assert len(notes) == 5
    assert all(note.startswith("hooks.json: ") for note in notes)
    assert read_hooks({"hooks": 3}, "x")[1] == ['x: "hooks" must be a table of events']


@pytest.mark.parametrize(
    ("matcher", "tool", "fits"),
    [
        *[("Bash", "Bash", True), ("Bash", "BashOutput", False), ("", "Read", True), ("*", "Read", True)],
        *[("Edit|Write", "Write", True), ("mcp__.*", "mcp__a__b", True), ("TodoWrite", "Todo", True)],
        ("AskUserQuestion", "AskUser", True),
    ],
)
def test_a_matcher_names_tools(matcher: str, tool: str, fits: bool) -> None:
    assert HookCommand("PreToolUse", "true", matcher).matches(tool) == fits


def test_the_command_lists_hooks_and_approves_them(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    assert main(["hooks"]) == 0
    assert "No hooks." in capsys.readouterr().out
    write_hooks(project, "Stop", "echo \x1b[31mred")
    assert main(["hooks"]) == 0
    printed = capsys.readouterr().out
    assert "not used until you agree" in printed
    assert main(["trust", "--yes"]) == 0
    printed = capsys.readouterr().out
    assert "echo" in printed
    assert "\x1b" not in printed
    assert main(["hooks"]) == 0
    assert "Stop: echo" in capsys.readouterr().out
    assert main(["hooks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hooks"][0]["event"] == "Stop"
    (project / ".claude/settings.json").write_text("{")
    assert main(["hooks"]) == 2
    assert "it is not JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("exit 1", "failed with exit code 1"),
        ("exit 127", "failed with exit code 127"),
        ("echo why >&2; exit 3", "failed with exit code 3: why"),
        ("kill -9 $$", "signal 9"),
        ("echo '{'", "an answer that cannot be used: it is not JSON"),
        ('echo \'{"decision": "blok"}\'', "decision has an unknown value"),
        ('echo \'{"hookSpecificOutput": {"permissionDecision": "no"}}\'', "permissionDecision has an unknown value"),
        ('echo \'{"hookSpecificOutput": {"updatedInput": 3}}\'', "updatedInput is not an object"),
        ("./no-such-program-here", "failed with exit code 127"),
    ],
)
async def test_a_guard_that_fails_in_any_way_denies(home: Path, project: Path, command: str, said: str) -> None:
    write_hooks(project, "PreToolUse", command)
    trust(project)
    (project / "a.txt").write_text("of a")
    result = await run(bench_in(project), [call("Read", file_path="a.txt"), "Fine."])
    (refused,) = result.conversation[2].tool_results
    assert refused.is_error
    assert said in refused.text


async def test_a_project_does_not_change_how_a_guard_of_the_user_runs(home: Path, project: Path) -> None:
    own = config_file().parent
    own.mkdir(parents=True, exist_ok=True)
    write_hooks(own.parent, "PreToolUse", "touch seen && echo no >&2; exit 2", f"{own.name}/hooks.json")
    (project / ".outrider").mkdir()
    (project / ".outrider/config.toml").write_text('[hooks]\naccess = "read"\n')
    result = await run(bench_in(project), [call("Read", file_path="a.txt"), "Fine."])
    assert "a hook blocked it: no" in result.conversation[2].tool_results[0].text
    assert (project / "seen").exists()


async def test_calls_that_fail_have_an_event_of_their_own(home: Path, project: Path) -> None:
    write_hooks(project, "PostToolUse", "cat >> after.json")
    write_hooks(project, "PostToolUseFailure", "cat >> failed.json", ".agents/hooks.json")
    trust(project)
    await run(bench_in(project), [call("Read", file_path="gone.txt"), "Fine."])
    assert not (project / "after.json").exists()
    failed = json.loads((project / "failed.json").read_text())
    assert (failed["hook_event_name"], failed["tool_response"]["is_error"]) == ("PostToolUseFailure", True)
