"""`outrider config`, run as a user runs it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from outrider.coding.config.remembered import RememberedRules
from outrider.coding.config.settings import SETTINGS
from tests.cli.program import outrider
from tests.coding.config import Home

SECRET = "sk-ant-REDACTED"
WIDE = '[permissions]\nmode = "all"\ndeny = ["Bash(rm:*)"]\n'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A user and a project."""
    return Home(tmp_path)


def config(home: Home, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `outrider config` in the project."""
    return outrider("config", *arguments, cwd=home.project, **(home.environment | more))


def test_every_setting_is_shown_with_its_value_and_its_origin(home: Home) -> None:
    home.user_says('model = "demo"\n[permissions]\nallow = ["Bash(ls)"]')
    home.project_says('[permissions]\ndeny = ["Bash(rm:*)", "WebFetch"]')
    ended = config(home, OUTRIDER_MAX_COST="0.5")
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = [line.split(maxsplit=2) for line in ended.stdout.splitlines()]
    assert [line[0] for line in lines if line and line[0] in SETTINGS] == list(SETTINGS)
    assert ["model", "demo", str(home.user_file)] in lines
    assert ["permissions.mode", "ask", "the default"] in lines
    assert ["permissions.deny", "Bash(rm:*)", ".outrider/config.toml"] in lines
    assert ["WebFetch"] in lines
    assert ["limits.max_cost", "0.5", "OUTRIDER_MAX_COST"] in lines
    assert ["limits.result_characters", "50,000", "the", "default"] in [" ".join(line).split() for line in lines]
    assert f"{home.user_file}  read" in ended.stdout
    assert ".outrider/config.toml" in ended.stdout
    assert "always allowed in this project: nothing" in ended.stdout
    columns = {line.index("the default") for line in ended.stdout.splitlines() if "the default" in line}
    assert len(columns) == 1


def test_what_was_allowed_for_good_and_what_waits_is_shown(home: Home) -> None:
    RememberedRules(home.data, home.project).add(["Bash(make test)"])
    home.project_says(WIDE)
    said = config(home).stdout
    assert "always allowed in this project\n  Bash(make test)\n" in said
    assert "not in effect until you agree (outrider trust)" in said
    assert "  setting permissions.mode  (.outrider/config.toml)\n" in said
    assert "allows      more is done without asking you" in said


def test_json_has_the_same(home: Home) -> None:
    RememberedRules(home.data, home.project).add(["Bash(make test)"])
    home.project_says(WIDE)
    ended = config(home, "--json", OUTRIDER_PERMISSION="x")
    found = json.loads(ended.stdout)
    assert list(found["settings"]) == list(SETTINGS)
    assert found["settings"]["permissions.mode"] == {"value": "ask", "origin": "the default"}
    assert found["settings"]["permissions.deny"] == {"value": ["Bash(rm:*)"], "origin": ".outrider/config.toml"}
    assert found["files"] == {str(home.user_file): False, ".outrider/config.toml": True}
    assert found["remembered"] == ["Bash(make test)"]
    assert [each["key"] for each in found["waiting"]] == ["permissions.mode"]
    assert len(found["notes"]) == 1


def test_keys_and_passwords_are_never_shown(home: Home) -> None:
    home.user_says(f'model = "http://me:hunter22@models.example/v1#x"\npermissions.deny = ["Bash(curl {SECRET}:*)"]')
    home.project_says('permissions.allow = ["Bash(login hidden-word)"]')
    RememberedRules(home.data, home.project).add([f"Bash(curl {SECRET})"])
    for arguments in ([], ["--json"]):
        ended = config(home, *arguments, ANTHROPIC_API_KEY=SECRET, MY_TOKEN="hidden-word")
        assert ended.returncode == 0
        for secret in ("4242", "hunter22", "hidden-word"):
            assert secret not in ended.stdout + ended.stderr


def test_what_a_project_writes_cannot_take_over_the_screen(home: Home) -> None:
    home.project_says('permissions.allow = ["Bash(a\\u001b[2J\\u202eb\\r\\nc)"]')
    for arguments in ((), ("trust",)):
        said = outrider(*(arguments or ("config",)), cwd=home.project, **home.environment).stdout
        assert "Bash(a" in said
        assert not {"\x1b", "\u202e", "\r"} & set(said)
        assert "\nc)" not in said


def test_forget_drops_rules(home: Home) -> None:
    RememberedRules(home.data, home.project).add(["Bash(make test)"])
    ended = config(home, "forget")
    assert ended.stdout.startswith("  Bash(make test)\nRemoved: 1 remembered rule.")
    assert RememberedRules(home.data, home.project).rules() == ()
    assert config(home, "forget").stdout.startswith("Removed: 0 remembered rules.")


def test_forget_drops_one_rule(home: Home) -> None:
    RememberedRules(home.data, home.project).add(["Bash(make test)", "Bash(make check) full"])
    ended = config(home, "forget", "Bash(make check) full")
    assert (ended.returncode, ended.stdout) == (0, "Removed: Bash(make check) full\n")
    assert RememberedRules(home.data, home.project).rules() == ("Bash(make test)",)
    ended = config(home, "forget", "Bash(other)")
    assert (ended.returncode, ended.stdout) == (1, "Not remembered: Bash(other)\n")


def test_path_prints_where_the_files_are(home: Home) -> None:
    assert config(home, "path").stdout.splitlines() == [str(home.user_file), str(home.project_file)]


def test_forget_and_path_work_while_a_file_is_broken(home: Home) -> None:
    home.project_says("this is not TOML")
    assert config(home, "forget").returncode == 0
    assert config(home, "path").returncode == 0


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_settings_that_cannot_be_used_are_2_and_one_line(home: Home, arguments: list[str]) -> None:
    home.project_says("[permisions]\nmode = 'all'")
    ended = config(home, *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        'outrider config: .outrider/config.toml, line 2: there is no setting "permisions.mode"; '
        'did you mean "permissions.mode"?\n'
    )


def test_wrong_usage_is_2_and_help_is_0(home: Home) -> None:
    assert config(home, "more").returncode == 2
    ended = config(home, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "exit codes" in ended.stdout


def test_it_shows_what_happens_to_commands_at_each_level(home: Home) -> None:
    shown = config(home, OUTRIDER_SANDBOX="off", OUTRIDER_PERMISSIONS="plan").stdout
    assert "shell commands in mode plan, without a sandbox" in shown
    assert "write    refused   runs without a sandbox, as you" in shown
    levels = json.loads(config(home, "--json", OUTRIDER_SANDBOX="off", OUTRIDER_PERMISSIONS="all").stdout)["access"]
    assert levels == {"read": "runs", "write": "runs", "network": "runs", "full": "runs"}


def test_a_setting_is_written_checked_and_removed(home: Home) -> None:
    home.user_says('# mine\nmodel = "demo"  # for now\n')
    ended = config(home, "set", "limits.max_turns", "7")
    assert (ended.returncode, ended.stdout) == (0, f"Wrote limits.max_turns = 7 to {home.user_file}.\n")
    config(home, "set", "permissions.allow", "Bash(ls)", "Bash(a, b)")
    allowed = '[permissions]\nallow = ["Bash(ls)", "Bash(a, b)"]\n'
    written = f'# mine\nmodel = "demo"  # for now\n\n[limits]\nmax_turns = 7\n\n{allowed}'
    assert home.user_file.read_text() == written
    assert home.user_file.stat().st_mode & 0o777 == 0o600
    for words, problem in (
        (("limits.max_turns", "many"), 'limits.max_turns must be a whole number over 0, or "none" for no limit'),
        (("limits.max_turn", "7"), 'there is no setting "limits.max_turn"; did you mean "limits.max_turns"?'),
        (("permissions.mode", "edit"), 'permissions.mode must be one of "ask"'),
    ):
        refused = config(home, "set", *words)
        assert refused.returncode == 2
        assert problem in refused.stderr
    assert home.user_file.read_text() == written
    other = config(home, "set", "limits.max_turns", "8", OUTRIDER_MAX_TURNS="9")
    assert "Here the value comes from OUTRIDER_MAX_TURNS." in other.stdout
    ended = config(home, "unset", "limits.max_turns")
    assert ended.stdout == f"Removed limits.max_turns from {home.user_file}. It is none now.\n"
    assert (
        "does not set limits.max_turns; for the project's, add --project"
        in config(home, "unset", "limits.max_turns").stdout
    )


def test_a_project_sets_what_it_may_and_what_allows_more_waits(home: Home) -> None:
    ended = config(home, "set", "permissions.mode", "all", "--project")
    assert ended.stdout.splitlines() == [
        'Wrote permissions.mode = "all" to .outrider/config.toml.',
        "The project's value of permissions.mode is not used until you agree: outrider trust",
    ]
    assert json.loads(config(home, "--json").stdout)["settings"]["permissions.mode"]["value"] == "ask"
    users = next(key for key, setting in SETTINGS.items() if setting.users_only)
    refused = config(home, "set", users, "x", "--project")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"a project does not set {users}" in refused.stderr
