"""Settings files that cannot be used: each error names the file, the line where it can, the key, and what to do."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.coding.settings_files import MAX_BYTES, line_of
from outrider.errors import ConfigError
from tests.coding.config import Home
from tests.lengths import examples

NO = "there is no setting"
KEY = "sk-ant-REDACTED"


def complaint(home: Home, text: str | bytes) -> str:
    """What is said of a project's file with this text."""
    home.project_file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        home.load()
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[permisions]\nmode = "all"', f", line 2: {NO} \"permisions.mode\"; did you mean \"permissions.mode\"?"),
        ('permisions.mode = "all"', f", line 1: {NO} \"permisions.mode\"; did you mean \"permissions.mode\"?"),
        ("permisions = {}", ', line 1: there is no setting "permisions"; did you mean "permissions"?'),
        ('\nmode = "all"', ', line 2: there is no setting "mode"; did you mean "permissions.mode"?'),
        ("[limits]\nturns = 3", ', line 2: there is no setting "limits.turns"; it is called "limits.max_turns" now'),
        ("limits.tokens = 9", 'there is no setting "limits.tokens"; it is called "limits.max_total_tokens" now'),
        ("limits.tokens = '9'", 'it is called "limits.max_total_tokens" now'),
        ("turns = 3", ', line 1: there is no setting "turns"; did you mean "limits.max_turns"?'),
        ("[limit]\nturns = 3", ', line 2: there is no setting "limit.turns"; did you mean "limits.max_turns"?'),
        ("[permissions.mode]\nx = 1", "permissions.mode must be one of"),
        ("[web]\nzzz = 1", 'there is no setting "web.zzz"; known: web.private_addresses'),
        ("zzz = 1", "known: model, effort, cache, temperature, tools, lean, tool_calls, tool_files, log, workspace"),
        ('"permissions.mode" = "all"', ", line 1: write the key permissions.mode without quotes"),
        ("permissions = 3", ", line 1: permissions is a section, [permissions], with its own keys, not a"),
        ("[[permissions]]\nmode = 'ask'", "permissions is a section, [permissions], with its own keys, not a list"),
        ("[permissions]\n\nmode = 'al'", ', line 3: permissions.mode must be one of "ask", "edits", "all", "plan"'),
        ("permissions.mode = 3", "permissions.mode must be one of"),
        ("model = 3", ", line 1: model must be a text in quotes, not a whole number"),
        ("model = ' '", "model must be a text in one line, and not empty"),
        ('model = "a\\nb"', "model must be a text in one line, and not empty"),
        ("tools = 'Read'", ', line 1: tools must be a list of names of tools, as in ["…", "…"], not a text'),
        ("tools = ['Raed']", 'tools names "Raed"; the tools are Read, Write'),
        ("permissions.deny = ['', 'x']", "permissions.deny must be a list of rules; number 1 is empty"),
        ("permissions.deny = [3]", "permissions.deny must be a list of rules; number 1 is a whole number"),
        ("permissions.deny = [['x']]", "number 1 is a list"),
        ("permissions.deny = ['Bsh(rm)']", "permissions.deny has a rule that cannot be used: 'Bsh(rm)'"),
        ("permissions.allow = ['Bash(x *)']", "write Bash(x:*)"),
        ("permissions.folders = ['~nobody-of-this-name/x']", "which cannot be followed"),
        ('permissions.folders = ["a\\u0000b"]', "empty or has a NUL in it"),
        ("permissions.secrets = ['{" + ",".join("abcdefgh") * 60 + "}']", "has a pattern that cannot be used"),
        ("sandbox.use = 'never'", 'sandbox.use must be one of "auto", "off", "require", not "never"'),
        ("web.private_addresses = 'no'", 'must be true or false, without quotes in a file, not "no"'),
        ("web.private_addresses = 1", "must be true or false, without quotes in a file, not a whole number"),
        ("limits = {max_turns = 0}", ', line 1: limits.max_turns must be a whole number over 0, or "none" for no'),
        ("limits.max_turns = true", "not true or false"),
        ("limits.max_turns = 1.5", "limits.max_turns must be a whole number over 0"),
        ("limits.max_turns = 'lots'", 'not "lots"'),
        ("limits.max_turns = 99999999999999999999", "no more than 1,000,000,000,000,000"),
        ("limits.max_cost = -0.5", "limits.max_cost must be a number over 0"),
        ("limits.max_cost = nan", "limits.max_cost must be a number over 0"),
        ("limits.max_cost = inf", "limits.max_cost must be a number over 0"),
        ("limits.max_cost = 2026-11-15", "not a date or a time"),
        ("limits.result_characters = 'none'", "limits.result_characters must be a whole number over 0, not"),
        ("chat.show_thinking = 'yes'", "chat.show_thinking must be true or false"),
        ("model = ", " is not TOML: Invalid value (at end of document)"),
        ("a = 1\nmodel = 'x", " is not TOML: Expected \"'\""),
        ("model = 'x'\nmodel = 'y'", " is not TOML: Cannot overwrite a value"),
        ("a = " + "[" * 5000, " is nested too deeply"),
        ("limits.max_turns = " + "9" * 5000, " is not TOML: it has a number that is too long"),
        (b"model = '\xff'", ", line 1: the file is not UTF-8 text; save it as UTF-8"),
        ("model = 'x'".encode("utf-16"), ", line 1: the file is not UTF-8 text"),
        (b"model = \0", " is not TOML: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(home: Home, text: str | bytes, said: str) -> None:
    found = complaint(home, text)
    assert found.startswith(".outrider/config.toml")
    assert said in found
    assert "\n" not in found


@pytest.mark.parametrize(
    "text",
    [
        f'api_key = "{KEY}"',
        f'[anthropic]\napi_key = "{KEY}"',
        f'permissions.mode = "{KEY}"',
        f'web.private_addresses = "{KEY}"',
        f'limits.max_turns = "{KEY}"',
        f'tools = ["{KEY}"]',
        f'"{KEY}" = 1',
        f"{KEY.replace('-', '_')}4242aaaa = {KEY}",
        f'permissions.deny = ["Bash(curl -H {KEY}"]',
        f'permissions.deny = ["{KEY}({KEY})"]',
        f'permissions.folders = ["~{KEY}/x"]',
        f'"{KEY}" = 1\n"{KEY}" = 2',
        f"model = {KEY}",
    ],
)
def test_what_looks_like_a_key_is_not_repeated(home: Home, text: str) -> None:
    assert "4242" not in complaint(home, text)


def test_what_the_environment_keeps_secret_is_not_repeated(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "correct horse")
    assert "horse" not in complaint(home, 'permissions.mode = "correct horse"')
    assert "horse" not in complaint(home, 'permissions.deny = ["Bsh(correct horse)"]')


def test_a_key_has_its_place_in_the_environment(home: Home) -> None:
    assert "export them, as in ANTHROPIC_API_KEY" in complaint(home, 'token = "x"')


@pytest.mark.parametrize(
    "text", [b"\xef\xbb\xbfmodel = 'demo'\r\n[limits]\r\nmax_turns = 3\r\n", b"model='demo'\nlimits.max_turns=3"]
)
def test_a_byte_order_mark_and_line_ends_of_other_systems_are_fine(home: Home, text: bytes) -> None:
    home.project_file.write_bytes(text)
    found = home.load().settings
    assert (found.model, found.limits.max_turns) == ("demo", 3)


def test_a_folder_in_place_of_a_file_is_refused(home: Home) -> None:
    home.user_file.mkdir()
    with pytest.raises(ConfigError, match="cannot be used: it is a folder"):
        home.load()


def test_a_fifo_is_refused_at_once(home: Home) -> None:
    os.mkfifo(home.project_file)
    began = time.monotonic()
    with pytest.raises(ConfigError, match="it is a pipe, a device or a socket"):
        home.load()
    assert time.monotonic() - began < 20


def test_a_device_is_refused(home: Home) -> None:
    home.user_file.symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="it is a pipe, a device or a socket"):
        home.load()


