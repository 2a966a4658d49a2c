"""The settings as lines for people, and what is said when one is changed: for the terminal, the chat and editors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from outrider.coding.config.editing import EditableFile
from outrider.coding.config.layers import DEFAULT
from outrider.coding.config.loading import Loaded, load
from outrider.coding.config.settings import SETTINGS, flatten
from outrider.coding.masking import mask_secrets
from outrider.errors import ConfigError
from outrider.text import counted
from outrider.text.visible import revealed_line, safe_line

USAGE = "Write /config, /config all, /config set KEY VALUE, or /config unset KEY."


def setting_lines(loaded: Loaded, *, changed: bool = False) -> Iterator[str]:
    """Yield the table, one line a value; the items of a list follow one another. `changed` leaves defaults out."""
    values = flatten(loaded.settings)
    rows = [
        (key, value_lines(key, values[key]), safe_line(loaded.origins[key]))
        for key in SETTINGS
        if not changed or loaded.origins[key] != DEFAULT
    ]
    key_width = max((len(key) for key, _, _ in rows), default=0)
    value_width = min(max((len(text) for _, texts, _ in rows for text in texts), default=0), 50)
    for key, texts, origin in rows:
        yield f"{key:{key_width}}  {texts[0]:{value_width}}  {origin}".rstrip()
        for text in texts[1:]:
            yield f"{'':{key_width}}  {text}"
    if changed:
        yield f"{counted(len(SETTINGS) - len(rows), 'other setting')} at the default: /config all"


def value_lines(key: str, value: Any) -> list[str]:
    """Return the value without secrets as one or more lines."""
    if isinstance(value, tuple):
        return [revealed_line(mask_secrets(each)) for each in value] or ["none"]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if value is None:
        return [SETTINGS[key].unset]
    if isinstance(value, int | float):
        return [f"{value:,}" if isinstance(value, int) else f"{value:g}"]
    return [revealed_line(mask_secrets(value))]


def set_setting(folder: Path, key: str, texts: Sequence[str], *, project: bool = False) -> list[str]:
    """Write a setting. Return where it is, and what stands in its way here. Raises ConfigError."""
    file = EditableFile(folder, project=project)
    value = file.set(key, texts)
    return [
        f"Wrote {key} = {revealed_line(mask_secrets(value))} to {safe_line(file.label)}.",
        *_remarks(folder, key, file),
    ]


def unset_setting(folder: Path, key: str, *, project: bool = False) -> list[str]:
    """Remove a setting. Return from where, and what applies now. Raises ConfigError."""
    file = EditableFile(folder, project=project)
    if not file.unset(key):
        other = "" if project else "; for the project's, add --project"
        return [f"{safe_line(file.label)} does not set {key}{other}."]
    value = ", ".join(value_lines(key, flatten(load(folder, environment=os.environ).settings)[key]))
    return [f"Removed {key} from {safe_line(file.label)}. It is {value} now.", *_remarks(folder, key, file)]


def _remarks(folder: Path, key: str, file: EditableFile) -> Iterator[str]:
    """Yield what else decides about the value."""
    loaded = load(folder, environment=os.environ)
    origin = loaded.origins[key]
    if any(item.name == key for item in loaded.waiting):
        yield f"The project's value of {key} is not used until you agree: outrider trust"
    elif origin not in (DEFAULT, file.label):
        yield safe_line(f"Here the value comes from {origin}.")


def run_config(folder: Path, loaded: Loaded, words: Sequence[str]) -> list[str]:
    """Do what the words after `/config` say, in the chat or an editor. Return lines. Raises ConfigError."""
    match words:
        case []:
            return [*setting_lines(loaded, changed=True)]
        case ["all"]:
            return [*setting_lines(loaded)]
        case [("set" | "unset") as action, key, *values] if bool(values) == (action == "set"):
            return set_setting(folder, key, values) if values else unset_setting(folder, key)
        case [key] if key in SETTINGS:
            return [*value_lines(key, flatten(loaded.settings)[key]), f"({loaded.origins[key]})"]
    raise ConfigError(USAGE)
