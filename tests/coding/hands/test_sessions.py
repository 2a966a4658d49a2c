"""Sessions whose hands are in another process: everything a user does works there, and nothing happens here."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider import Log
from outrider.coding.config.settings import PermissionSettings, SandboxSettings, Settings
from outrider.coding.front_end import FrontEnd
from outrider.coding.permissions.question import Answer, Question
from outrider.coding.tasks import newest_text
from outrider.coding.workbench import Workbench
from outrider.conversation.messages import ToolResultBlock
from outrider.errors import ConfigError, HandsError
from outrider.runtime.session import Session
from outrider.testing import ScriptedModel, call
from tests.coding.hands.elsewhere import PipeStarter, process_starter
from tests.coding.toolbox.shelling import new_nap, sleepers, until

NO_SANDBOX = SandboxSettings(use="off")


def _reply(calls: Any) -> list[Any]:
    return calls if isinstance(calls, list) else [calls]


class Elsewhere:
    """A session here, in an empty folder, with a project there."""

    def __init__(self, tmp_path: Path, starter: Any = None, mode: str = "all", **settings: Any) -> None:
        self.here, self.there = tmp_path / "here", tmp_path / "there"
        self.here.mkdir()
        self.there.mkdir(exist_ok=True)
        self.questions: list[Question] = []
        self.answer = Answer("once")
        self.notices: list[str] = []
        given = {"permissions": PermissionSettings(mode=mode), "sandbox": NO_SANDBOX, **settings}  # type: ignore[arg-type]
        self.bench = Workbench(
            Settings(model="demo", **given),  # type: ignore[arg-type]
            self.here,
            front_end=FrontEnd(self._ask, on_server_notice=self.notices.append),
            workspace=starter or PipeStarter(self.there),
        )
        self.log = Log(tmp_path / "log")
        self.session: Session | None = None

    async def _ask(self, question: Question) -> Answer:
        self.questions.append(question)
        return self.answer

    async def run(self, *calls: Any, before: Callable[[Session], None] = lambda _: None) -> list[ToolResultBlock]:
        """The results of calls that a model makes, one after the other; those in a list in one reply."""
        if self.session is None:
            self.session = self.bench.open(self.log)
        self.session.agent = self.session.agent.replace(model=ScriptedModel([*map(_reply, calls), "done"]))
        known = len(self.results)
        before(self.session)
        result = await self.session.run("go")
        assert result.status == "done", result.error
        return self.results[known:]

    @property
    def results(self) -> list[ToolResultBlock]:
        assert self.session
        messages = self.log.messages(self.session.id)
        return [block for each in messages for block in each.content if isinstance(block, ToolResultBlock)]

    def close(self) -> None:
        if self.session:
            self.session.close()
        self.bench.close()
        self.log.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Elsewhere]:
    place = Elsewhere(tmp_path)
    yield place
    assert list(place.here.iterdir()) == []
    place.close()


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Elsewhere]:
    place = Elsewhere(tmp_path, mode="ask")
    yield place
    place.close()


async def test_every_tool_works_there(place: Elsewhere) -> None:
    written, read, edited, found, named, ran = await place.run(
        call("Write", file_path="a.txt", content="hello\n"),
        call("Read", file_path="a.txt"),
        call("Edit", file_path="a.txt", old_string="hello", new_string="bye"),
        call("Grep", pattern="by."),
        call("Glob", pattern="*.txt"),
        call("Bash", command="cat a.txt; pwd"),
    )
    assert (place.there / "a.txt").read_text() == "bye\n"
    assert [each.is_error for each in (written, read, edited, found, named, ran)] == [False] * 6
    assert "hello" in read.text
    assert found.text == "a.txt"
    assert named.text == "a.txt"
    assert ran.text == f"bye\n{place.there}"


async def test_a_question_shows_what_would_change_there(asking: Elsewhere) -> None:
    (asking.there / "a.txt").write_text("old\n")
    await asking.run(
        call("Read", file_path="a.txt"), call("Edit", file_path="a.txt", old_string="old", new_string="new")
    )
    (question,) = asking.questions
    assert question.diff == "@@ -1 +1 @@\n-old\n+new\n"
    assert question.changes == "changes 1 line in 1 place"
    assert (asking.there / "a.txt").read_text() == "new\n"


async def test_no_and_always_hold_there(asking: Elsewhere) -> None:
    asking.answer = Answer("no", "not now")
    (denied,) = await asking.run(call("Write", file_path="a.txt", content="x"))
    assert "not now" in denied.text
    assert not (asking.there / "a.txt").exists()
    asking.answer = Answer("always")
    await asking.run(call("Write", file_path="a.txt", content="x"))
    await asking.run(call("Read", file_path="a.txt"), call("Write", file_path="a.txt", content="y"))
    assert len(asking.questions) == 2
    assert (asking.there / "a.txt").read_text() == "y"


async def test_secrets_and_rules_hold_there(tmp_path: Path) -> None:
    rules = PermissionSettings(mode="all", deny=("Read(./closed/**)", "Bash(rm:*)"))
    place = Elsewhere(tmp_path, permissions=rules)
    (place.there / ".env").write_text("KEY=1")
    (place.there / "closed").mkdir()
    (place.there / "closed/x").write_text("x")
    results = await place.run(
        call("Read", file_path=".env"), call("Read", file_path="closed/x"), call("Bash", command="rm -r closed")
    )
    place.close()
    assert "secrets" in results[0].text
    assert "denies" in results[1].text
    assert "denies" in results[2].text
    assert (place.there / "closed/x").exists()


async def test_a_link_that_changed_while_the_user_was_asked_is_not_followed(asking: Elsewhere, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("keep")

    async def swap(question: Question) -> Answer:
        (asking.there / "a.txt").symlink_to(outside)
        return Answer("once")

    asking.bench.permissions._ask = swap
    (denied,) = await asking.run(call("Write", file_path="a.txt", content="x"))
    assert denied.is_error
    assert outside.read_text() == "keep"


async def test_the_prompt_has_the_instructions_and_skills_of_the_place(place: Elsewhere) -> None:
    (place.there / "AGENTS.md").write_text("Speak like a pirate.")
    (place.there / "sub").mkdir()
    (place.there / "sub/AGENTS.md").write_text("Whisper here.")
    (place.there / "sub/a.txt").write_text("x")
    skill = place.there / ".claude/skills/tidy"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: tidy\ndescription: tidies up\n---\nSweep the floor.")
    (place.there / ".claude/commands").mkdir()
    (place.there / ".claude/commands/look.md").write_text("Look at @sub/a.txt: !`echo $1`")
    agent = place.bench.agent()
    assert "Speak like a pirate." in str(agent.system)
    assert "tidies up" in str(agent.system)
    assert str(place.there) in agent.situation
    assert str(place.here) not in agent.situation
    (text,) = await place.bench.prompt_commands.parts("/tidy now")
    assert "Sweep the floor." in str(text)
    said, file = await place.bench.prompt_commands.parts("/look five")
    assert said == "Look at @sub/a.txt: five"
    assert b"".join(file.chunks()) == b"x"  # type: ignore[union-attr]
    first, second = await place.run(call("Read", file_path="sub/a.txt"), call("Read", file_path="sub/a.txt"))
    assert "Whisper here." in first.text
    assert "Whisper here." not in second.text


async def test_hooks_and_settings_of_the_place_do_not_count(place: Elsewhere, tmp_path: Path) -> None:
    (place.there / ".outrider").mkdir()
    (place.there / ".outrider/config.toml").write_text('[permissions]\ndeny = ["Read"]\n')
    (place.there / ".claude").mkdir()
    hook = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": f"touch {tmp_path}/ran"}]}]}}
    (place.there / ".claude/settings.json").write_text(str(hook).replace("'", '"'))
    (place.there / "a.txt").write_text("x")
    (read,) = await place.run(call("Read", file_path="a.txt"))
    assert not read.is_error
    assert not (tmp_path / "ran").exists()


async def test_files_that_the_user_names_come_from_there(place: Elsewhere) -> None:
    from outrider.cli.prompt_input import Mentions

    (place.there / "a.txt").write_text("there")
    (place.here.parent / "b.txt").write_text("here")
    mentions = await asyncio.to_thread(Mentions, f"see @a.txt, @{place.there} and @b.txt", place.bench.project.files)
    assert mentions.files == ["a.txt"]
    assert mentions.folders == [str(place.there)]
    assert mentions.missing() == ["b.txt"]
    (file,) = await asyncio.to_thread(mentions.attached)
    assert b"".join(file.chunks()) == b"there"
    assert await asyncio.to_thread(place.bench.hands.names) == ["a.txt"]  # type: ignore[union-attr]


async def test_a_rewind_restores_the_files_there(place: Elsewhere) -> None:
    (place.there / "a.txt").write_text("before")
    await place.run(call("Bash", command="echo after > a.txt; echo new > b.txt"))
    assert place.session
    preview = await place.session.rewind_preview(1)
    assert {each.path: each.action for each in preview.files} == {"a.txt": "change", "b.txt": "delete"}
    assert "+before" in next(each.diff for each in preview.files if each.path == "a.txt")
    await place.session.rewind(1)
    assert (place.there / "a.txt").read_text() == "before"
    assert not (place.there / "b.txt").exists()
    await place.session.undo_rewind()
    assert (place.there / "a.txt").read_text() == "after\n"


async def test_what_has_changed_since_the_commit_is_shown(place: Elsewhere) -> None:
    commit = ["-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-mx"]
    for arguments in (["init", "-q"], commit):
        await asyncio.to_thread(subprocess.run, ["git", *arguments], cwd=place.there, check=True)
    (place.there / "new.txt").write_text("x")
    assert await asyncio.to_thread(place.bench.project.changes_since_commit) == "new file: new.txt\n"


async def test_background_commands_and_terminals_are_there(place: Elsewhere) -> None:
    nap = new_nap()
    started, typed = await place.run(
        call("Bash", command=f"echo begun; sleep {nap}", run_in_background=True),
        call("Bash", command="read name; echo hello $name", terminal=True, timeout=500),
    )
    assert "background" in started.text
    assert "session" in typed.text
    (answered,) = await place.run(call("Bash", command="Ada\n", session=2))
    assert "hello Ada" in answered.text
    commands = place.bench.workspace.background
    command = commands.find(1)
    assert command
    assert command.running
    assert commands.running >= 1
    assert await asyncio.to_thread(newest_text, command) == "begun"
    await asyncio.to_thread(command.end)
    await until(lambda: not sleepers(nap))
    await until(lambda: not commands.find(1).running)  # type: ignore[union-attr]
    assert commands.find(1).ended_by_user  # type: ignore[union-attr]


async def test_a_long_output_is_stored_here(place: Elsewhere) -> None:
    (ran,) = await place.run(call("Bash", command="seq 1 200000"))
    assert ran.whole
    assert place.session
    assert place.session.store.read(ran.whole).endswith(b"199999\n200000\n")


async def test_a_cancel_ends_the_command_there(place: Elsewhere) -> None:
    nap = new_nap()
    place.session = session = place.bench.open(place.log)
    session.agent = session.agent.replace(model=ScriptedModel([[call("Bash", command=f"echo so far; sleep {nap}")]]))
    running = asyncio.ensure_future(session.run("go"))
    await until(lambda: sleepers(nap))
    session.cancel()
    result = await running
    assert result.status == "cancelled"
    await until(lambda: not sleepers(nap))
    (stopped,) = place.results
    assert stopped.is_unknown


async def test_sub_agents_have_a_shell_of_their_own_there(place: Elsewhere) -> None:
    (place.there / "sub").mkdir()
    workspace = place.bench.workspace.for_subagent()
    (bash,) = place.bench._tools.in_workspace(workspace, ["Bash"])
    from outrider.testing import tool_context

    await bash.invoke({"command": "cd sub"}, tool_context())
    assert (await bash.invoke({"command": "pwd"}, tool_context())).text == str(place.there / "sub")
    (own,) = await place.run(call("Bash", command="pwd"))
    assert own.text == str(place.there)
    workspace.close()


async def test_a_session_is_not_resumed_in_another_place(tmp_path: Path) -> None:
    place = Elsewhere(tmp_path)
    await place.run(call("Bash", command="pwd"))
    assert place.session
    session = place.session.id
    place.close()
    with Log(tmp_path / "log") as log:
        here = Workbench(Settings(model="demo"), place.here)
        with pytest.raises(ConfigError, match=r"this session works in pipe:.*: resume it with --in"):
            here.open(log, session)
        own = here.open(log)
        other = Workbench(Settings(model="demo"), place.here, workspace=PipeStarter(place.there))
        with pytest.raises(ConfigError, match="works on this machine: resume it without --in"):
            other.open(log, own.id)
        again = other.open(log, session)
        assert again.messages
        again.close()
        own.close()
        here.close()
        other.close()


# Processes that end


def killed_once(place: Elsewhere, nap: str) -> Callable[[Session], None]:
    def start(_: Session) -> None:
        async def kill() -> None:
            await until(lambda: sleepers(nap))
            os.kill(hands_process(place), signal.SIGKILL)

        place.killing = asyncio.ensure_future(kill())  # type: ignore[attr-defined]

    return start


def hands_process(place: Elsewhere) -> int:
    """The process of the hands."""
    assert place.bench.hands
    link = place.bench.hands.connection._link
    assert link
    return link._streams.process.pid  # type: ignore[attr-defined, no-any-return]


async def test_a_lost_connection_makes_a_writing_call_unknown_and_the_run_goes_on(tmp_path: Path) -> None:
    place = Elsewhere(tmp_path, process_starter(tmp_path / "there"))
    nap = new_nap()
    (place.there / "sub").mkdir()
    moved, lost, after = await place.run(
        call("Bash", command="cd sub"),
        call("Bash", command=f"echo once >> log; sleep {nap}"),
        call("Bash", command="cat log; pwd"),
        before=killed_once(place, nap),
    )
    assert not moved.is_error
    assert lost.is_unknown
    assert "unknown" in lost.text
    assert after.text == f"once\n{place.there}/sub"
    await until(lambda: not sleepers(nap))
    place.close()


async def test_a_session_that_is_killed_ends_its_hands_and_their_commands(tmp_path: Path) -> None:
    nap = new_nap()
    program = (
        "import sys, asyncio; from pathlib import Path; from tests.coding.hands.test_sessions import *\n"
        "place = Elsewhere(Path(sys.argv[1]), process_starter(Path(sys.argv[1]) / 'there'))\n"
        f"asyncio.run(place.run(call('Bash', command='sleep {nap}')))"
    )
    session = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(tmp_path))
    await until(lambda: sleepers(nap))
    session.kill()
    await session.wait()
    await until(lambda: not sleepers(nap))
    there = str(tmp_path / "there")
    await until(lambda: not [each for each in sleepers(there) if each != os.getpid()])
    assert list((tmp_path / "there").iterdir()) == []


async def test_a_place_that_cannot_be_reached_is_one_sentence(tmp_path: Path) -> None:
    from outrider.coding.hands.starter import ProgramStarter

    wrong = {
        "no such file": ["/no/such/program"],
        "they ended at once (permission denied": ["/bin/sh", "-c", "echo permission denied >&2; exit 1"],
        "and said: Welcome": ["/bin/sh", "-c", "echo Welcome"],
        "no such folder": [sys.executable, "-P", "-m", "outrider", "hands", "--folder", "/no/such"],
    }
    for number, (said, argv) in enumerate(wrong.items()):
        (tmp_path / str(number)).mkdir()
        place = Elsewhere(tmp_path / str(number), ProgramStarter(argv, "the moon"))
        with pytest.raises(HandsError) as raised:
            place.bench.hands.open()  # type: ignore[union-attr]
        assert said.lower() in str(raised.value).lower()
        assert str(raised.value).startswith("the hands in the moon cannot be reached: ")
        place.close()


async def test_a_banner_before_the_first_line_does_no_harm(tmp_path: Path) -> None:
    from outrider.coding.hands.starter import ProgramStarter

    argv = [sys.executable, "-P", "-m", "outrider", "hands", "--folder", str(tmp_path / "there")]
    shell = ["/bin/sh", "-c", 'echo "Last login: today"; exec "$@"', "sh", *argv]
    place = Elsewhere(tmp_path, ProgramStarter(shell, "a host"))
    assert (await asyncio.to_thread(place.bench.hands.open)).folder == str(place.there)  # type: ignore[union-attr]
    place.close()
