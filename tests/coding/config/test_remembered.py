"""The answer "always", on the disk."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.coding import settings_files
from outrider.coding.config.remembered import RememberedRules
from outrider.errors import ConfigError
from tests.coding.config import Home, mode_of

ADDING = """
import sys
from pathlib import Path
from outrider.coding.config.remembered import RememberedRules

data, project, name = sys.argv[1:]
for number in range(20):
    RememberedRules(Path(data), Path(project)).add([f"Bash(run {name} {number})"])
"""


def rules_of(home: Home) -> RememberedRules:
    return RememberedRules(home.data, home.project)


def test_rules_are_remembered_for_their_project_alone(home: Home, tmp_path: Path) -> None:
    assert rules_of(home).rules() == ()
    rules_of(home).add(["Bash(git status)", "Read(/srv/**)"])
    rules_of(home).add(["Bash(git status)", "Bash(make test)"])
    assert rules_of(home).rules() == ("Bash(git status)", "Read(/srv/**)", "Bash(make test)")
    assert RememberedRules(home.data, tmp_path).rules() == ()


def test_asking_for_rules_makes_no_folder(home: Home) -> None:
    rules_of(home).rules()
    rules_of(home).forget()
    assert not home.data.exists()


def test_they_are_kept_readable_for_a_person_and_for_the_owner_alone(home: Home) -> None:
    before = os.umask(0)
    try:
        rules_of(home).add(["Bash(git status)"])
    finally:
        os.umask(before)
    path = rules_of(home).path
    assert json.loads(path.read_text()) == {"project": str(home.project), "allow": ["Bash(git status)"]}
    assert path.read_text().count("\n") > 3
    assert mode_of(path) == 0o600
    assert mode_of(path.parent) == mode_of(home.data) == 0o700


def test_a_cloned_project_brings_none_of_its_own(home: Home) -> None:
    rules_of(home).add(["Bash(git status)"])
    inside = home.project / ".outrider" / rules_of(home).path.name
    inside.write_text(json.dumps({"project": str(home.project), "allow": ["Bash"]}))
    assert rules_of(home).rules() == ("Bash(git status)",)


def test_what_is_forgotten_is_gone(home: Home) -> None:
    assert not rules_of(home).forget()
    rules_of(home).add(["Bash(git status)"])
    assert rules_of(home).forget()
    assert rules_of(home).rules() == ()


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"\xff\xfe", b'{"project": 3}', b'{"project": "/other", "allow": ["Bash"]}']
)
def test_a_damaged_file_allows_nothing_and_can_be_written_again(home: Home, damage: bytes) -> None:
    rules_of(home).add(["Bash(git status)"])
    rules_of(home).path.write_bytes(damage)
    assert rules_of(home).rules() == ()
    rules_of(home).add(["Bash(make)"])
    assert rules_of(home).rules() == ("Bash(make)",)


def test_a_rule_that_cannot_be_understood_is_left_out(home: Home) -> None:
    rules_of(home).add(["Bash(make)", "Bsh(make)", ")("])
    assert rules_of(home).rules() == ("Bash(make)",)


def test_processes_that_add_at_once_lose_nothing(home: Home) -> None:
    names = ("one", "two", "three", "four")
    adding = [
        subprocess.Popen([sys.executable, "-c", ADDING, str(home.data), str(home.project), name]) for name in names
    ]
    assert [each.wait(timeout=90) for each in adding] == [0] * len(names)
    wanted = {f"Bash(run {name} {number})" for name in names for number in range(20)}
    assert set(rules_of(home).rules()) == wanted
    assert not list(home.data.rglob("incoming-*"))


def test_a_process_that_died_while_it_wrote_holds_up_nobody(home: Home) -> None:
    rules_of(home).add(["Bash(make)"])
    code = (
        "import os, sys; from pathlib import Path; from outrider.coding.settings_files import locked\n"
        "lock = locked(Path(sys.argv[1])); lock.__enter__(); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(rules_of(home).path.parent)], timeout=30)
    assert ended.returncode == -9
    rules_of(home).add(["Bash(ls)"])
    assert rules_of(home).rules() == ("Bash(make)", "Bash(ls)")


def test_whoever_waits_too_long_for_the_lock_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    rules_of(home).add(["Bash(make)"])
    monkeypatch.setattr(settings_files, "LOCK_SECONDS", 0.05)
    with (rules_of(home).path.parent / "lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="is in use by another process"):
            rules_of(home).add(["Bash(ls)"])
    assert rules_of(home).rules() == ("Bash(make)",)


def test_a_full_disk_leaves_what_was_there(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    rules_of(home).add(["Bash(make)"])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="cannot be written: No space left on device"):
        rules_of(home).add(["Bash(ls)"])
    assert rules_of(home).rules() == ("Bash(make)",)
    assert not list(home.data.rglob("incoming-*"))


def test_a_project_is_the_same_through_a_link(home: Home, tmp_path: Path) -> None:
    rules_of(home).add(["Bash(make)"])
    (tmp_path / "link").symlink_to(home.project)
    assert RememberedRules(home.data, tmp_path / "link").rules() == ("Bash(make)",)
