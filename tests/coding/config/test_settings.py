"""What can be set, and its defaults."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from outrider.coding.config import declaration
from outrider.coding.config.declaration import Setting, declared_settings
from outrider.coding.config.settings import (
    DEFAULTS,
    SECTIONS,
    SETTINGS,
    VARIABLES,
    LimitSettings,
    Settings,
    flatten,
    unflatten,
)
from outrider.coding.config.value_types import Boolean, Choice, Number, PathList, RuleList, Text, ToolNameList
from outrider.runtime.limits import Limits
from tests.cli.program import outrider

FREE = {
    "lean",
    "temperature",
    "tool_calls",
    "permissions.ask",
    "permissions.deny",
    "context.compact_at",
    "context.clear_at",
    "chat.notify",
    "chat.show_thinking",
    "chat.theme",
    "chat.vi_keys",
    "acp.full_updates",
    "acp.update_interval",
}
"""The settings that a project may set to any value."""


def test_every_field_is_a_setting_and_only_harmless_ones_need_no_consent() -> None:
    assert list(SETTINGS) == list(DEFAULTS) == list(flatten(Settings()))
    assert {
        key
        for key, setting in SETTINGS.items()
        if setting.consent is declaration.FREE and not (setting.users_only or setting.managed_only)
    } == FREE
    sections = {
        "permissions",
        "sandbox",
        "web",
        "limits",
        "budget",
        "retry",
        "context",
        "subagents",
        "hooks",
        "mcp",
        "sessions",
        "chat",
        "acp",
        "telemetry",
        "managed",
    }
    assert set(SECTIONS) == sections


def test_the_type_of_a_field_decides_what_it_accepts() -> None:
    types = {key: setting.value_type for key, setting in SETTINGS.items()}
    assert types["model"] == Text()
    assert types["permissions.mode"] == Choice(("ask", "edits", "all", "plan"))
    assert types["web.private_addresses"] == Boolean()
    assert types["limits.max_turns"] == Number(whole=True)
    assert types["limits.max_cost"] == Number()
    assert types["limits.result_characters"] == Number(whole=True, unlimited=False)
    assert isinstance(types["permissions.deny"], RuleList)
    assert isinstance(types["tool_files"], PathList)
    assert isinstance(types["tools"], ToolNameList)


def test_a_new_field_alone_declares_a_setting() -> None:
    class Section(msgspec.Struct, frozen=True):
        colour: Annotated[bool, Setting("whether to use colours", variable="X_COLOUR"), declaration.FREE] = True

    more = msgspec.defstruct("More", [("output", Section, Section())])
    ((key, setting),) = declared_settings(more())
    assert (key, setting.variable) == ("output.colour", "X_COLOUR")
    assert (setting.value_type, setting.default) == (Boolean(), True)


def test_a_field_without_a_consent_rule_cannot_be_a_setting() -> None:
    section = msgspec.defstruct("Section", [("value", Annotated[bool, Setting("x")], True)])
    with pytest.raises(TypeError, match="value needs one consent rule"):
        list(declared_settings(section()))


@pytest.mark.parametrize("hint", [dict[str, str], tuple[str, ...], bytes])
def test_a_type_without_a_check_cannot_be_a_setting(hint: Any) -> None:
    section = msgspec.defstruct("Section", [("value", Annotated[hint, Setting("x"), declaration.FREE], None)])
    with pytest.raises(TypeError, match="cannot have the type"):
        list(declared_settings(section()))


def test_limits_are_the_limits_of_a_run() -> None:
    assert type(Settings().limits) is type(unflatten({"limits.max_turns": 3}).limits) is Limits
    assert LimitSettings.__struct_fields__ == Limits.__struct_fields__
    assert msgspec.to_builtins(LimitSettings()) == msgspec.to_builtins(Limits(max_turns=None))
    assert Settings().limits == Limits(max_turns=None), "a chat works as long as it makes progress"


def test_settings_come_back_from_their_dotted_keys() -> None:
    changed = DEFAULTS | {"model": "demo", "limits.max_turns": None, "permissions.deny": ("Bash(rm:*)",)}
    assert unflatten({}) == Settings()
    assert flatten(unflatten(changed)) == changed


def test_every_default_is_a_value_that_could_have_been_written() -> None:
    written = {None: "none"}
    for key, default in DEFAULTS.items():
        if default is None and not key.startswith("limits."):
            continue  # None for "not set" is not written
        assert SETTINGS[key].value_type.check(written.get(default, default), None) == default


def test_no_variable_stands_for_two_settings() -> None:
    assert len(VARIABLES) == len([setting for setting in SETTINGS.values() if setting.variable])


def test_every_flag_is_an_option_of_the_program() -> None:
    helps = outrider("-p", "--help").stdout + outrider("acp", "--help").stdout
    assert [setting.flag for setting in SETTINGS.values() if setting.flag not in helps] == []
