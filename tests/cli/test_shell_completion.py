"""What Tab completes: from the parsers, and in the shells that are installed."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outrider.cli import COMMANDS
from outrider.cli.command_tree import command_tree, parsers, shown_actions, subcommands
from outrider.cli.completion import SHELLS, complete, completion, known_tree
from outrider.coding.config.settings import SETTINGS
from outrider.environment import data_folder
from outrider.sync import default_log
from tests.cli.program import clean_environment, outrider

TREE = command_tree()


def completed(line: str) -> list[str]:
    *before, current = line.split(" ")
    return [word for word in complete(TREE, before, current)[1] if word.startswith(current)]


def test_every_command_and_every_option_of_the_parsers_is_completed() -> None:
    assert completed("") == list(COMMANDS)
    for name, parser in parsers():
        if name not in COMMANDS:
            continue
        below = {(name, each): child for each, (_, child) in subcommands(parser).items()}
        for words, each in {(name,): parser, **below}.items():
            options = [option for action in shown_actions(each) for option in action.option_strings]
            assert completed(f"{' '.join(words)} -") == options
        assert completed(f"{name} ")[: len(below)] == [each for _, each in below]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sess", ["sessions"]),
        ("sessions rew", ["rewind"]),
        ("--permi", ["--permissions"]),
        ("--permissions e", ["edits"]),
        ("--permissions=e", ["--permissions=edits"]),
        ("-p --output-format ", ["text", "json", "stream-json"]),
        ("--output-form", []),
        ("-p --output-form", ["--output-format"]),
        ("acp --effort l", ["low"]),
        ("-m dem", ["demo"]),
        ("-m anthropic/bal", ["anthropic/balanced"]),
        ("config set limits.max_co", ["limits.max_cost"]),
        ("config set permissions.mode ", ["ask", "edits", "all", "plan"]),
        ("config set chat.vi_keys --project t", ["true"]),
        ("login gem", ["gemini"]),
        ("completion ", list(SHELLS)),
        ("sessions list extra ", []),
    ],
)
def test_words_that_may_follow(line: str, words: list[str]) -> None:
    assert completed(line) == words


def test_files_and_folders_are_left_to_the_shell() -> None:
    assert complete(TREE, ["--attach"], "")[0] == "files"
    assert complete(TREE, ["--cwd"], "")[0] == "folders"
    assert complete(TREE, ["trust"], "")[0] == "folders"
    assert complete(TREE, ["mcp", "add", "x", "--"], "") == ("files", {})
    assert complete(TREE, ["--max-turns"], "") == ("", {})


def test_settings_are_those_of_the_settings() -> None:
    assert completed("config unset ") == list(SETTINGS)


def test_sessions_have_titles_and_servers_of_both_files_are_there(tmp_path: Path) -> None:
    with default_log() as log:
        for title in ("Mend the gate", "Feed\nthe \x1b[31mcat"):
            journal = log.create()
            journal.close()
            log.rename(journal.id, title)
        ids = [session.id[:8] for session in log.sessions()]
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"theirs": {}, "bad $(rm)": {}, "two words": {}}}')
    ended = outrider("completion", "words", "zsh", "sessions", "show", "", cwd=tmp_path)
    assert ended.stdout.splitlines()[0] == "words"
    assert sorted(line.split("\t")[0] for line in ended.stdout.splitlines()[1:]) == sorted(ids)
    assert "\tMend the gate\n" in ended.stdout
    assert "\x1b" not in ended.stdout
    ended = outrider("completion", "words", "fish", "mcp", "test", "", cwd=tmp_path)
    assert ended.stdout == "words\ntheirs\t\n"


def test_bash_gets_only_what_follows_a_break() -> None:
    said = outrider("completion", "words", "bash", "outrider --permissions=e").stdout
    assert said.startswith("words\nedits\t")


def test_the_list_is_made_once_for_each_version(monkeypatch: pytest.MonkeyPatch) -> None:
    (data_folder() / "completion.json").unlink(missing_ok=True)
    assert known_tree() == TREE
    assert (data_folder() / "completion.json").stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr("outrider.cli.command_tree.command_tree", lambda: pytest.fail("made again"))
    assert known_tree() == TREE
    monkeypatch.setattr("outrider.cli.completion.__version__", "0.0.0")
    monkeypatch.setattr("outrider.cli.command_tree.command_tree", lambda: {"new": 1})
    assert known_tree() == {"new": 1}
    (data_folder() / "completion.json").write_text("[")
    assert known_tree() == {"new": 1}


def test_tab_imports_nothing_heavy() -> None:
    outrider("completion", "words", "bash", "outrider ")  # makes the list
    code = (
        "import sys; from outrider.cli import main; main(['completion', 'words', 'bash', 'outrider sessions show ']); "
        "print(sorted({'argparse', 'asyncio', 'msgspec', 'logging', 'outrider.log.log'} & {*sys.modules}))"
    )
    environment = clean_environment() | {"OUTRIDER_HOME": os.environ["OUTRIDER_HOME"]}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ended.stdout.splitlines()[-1] == "[]", ended.stderr


class Shell:
    """An interactive shell in a pseudo-terminal."""

    def __init__(self, name: str, folder: Path) -> None:
        programs = folder / "bin"
        programs.mkdir()
        program = programs / "outrider"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m outrider "$@"\n')
        program.chmod(0o755)
        environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "TERM": "dumb", "HOME": str(folder)}
        environment |= {"PS1": "ready> ", "ZDOTDIR": str(folder), "HISTFILE": ""}
        self._name = name
        start = {
            "bash": ["bash", "--norc", "--noprofile", "-i"],
            "zsh": ["zsh", "-i"],
            "fish": ["fish", "--no-config", "-i"],
        }[name]
        self._process, self._master = _started(start, environment, folder)
        self.said = b""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, wanted: str) -> str:
        """Return what was said since the last wait, once it has the pattern."""
        end = time.monotonic() + 60
        while not re.search(wanted, _plain(self.said)):
            assert time.monotonic() < end, f"{wanted} did not come: {self.said!r}"
            if select.select([self._master], [], [], 0.2)[0]:
                self.said += os.read(self._master, 65536)
        said, self.said = _plain(self.said), b""
        return said

    def close(self) -> None:
        os.close(self._master)
        self._process.kill()
        self._process.wait()


def _plain(said: bytes) -> str:
    return re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|[()=>][A-Z0-9]?|\][^\x07]*\x07)|\r", "", said.decode(errors="replace"))


def _started(command: list[str], environment: dict[str, str], folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder, start_new_session=True
    )
    os.close(slave)
    return process, master


def is_installed(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not shutil.which(shell), reason=f"{shell} is not installed")


@is_installed("bash")
def test_tab_in_bash(tmp_path: Path) -> None:
    with default_log() as log:
        journal = log.create()
        journal.close()
        log.rename(journal.id, "Mend the gate")
    (tmp_path / "notes.txt").write_text("")
    shell = Shell("bash", tmp_path)
    try:
        shell.type('bind "set bell-style none"; PS1="ready> "; eval "$(outrider completion bash)"; echo do""ne\n')
        shell.wait_for("done")
        for typed, shown in (
            ("outrider sess\t", "outrider sessions "),
            ("outrider --permissions ed\t", "--permissions edits "),
            ("outrider config set permissions.mo\t", "permissions.mode "),
            (f"outrider sessions show {journal.id[:3]}\t", f"{journal.id[:8]} "),
            ("outrider --attach not\t", "notes.txt "),
        ):
            shell.type(typed)
            shell.wait_for(re.escape(shown))
            shell.type("\x15")
        shell.type("outrider sessions show \t")
        shell.wait_for(journal.id[:8])
        shell.type("\t\t\x15outrider doctor nothing \t; echo is empty\n")  # nothing more to complete, not even files
        assert "notes.txt" not in shell.wait_for("\nis empty")
        shell.type("\x15outrider mcp \t\t")
        assert "remove" in shell.wait_for("test ")
    finally:
        shell.close()


@is_installed("zsh")
def test_tab_in_zsh(tmp_path: Path) -> None:
    with default_log() as log:
        for title in ("Mend the gate", "Feed the cat"):
            journal = log.create()
            journal.close()
            log.rename(journal.id, title)
    shell = Shell("zsh", tmp_path)
    try:
        shell.type('autoload -U compinit; compinit -u -D; eval "$(outrider completion zsh)"; echo do""ne\n')
        shell.wait_for("done")
        shell.type("outrider sess\t")
        shell.wait_for("sessions ")
        shell.type("show \t")
        said = shell.wait_for("Mend the gate")
        assert "Feed the cat" in said + shell.said.decode()
        shell.type("\x15outrider config set permissions.mo\t")
        shell.wait_for("permissions.mode")
    finally:
        shell.close()


@is_installed("fish")
def test_tab_in_fish(tmp_path: Path) -> None:
    script = tmp_path / "outrider.fish"
    script.write_text(outrider("completion", "fish").stdout)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "outrider").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m outrider "$@"\n')
    (programs / "outrider").chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def said(line: str) -> str:
        code = f'source {script}; complete -C "{line}"'
        command = ["fish", "--no-config", "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60).stdout

    assert said("outrider sess") == f"sessions\t{COMMANDS['sessions']}\n"
    assert said("outrider config set permissions.mo").startswith("permissions.mode\t")
    assert said("outrider --permissions=ed").startswith("--permissions=edits\t")


def test_a_script_is_printed_for_each_shell(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in SHELLS:
        completion([shell])
        assert f"completion words {shell}" in capsys.readouterr().out
