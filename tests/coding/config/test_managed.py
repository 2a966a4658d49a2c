"""Managed settings: what the administrator's file allows, nothing widens; a file that is not safe ends the start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from outrider.coding.config import managed
from outrider.coding.config.access_settings import ManagedSettings
from outrider.coding.config.editing import EditableFile
from outrider.coding.config.settings import Settings, flatten
from outrider.coding.workbench import Workbench
from outrider.errors import ConfigError
from outrider.mcp.servers import HttpServer, StdioServer
from outrider.providers.resolution import resolve
from tests.cli.program import outrider
from tests.coding.config import Home
from tests.coding.config.test_widening import WIDER

BOUNDS = [each for each in WIDER if each[0] and each[2] not in ("permissions.allow",)]


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's managed file, which is not there yet."""
    path = tmp_path / "etc" / "managed.toml"
    path.parent.mkdir()
    monkeypatch.setattr(managed, "MANAGED_FILE", path)
    monkeypatch.setattr(managed, "ADMINISTRATORS", (0, os.getuid()))
    return path


def values(home: Home, **given: Any) -> dict[str, Any]:
    return flatten(home.load(**given).settings)


@pytest.mark.parametrize(("bound", "wider", "key"), BOUNDS)
def test_nothing_widens_what_is_managed(home: Home, system: Path, bound: str, wider: str, key: str) -> None:
    system.write_text(bound)
    most = values(home)[key]
    home.user_says(wider)
    found = home.load()
    assert flatten(found.settings)[key] == most
    assert found.origins[key] == str(system)
    assert any(note.startswith(f"{key} from ") or "mode" in note for note in found.notes)


def test_a_bound_leaves_what_is_stricter(home: Home, system: Path) -> None:
    system.write_text('permissions.mode = "edits"\nlimits.max_cost = 5\nweb.search = "on"\nsandbox.use = "require"')
    found = home.load().settings
    assert (found.permissions.mode, found.web.search) == ("ask", "ask"), "a bound raises no default"
    assert (found.limits.max_cost, found.sandbox.use) == (5, "require"), "but lowers one"
    home.user_says('permissions.mode = "plan"\nlimits.max_cost = 2')
    found = home.load().settings
    assert (found.permissions.mode, found.limits.max_cost) == ("plan", 2)
    home.user_says('permissions.mode = "all"')
    assert home.load(flags={"limits.max_cost": 9.0}, OUTRIDER_SANDBOX="off").settings.limits.max_cost == 5
    assert home.load(OUTRIDER_SANDBOX="off").settings.sandbox.use == "require"
    assert home.load().settings.permissions.mode == "edits"


def test_rules_are_joined_and_what_is_locked_is_exact(home: Home, system: Path) -> None:
    system.write_text('permissions.deny = ["Bash(curl:*)"]\nchat.theme = "dark"')
    home.user_says('permissions.deny = ["Bash(rm:*)"]\npermissions.allow = ["Bash(ls)"]\nchat.theme = "light"')
    found = home.load().settings
    assert found.permissions.deny == ("Bash(curl:*)", "Bash(rm:*)")
    assert (found.permissions.allow, found.chat.theme) == (("Bash(ls)",), "light"), "only a default"
    system.write_text('[chat]\ntheme = "dark"\n[managed]\nlocked = ["chat.theme", "permissions.allow"]')
    loaded = home.load()
    assert (loaded.settings.permissions.allow, loaded.settings.chat.theme) == ((), "dark")
    assert len(loaded.notes) == 2
    assert loaded.managed == {str(system): ("chat.theme", "managed.locked", "permissions.allow")}


def test_a_further_file_narrows_and_never_replaces(home: Home, system: Path, tmp_path: Path) -> None:
    further = tmp_path / "further.toml"
    system.write_text('sandbox.use = "require"\nlimits.max_cost = 5\n[managed]\nmodels = ["demo"]')
    further.write_text('[limits]\nmax_cost = 9\nmax_turns = 3\n[managed]\nmodels = ["*"]\nlocked = ["sandbox.use"]')
    found = home.load(OUTRIDER_MANAGED=str(further)).settings
    assert (found.limits.max_turns, found.limits.max_cost, found.sandbox.use) == (3, 5, "require")
    assert found.managed.models == ("demo",)
    with pytest.raises(ConfigError, match=r"is not there, but OUTRIDER_MANAGED names it"):
        home.load(OUTRIDER_MANAGED=str(tmp_path / "nowhere.toml"))
    with pytest.raises(ConfigError, match="must be an absolute path"):
        home.load(OUTRIDER_MANAGED="here.toml")


def test_only_a_managed_file_has_the_section(home: Home) -> None:
    home.user_says('managed.models = ["*"]')
    with pytest.raises(ConfigError, match=r"line 1: only the managed file of this machine can set managed\.models"):
        home.load()
    home.user_says("")
    home.project_says("managed.own_hooks = true")
    with pytest.raises(ConfigError, match="only the managed file"):
        home.load()
    home.project_says("")
    with pytest.raises(ConfigError, match="there is no setting"):
        home.load(flags={"managed.max_mode": "all"})
    with pytest.raises(ConfigError, match="only the managed file"):
        EditableFile(home.project).set("managed.max_mode", ["all"])


