"""What can be set, and its defaults."""

from __future__ import annotations

from outrider.coding.config.keys import DEFAULTS, KEYS, SECTIONS, VARIABLES
from outrider.coding.config.settings import Settings, flattened, nested
from outrider.coding.config.widening import _WIDER


def test_every_setting_has_a_key_a_default_and_a_judgement_of_what_widens() -> None:
    assert list(KEYS) == list(DEFAULTS) == list(flattened(Settings()))
    assert set(_WIDER) == set(KEYS)
    assert set(SECTIONS) == {"permissions", "sandbox", "web", "limits", "subagents", "chat", "acp"}


def test_settings_come_back_from_their_dotted_keys() -> None:
    changed = DEFAULTS | {"model": "demo", "limits.turns": None, "permissions.deny": ("Bash(rm:*)",)}
    assert nested({}) == Settings()
    assert flattened(nested(changed)) == changed


def test_every_default_is_a_value_that_could_have_been_written() -> None:
    written = {None: "none"}
    for key, default in DEFAULTS.items():
        if default is None and not key.startswith("limits."):
            continue  # what stands for "not set" is not written
        assert KEYS[key].kind.take(written.get(default, default), None) == default


def test_no_variable_stands_for_two_settings() -> None:
    assert len(VARIABLES) == len([key for key in KEYS.values() if key.variable])
