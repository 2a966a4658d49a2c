"""Commands of one's own: arguments, files, shell commands, and what they may not do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.cli import main
from outrider.coding.commands import Command, read_command
from outrider.coding.extensions import Extensions
from outrider.coding.permissions.question import Answer, Question
from outrider.conversation.attachments import Attachment
from outrider.errors import ConfigError
from tests.cli.program import outrider
from tests.coding.test_found_skills import home, project
from tests.coding.test_workbench import bench_in
from tests.skills.samples import write_skill

__all__ = ["home", "project"]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def expanded(project: Path, line: str, ask: Any = None, **flags: Any) -> list[str | Attachment]:
    bench = bench_in(project, ask, **flags)
    try:
        return await bench.prompt_commands.expanded([line])
    finally:
        bench.close()


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("Review $ARGUMENTS.", "src and docs", "Review src and docs."),
        ("From $1 to $2", "'a b' c", "From a b to c"),
        ("First: $ARGUMENTS[0], third: $3.", "x y", "First: x, third: ."),
        ("Review it.", "with care", "Review it.\n\nArguments: with care"),
        ("Review it.", "", "Review it."),
        ("Don't panic: $1", "it's", "Don't panic: it's"),
        ("Costs $5000 or $x", "", "Costs 00 or $x"),
    ],
)
def test_arguments_are_filled_in(text: str, arguments: str, said: str) -> None:
    assert "".join(piece for _, piece in Command("x", text).pieces(arguments)) == said


def test_an_argument_adds_no_shell_command() -> None:
    pieces = Command("x", "Say $ARGUMENTS").pieces("!`rm -rf .` @/etc/passwd")
    assert {kind for kind, _ in pieces} == {"text"}


def test_commands_are_found_and_the_project_wins(home: Path, project: Path) -> None:
    write(home / ".claude/commands", "review", "of the user")
    write(home / ".outrider/commands", "mine", "mine")
    write(
        project / ".claude/commands",
        "review",
        "---\ndescription: Look closely\nargument-hint: [file]\n---\nof the project",
    )
    write(project / ".agents/commands", "frontend/check", "Check it")
    commands = {each.name: each for each in Extensions(project).commands.commands}
    assert set(commands) == {"init", "review", "mine", "frontend:check"}
    assert (commands["review"].text, commands["review"].description) == ("of the project", "Look closely")
    assert commands["review"].hint == "[file]"
    assert commands["frontend:check"].description == "Check it"


async def test_a_file_is_attached_and_the_output_of_a_command_takes_its_place(home: Path, project: Path) -> None:
    (project / "a.py").write_text("print(1)")
    write(project / ".claude/commands", "review", "Review @$1 after !`echo one two`, not @me or a@b.c.")

    async def ask(question: Question) -> Answer:
        assert question.asker == "/review"
        return Answer("once")

    said, file = await expanded(project, "/review a.py", ask)
    assert isinstance(said, str)
    assert isinstance(file, Attachment)
    assert said.startswith("Review @a.py after one two")
    assert said.endswith("not @me or a@b.c.")
    assert file.name == "a.py"


async def test_a_command_that_deletes_is_not_run_without_a_yes(home: Path, project: Path) -> None:
    (project / "kept.txt").write_text("kept")
    write(project / ".claude/commands", "clean", "Now !`rm -rf kept.txt`")
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer("no", "leave it")

    with pytest.raises(ConfigError, match=r"/clean was not sent: `rm -rf kept.txt`"):
        await expanded(project, "/clean", ask)
    with pytest.raises(ConfigError, match=r"/clean was not sent"):  # under -p there is nobody to ask
        await expanded(project, "/clean")
    with pytest.raises(ConfigError, match="Bash"):
        await expanded(project, "/clean", tools=("Read",))
    assert (project / "kept.txt").exists()


async def test_a_command_does_not_attach_secrets(home: Path, project: Path) -> None:
    (project / ".env").write_text("KEY=1")
    (project / "link.txt").symlink_to(project / ".env")
    (home / "private.txt").write_text("mine")
    for name in (".env", "link.txt", "~/private.txt"):
        write(project / ".claude/commands", "leak", f"Read @{name}")
        with pytest.raises(ConfigError, match=r"/leak was not sent: .* was not allowed"):
            await expanded(project, "/leak")


async def test_a_skill_can_be_called_by_its_name(home: Path, project: Path) -> None:
    write_skill(project / ".agents/skills", "pdf", body="Use ink.")
    (said,) = await expanded(project, "/pdf fill form.pdf")
    assert isinstance(said, str)
    assert "Use ink." in said
    assert said.endswith("fill form.pdf")


async def test_other_texts_stay_as_they_are(home: Path, project: Path) -> None:
    for line in ("/etc/hosts is odd", "/unknown", "hello /init", "/ init"):
        assert await expanded(project, line) == [line]


def test_hostile_files_are_refused_with_a_sentence(home: Path, project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    folder = project / ".claude/commands"
    write(folder, "good", "Good")
    write(folder, "\x1b[31mred", "Red")
    write(folder, "empty", "---\ndescription: x\n---\n")
    write(folder, "large", "x" * 70_000)
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    found = Extensions(project).commands
    assert [each.name for each in found.commands] == ["init", "good"]
    assert len(found.refused) == 4


def test_links_that_lead_back_do_not_delay_the_start(home: Path, project: Path) -> None:
    folder = project / ".claude/commands"
    write(folder, "good", "Good")
    for number in range(300):
        (folder / f"d{number}").symlink_to(".")
    assert [each.name for each in Extensions(project).commands.commands] == ["init", "good"]


def test_what_a_file_cannot_do_is_said() -> None:
    command = read_command("x", "---\nallowed-tools: Bash(*)\nmodel: opus\n---\nGo", Path("x.md"), "here")
    assert [remark.split()[0] for remark in command.remarks] == ["allowed-tools", "model"]


def test_the_command_lists_them_with_the_shell_commands_that_they_run(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    write(project / ".claude/commands", "log", "Sum up !`git log -5`")
    assert main(["commands"]) == 0
    printed = capsys.readouterr().out
    assert "/init" in printed
    assert "runs `git log -5`" in printed


@pytest.mark.sampled(1)
@pytest.mark.parametrize("line", ["/review src", "/init"])
def test_a_prompt_of_print_calls_a_command(line: str, home: Path, project: Path) -> None:
    write(project / ".claude/commands", "review", "What is 2+2? Not $1.")
    ended = outrider("-p", line, "--model", "demo", "--output-format", "stream-json", cwd=project)
    assert ended.returncode == 0, ended.stderr
    expected = "What is 2+2? Not src." if "review" in line else "Write an AGENTS.md at the root"
    assert expected in ended.stdout


def test_a_prompt_of_print_that_calls_nothing_is_wrong_usage(home: Path, project: Path) -> None:
    write(project / ".claude/commands", "review", "Review it.")
    ended = outrider("-p", "/reveiw src", "--model", "demo", cwd=project)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "there is no command or skill /reveiw; did you mean /review?" in ended.stderr
    assert "There are: /init, /review." in ended.stderr


@pytest.mark.parametrize("prompt", ["/usr is what?", " /reveiw", "/a/b is what?", "/ is what?"])
def test_a_path_or_a_space_at_the_beginning_is_no_call(prompt: str, home: Path, project: Path) -> None:
    ended = outrider("-p", prompt, "--model", "demo", cwd=project)
    assert ended.returncode == 0, ended.stderr