@pytest.mark.parametrize("mode", [0o666, 0o622])
def test_a_file_that_others_could_change_ends_the_start(home: Home, system: Path, mode: int) -> None:
    system.write_text("")
    system.chmod(mode)
    with pytest.raises(ConfigError, match=r"nothing starts: .* could be changed by other users"):
        home.load()
    system.chmod(0o644)
    home.load()
    system.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="could be changed by other users"):
        home.load()
    system.parent.chmod(0o755)


def test_a_file_of_another_user_ends_the_start(home: Home, system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system.write_text("")
    monkeypatch.setattr(managed, "ADMINISTRATORS", (os.getuid() + 1,))
    with pytest.raises(ConfigError, match="could be changed by other users"):
        home.load()


@pytest.mark.parametrize("text", ["nonsense", "no_such = 1", "limits.max_cost = 'x'", '[managed]\nlocked = ["nope"]'])
def test_a_file_that_is_wrong_ends_the_start(home: Home, system: Path, text: str) -> None:
    system.write_text(text)
    with pytest.raises(ConfigError, match=r"managed\.toml"):
        home.load()
    system.unlink()
    system.symlink_to("nowhere")
    with pytest.raises(ConfigError, match="it is a broken link"):
        home.load()


# What holds later


def bench(home: Home, **fields: Any) -> Workbench:
    return Workbench(Settings(managed=ManagedSettings(**fields)), home.project)


def test_no_front_end_can_choose_a_looser_mode(home: Home) -> None:
    work = bench(home, max_mode="edits")
    work.use_mode("all", None)
    assert work.permissions.mode == "edits"
    work.use_mode("plan", None)
    assert work.permissions.mode == "plan"


def test_only_allowed_models_and_hosts_are_asked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    work = bench(home, models=("anthropic/*", "demo*"))
    work.agent(model="demo")
    work.agent(model="anthropic/claude-sonnet-4-5")
    for model in ("openai/gpt-5.6", "anthropic/fast,openai/fast", "http://127.0.0.1:1/v1#x"):
        with pytest.raises(ConfigError, match="not allowed on this machine; allowed: anthropic"):
            work.agent(model=model)
    hosts = ManagedSettings(model_hosts=("api.anthropic.com",))
    hosts.check_model(resolve("anthropic/fast"))
    hosts.check_model(resolve("demo"))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://elsewhere.example")
    with pytest.raises(ConfigError, match=r"at elsewhere\.example is not allowed"):
        hosts.check_model(resolve("anthropic/fast"))


def test_servers_are_allowed_by_what_they_are_not_by_name() -> None:
    allowed = ManagedSettings(mcp_servers=("https://mcp.example.com/*", "uvx mcp-server-time"))
    assert allowed.allows_server(HttpServer("x", "https://mcp.example.com/a"))
    assert allowed.allows_server(StdioServer("x", "uvx", ["mcp-server-time"]))
    assert not allowed.allows_server(StdioServer("mcp-server-time", "sh", ["-c", "uvx mcp-server-time"]))
    assert not allowed.allows_server(HttpServer("x", "https://evil.example/https://mcp.example.com/a"))
    assert not ManagedSettings(mcp_servers=()).allows_server(StdioServer("x", "uvx"))


def test_without_own_hooks_only_those_of_the_file_run(home: Home, system: Path, tmp_path: Path) -> None:
    for name in ("theirs", "mine"):
        hook = f'{{"hooks": {{"Stop": [{{"hooks": [{{"type": "command", "command": "echo {name}"}}]}}]}}}}'
        (tmp_path / f"{name}.json").write_text(hook)
    system.write_text(f'hooks.files = ["{tmp_path}/theirs.json"]\n[managed]\nown_hooks = false')
    home.user_says(f'hooks.files = ["{tmp_path}/mine.json"]')
    settings = home.load().settings
    assert [Path(each).name for each in settings.hooks.files] == ["theirs.json"]
    found = Workbench(settings, home.project).extensions.hooks.hooks
    assert [each.command for each in found] == ["echo theirs"]


def test_the_program_does_not_start_and_says_why(tmp_path: Path) -> None:
    file = tmp_path / "managed.toml"
    file.write_text('[permissions]\nmode = "ask"\n[managed]\nmodels = ["anthropic/*"]')
    refused = outrider("-p", "What is 2+2?", "--model", "demo", OUTRIDER_MANAGED=str(file))
    assert refused.returncode != 0
    assert "the model demo is not allowed on this machine" in refused.stderr.replace("demo/demo", "demo")
    shown = outrider("config", OUTRIDER_MANAGED=str(file)).stdout
    assert f"{file}  read, managed: permissions.mode, managed.models" in shown
    assert f"managed settings from {file}: " in outrider("doctor", OUTRIDER_MANAGED=str(file)).stdout
    file.chmod(0o666)
    unsafe = outrider("-p", "What is 2+2?", "--model", "demo", OUTRIDER_MANAGED=str(file))
    assert (unsafe.returncode, unsafe.stdout) == (2, "")
    assert "nothing starts" in unsafe.stderr
