"""Every setting by its dotted key, derived from the fields of `Settings`."""

from __future__ import annotations

import re

from outrider.coding.config.declaration import DeclaredSetting, declared_settings
from outrider.coding.config.masking import quoted
from outrider.coding.config.settings import Settings
from outrider.runtime.limits import FORMER_NAMES

SETTINGS: dict[str, DeclaredSetting] = dict(declared_settings(Settings()))
"""In the order in which they are shown."""

DEFAULTS = {key: setting.default for key, setting in SETTINGS.items()}
SECTIONS = tuple(dict.fromkeys(key.partition(".")[0] for key in SETTINGS if "." in key))
VARIABLES = {setting.variable: key for key, setting in SETTINGS.items() if setting.variable}

FORMER_KEYS = {f"limits.{former}": f"limits.{name}" for former, name in FORMER_NAMES.items()}
FORMER_VARIABLES = {"OUTRIDER_MAX_TOKENS": "OUTRIDER_MAX_TOTAL_TOKENS"}
"""Names in earlier versions. They are refused with the new name: ignoring one would lift a limit."""

_SECRET = re.compile(r"key|token|secret|password|credential", re.IGNORECASE)


def advice(unknown: str, *, is_text: bool = False) -> str:
    """Return what to do about an unknown key, to end a sentence. A text may be a secret, judged by its key."""
    if unknown in FORMER_KEYS:
        return f"it is called {quoted(FORMER_KEYS[unknown])} now"
    if is_text and _SECRET.search(unknown.rpartition(".")[2]):
        return "API keys and passwords do not belong in settings: export them, as in ANTHROPIC_API_KEY=…"
    if meant := _closest_key(unknown):
        return f"did you mean {quoted(meant)}?"
    section = unknown.partition(".")[0]
    known = [key for key in SETTINGS if key.startswith(f"{section}.")] or SETTINGS
    return f"known: {', '.join(known)}"


def _closest_key(unknown: str) -> str:
    """Return the key with the same name in another section, or one that is spelt alike; else ""."""
    last = unknown.rpartition(".")[2].lower()
    elsewhere = [key for key in SETTINGS if key.rpartition(".")[2] == last]
    if len(elsewhere) == 1:
        return elsewhere[0]
    if last in FORMER_NAMES:
        return f"limits.{FORMER_NAMES[last]}"
    from difflib import get_close_matches

    if close := get_close_matches(unknown.lower(), [*SETTINGS, *SECTIONS], 1, 0.7):
        return close[0]
    names = {key.rpartition(".")[2]: key for key in SETTINGS}
    shortened = last.removeprefix("max_").removesuffix("s")
    alike = get_close_matches(last, names, 1, 0.75) or get_close_matches(shortened, names, 1, 0.75)
    return names[alike[0]] if alike else ""
