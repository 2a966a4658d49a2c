"""The order of settings: defaults, user file, project file, environment, command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.coding.config.layers import DEFAULT, Layer, merge
from outrider.coding.config.settings import DEFAULTS, SETTINGS, Settings, flatten
from outrider.errors import ConfigError
from tests.coding.config import Home


def test_without_any_file_all_is_as_by_default(home: Home) -> None:
    loaded = home.load()
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {DEFAULT}
    assert not loaded.waiting
    assert loaded.notes == ()
    assert list(loaded.files.values()) == [False, False]


def test_each_layer_goes_over_the_one_below(home: Home) -> None:
    def turns(**more: Any) -> tuple[int | None, str]:
        loaded = home.load(**more)
        return loaded.settings.limits.max_turns, loaded.origins["limits.max_turns"]

    assert turns() == (None, "the default")
    home.user_says("[limits]\nmax_turns = 40")
    assert turns() == (40, str(home.user_file))
    home.project_says("[limits]\nmax_turns = 30")
    assert turns() == (30, ".outrider/config.toml")
    assert turns(OUTRIDER_MAX_TURNS="60") == (60, "OUTRIDER_MAX_TURNS")
    assert turns(OUTRIDER_MAX_TURNS="60", flags={"limits.max_turns": 70}) == (70, "--max-turns")
    assert turns(OUTRIDER_MAX_TURNS="", flags={"limits.max_turns": None}) == (30, ".outrider/config.toml")


def test_rules_of_all_layers_count_together(home: Home) -> None:
    home.user_says('[permissions]\ndeny = ["Bash(rm:*)"]\nallow = ["Bash(ls:*)"]')
    home.project_says('[permissions]\ndeny = ["Read(private/**)", "Bash(rm:*)"]\nask = ["Bash(git push:*)"]')
    loaded = home.load(flags={"permissions.deny": ["WebFetch"]})
    assert loaded.settings.permissions.deny == ("Bash(rm:*)", "Read(private/**)", "WebFetch")
    assert loaded.settings.permissions.ask == ("Bash(git push:*)",)
    assert loaded.settings.permissions.allow == ("Bash(ls:*)",)
    assert loaded.origins["permissions.deny"] == f"{home.user_file} and .outrider/config.toml and the command line"
    assert not loaded.waiting


def test_the_environment_sets_what_it_can(home: Home) -> None:
    settings = home.load(
        OUTRIDER_MODEL="demo",
        OUTRIDER_PERMISSIONS="plan",
        OUTRIDER_TOOLS="Read, Grep",
        OUTRIDER_SANDBOX="require",
        OUTRIDER_PRIVATE_ADDRESSES="1",
        OUTRIDER_MAX_TURNS="none",
        OUTRIDER_MAX_TOTAL_TOKENS="1000",
        OUTRIDER_MAX_COST="0.5",
        OUTRIDER_MAX_SECONDS="60",
        OUTRIDER_TOOL_SECONDS="5",
    ).settings
    assert (settings.model, settings.tools) == ("demo", ("Read", "Grep"))
    assert settings.permissions.mode == "plan"
    assert settings.sandbox.use == "require"
    assert settings.web.private_addresses is True
    limits = settings.limits
    assert (limits.max_turns, limits.max_total_tokens, limits.max_cost, limits.max_seconds, limits.tool_seconds) == (
        None,
        1000,
        0.5,
        60,
        5,
    )


def test_a_variable_can_say_that_there_are_no_tools(home: Home) -> None:
    assert home.load(OUTRIDER_TOOLS="none").settings.tools == ()


def test_every_variable_is_heeded(home: Home) -> None:
    samples = {
        "Text": "demo",
        "Choice": "",
        "Boolean": "yes",
        "Number": "7",
        "Fraction": "0.7",
    }
    samples |= {"ToolNameList": "Read"}
    for key, setting in SETTINGS.items():
        if setting.variable:
            kind = setting.value_type
            text = samples[type(kind).__name__] or kind.options[-1]  # type: ignore[attr-defined]
            assert home.load(**{setting.variable: text}).origins[key] == setting.variable


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("OUTRIDER_COMPACT_AT", "85", 'OUTRIDER_COMPACT_AT must be a share, a number over 0 and at most 1, or "none"'),
        ("OUTRIDER_MAX_TURNS", "many", 'OUTRIDER_MAX_TURNS must be a whole number over 0, or "none" for no limit'),
        ("OUTRIDER_MAX_TURNS", "0", "OUTRIDER_MAX_TURNS must be a whole number over 0"),
        ("OUTRIDER_MAX_COST", "nan", "OUTRIDER_MAX_COST must be a number over 0"),
        ("OUTRIDER_MAX_TOKENS", "1000", "is called OUTRIDER_MAX_TOTAL_TOKENS now; rename the variable"),
        ("OUTRIDER_PERMISSIONS", "edit", 'did you mean "edits"?'),
        ("OUTRIDER_PRIVATE_ADDRESSES", "perhaps", "OUTRIDER_PRIVATE_ADDRESSES must be true or false"),
        ("OUTRIDER_TOOLS", "Read,bash", 'did you mean "Bash"?'),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(home: Home, variable: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        home.load(**{variable: value})
    assert said in str(caught.value)
    assert str(caught.value).startswith(variable)


def test_a_variable_that_is_nearly_one_of_ours_is_noted(home: Home) -> None:
    (note,) = home.load(OUTRIDER_PERMISSION="all", OUTRIDER_ANTHROPIC_FAST="x", OUTRIDER_DEBUG="y").notes
    assert note == "the variable OUTRIDER_PERMISSION is ignored; did you mean OUTRIDER_PERMISSIONS?"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"limits.max_turns": 0}, "--max-turns must be a whole number over 0"),
        ({"limits.max_turns": "many"}, "--max-turns must be a whole number over 0"),
        ({"permissions.mode": "everything"}, "--permissions must be one of"),
        ({"limits.turn": 3}, 'did you mean "limits.max_turns"?'),
        ({"permissions.allow": ["Bsh(ls)"]}, "--allow has a rule that cannot be used"),
    ],
)
def test_a_flag_that_makes_no_sense_is_named(home: Home, flags: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        home.load(flags=flags)
    assert said in str(caught.value)


def test_the_nearest_project_file_upwards_counts_but_not_beyond_the_repository(home: Home) -> None:
    inner = home.project / "a" / "b"
    inner.mkdir(parents=True)
    home.project_says("limits.max_turns = 7")
    assert home.load(folder=inner).settings.limits.max_turns is None  # no repository: only the folder itself
    (home.project / ".git").mkdir()
    loaded = home.load(folder=inner)
    assert (loaded.settings.limits.max_turns, loaded.origins["limits.max_turns"]) == (7, "../../.outrider/config.toml")
    (home.project / "a" / ".git").write_text("gitdir: elsewhere")  # a worktree, or a submodule
    assert home.load(folder=inner).settings.limits.max_turns is None
    (home.project / "a" / ".outrider").mkdir()
    (home.project / "a" / ".outrider" / "config.toml").write_text("limits.max_turns = 8")
    assert home.load(folder=inner).settings.limits.max_turns == 8


def test_a_project_file_further_up_speaks_of_its_own_folder(home: Home) -> None:
    (home.project / ".git").mkdir()
    (home.project / "sub").mkdir()
    home.project_says('[permissions]\ndeny = ["Read(private/**)", "Edit(./a/b)", "Read(*.pem)", "Bash(rm -r x/y:*)"]')
    root = home.project
    assert home.load(folder=root / "sub").settings.permissions.deny == (
        f"Read({root}/private/**)",
        f"Edit({root}/a/b)",
        "Read(*.pem)",
        "Bash(rm -r x/y:*)",
    )
    assert home.load().settings.permissions.deny[0] == "Read(private/**)"


def test_paths_become_absolute_where_they_are_written(home: Home) -> None:
    home.user_says('tool_files = ["~/tools.py"]')
    home.project_says('tool_files = ["tools/mine.py"]\npermissions.folders = ["../shared"]')
    home.agree()
    settings = home.load(flags={"tool_files": ["here.py"]}).settings
    own = str((Path.home() / "tools.py").resolve())
    assert settings.tool_files == (own, str(home.project / "tools" / "mine.py"), str(home.project / "here.py"))
    assert settings.permissions.folders == (str(home.project.parent / "shared"),)


def test_a_file_that_is_both_the_users_and_the_projects_is_the_users(home: Home) -> None:
    home.project_says('[permissions]\nmode = "all"')
    loaded = home.load(OUTRIDER_CONFIG=str(home.project_file))
    assert (loaded.settings.permissions.mode, loaded.waiting) == ("all", ())


def test_the_users_file_is_found_by_xdg_config_home_unless_that_is_relative(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home.project.parent / "nobody"))
    monkeypatch.chdir(home.project)
    file = home.project / "xdg" / "outrider" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('permissions.mode = "all"')
    assert home.load(OUTRIDER_CONFIG="", XDG_CONFIG_HOME=str(home.project / "xdg")).settings.permissions.mode == "all"
    assert home.load(OUTRIDER_CONFIG="", XDG_CONFIG_HOME="xdg").settings.permissions.mode == "ask"


def test_without_a_file_no_toml_is_imported(home: Home) -> None:
    code = (
        "import sys; from pathlib import Path; from outrider.coding.config.loading import load\n"
        f"load(Path({str(home.project)!r}), environment={home.environment!r})\n"
        "unwanted = ('tomllib', 'asyncio', 'aiohttp', 'outrider.providers.adapters.anthropic')\n"
        "print([name for name in unwanted if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_the_places_imports_nothing_of_the_settings() -> None:
    code = (
        "import sys, outrider.environment\n"
        "print(*(name for name in sys.modules if name.startswith(('outrider.', 'msgs'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert set(done.stdout.split()) <= {"outrider.environment", "outrider.exports", "outrider.version"}


RULES = st.lists(st.sampled_from(["Bash(rm:*)", "Read(a/**)", "WebFetch", "Edit", "my_tool"]), max_size=4, unique=True)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "model": st.sampled_from(["demo", "fast", "anthropic/fast"]),
    "permissions.mode": st.sampled_from(["ask", "edits", "all", "plan"]),
    "permissions.allow": RULES.map(tuple),
    "permissions.ask": RULES.map(tuple),
    "permissions.deny": RULES.map(tuple),
    "web.private_addresses": st.booleans(),
    "limits.max_turns": st.none() | st.integers(1, 100),
}
LAYERS = st.lists(
    st.builds(
        lambda values, name: Layer(values, dict.fromkeys(values, name)),
        st.fixed_dictionaries({}, optional=VALUES),
        st.sampled_from(["a file", "a variable", "a flag"]),
    ),
    max_size=5,
)


@given(LAYERS)
def test_scalars_are_those_of_the_last_layer_that_has_one(layers: list[Layer]) -> None:
    whole = merge(layers)
    for key in ("model", "permissions.mode", "web.private_addresses", "limits.max_turns"):
        having = [layer for layer in layers if key in layer.values]
        assert whole.values[key] == (having[-1].values[key] if having else DEFAULTS[key])
        assert whole.origins[key] == (having[-1].origins[key] if having else DEFAULT)


@given(LAYERS)
def test_no_rule_of_any_layer_is_lost_and_none_is_invented(layers: list[Layer]) -> None:
    whole = merge(layers)
    for key in ("permissions.allow", "permissions.ask", "permissions.deny"):
        said = [rule for layer in layers for rule in layer.values.get(key, ())]
        assert list(whole.values[key]) == list(dict.fromkeys(said))


@given(LAYERS)
def test_every_key_has_a_value_and_an_origin(layers: list[Layer]) -> None:
    whole = merge(layers)
    assert list(whole.values) == list(whole.origins) == list(SETTINGS)
    assert all(whole.origins.values())


def test_the_origins_of_loaded_settings_are_complete(home: Home) -> None:
    home.user_says("model = 'demo'")
    loaded = home.load(flags={"permissions.mode": "plan"}, OUTRIDER_MAX_COST="1")
    assert list(loaded.origins) == list(flatten(loaded.settings))