def test_a_huge_file_is_refused_without_being_held(home: Home) -> None:
    with home.project_file.open("wb") as file:
        file.truncate(100 * MAX_BYTES)
    with pytest.raises(ConfigError, match=r"it is larger than 1.0 MiB"):
        home.load()


def test_a_file_of_the_largest_size_is_read(home: Home) -> None:
    home.project_file.write_bytes(b"#" * (MAX_BYTES - 21) + b"\nlimits.max_turns = 3")
    assert home.load().settings.limits.max_turns == 3


def test_a_link_that_leads_nowhere_is_no_missing_file(home: Home) -> None:
    home.project_file.symlink_to("gone.toml")
    with pytest.raises(ConfigError, match="it is a broken link"):
        home.load()


def test_a_loop_of_links_is_refused(home: Home) -> None:
    home.project_file.symlink_to("config.toml")
    with pytest.raises(ConfigError, match="cannot be read: "):
        home.load()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_an_error(home: Home) -> None:
    home.user_says("model = 'demo'")
    home.user_file.chmod(0)
    with pytest.raises(ConfigError, match="Permission denied; make it readable"):
        home.load()


def test_a_file_called_like_the_folder_of_settings_is_none(home: Home) -> None:
    home.project_file.parent.rmdir()
    home.project_file.parent.write_text("something else")
    assert not any(home.load().files.values())


def test_your_own_file_has_no_folder_to_count_paths_from(home: Home) -> None:
    home.user_says('permissions.folders = ["notes"]')
    with pytest.raises(ConfigError, match="in your own file a path begins with / or ~"):
        home.load()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(200))
@given(st.binary(max_size=200) | st.text(alphabet="[]={}'\"\n.# abm1_", max_size=80).map(str.encode))
def test_whatever_stands_in_a_file_it_is_settings_or_a_config_error(home: Home, content: bytes) -> None:
    home.project_file.write_bytes(content)
    with suppress(ConfigError):
        home.load()


@pytest.mark.parametrize(
    ("key", "text", "line"),
    [
        ("model", "# hello\nmodel = 1", 2),
        ("limits.max_turns", "[limits] # all of them\nmax_turns=1", 2),
        ("limits.max_turns", "[ limits ]\n\n  max_turns = 1", 3),
        ("limits.max_turns", "\"limits\" . 'max_turns' = 1", 1),
        ("limits.max_turns", "x = 1\nlimits = { max_turns = 1 }", 2),
        ("limits.max_turns", "[web]\nmax_turns = 1\n[limits]\nmax_turns = 2", 4),
        ("limits.max_turns", 'x = """\n[limits]\nmax_turns = 1\n"""\n[limits]\nmax_turns = 2', None),
        ("limits.max_turns", "x = 1", None),
    ],
)
def test_the_line_of_a_key_is_found_or_not_guessed(key: str, text: str, line: int | None) -> None:
    assert line_of(key, text) == line


@given(st.text(max_size=200), st.text(alphabet="abc.", max_size=8))
def test_looking_for_a_line_never_fails(text: str, key: str) -> None:
    found = line_of(key, text)
    assert found is None or 1 <= found <= text.count("\n") + 1


def test_the_path_of_this_test_is_not_in_a_repository(home: Home) -> None:
    """The tests above rely on it: a file further up would be found."""
    assert not any((folder / ".git").exists() for folder in [home.project, *Path(home.project).parents])
