"""Where things are kept, and which model answers when none is named, as the environment says."""

from __future__ import annotations

import os
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The folder for what Outrider keeps: `OUTRIDER_HOME`, else the platform's place for such data."""
    if home := _set(environment).get("OUTRIDER_HOME"):
        return Path(home).expanduser()
    from platformdirs import user_data_path  # takes long to import, and most programs never ask

    return user_data_path("outrider")


def config_file(environment: Mapping[str, str] | None = None) -> Path:
    """The user's own settings: `OUTRIDER_CONFIG`, else config.toml in the platform's place for settings."""
    variables = _set(environment)
    if named := variables.get("OUTRIDER_CONFIG"):
        return Path(named).expanduser()
    base = Path(variables.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    if not base.is_absolute():  # as the standard for that variable says; a project must not get to bring the file
        base = Path("~/.config").expanduser()
    return base / "outrider" / "config.toml"


def debug_file() -> Path | None:
    """Where the terminal program should log for debugging: `OUTRIDER_DEBUG`; None if nowhere."""
    named = os.environ.get("OUTRIDER_DEBUG")
    return Path(named).expanduser() if named else None


def default_model() -> str:
    """The model for those who name none: `OUTRIDER_MODEL`, else a balanced one of the first provider that has a key.

    Where there is no key at all, that is the built-in demo model.
    """
    return os.environ.get("OUTRIDER_MODEL") or "balanced"


def _set(environment: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environment is None else environment
