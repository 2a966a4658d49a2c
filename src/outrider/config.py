"""What the user has set: where data lives, and which model answers when none is named."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """The folder for what Outrider keeps: `OUTRIDER_HOME`, else the platform's place for such data."""
    if home := os.environ.get("OUTRIDER_HOME"):
        return Path(home).expanduser()
    from platformdirs import user_data_path  # takes long to import, and most programs never ask

    return user_data_path("outrider")


def debug_file() -> Path | None:
    """Where the terminal program should log for debugging: `OUTRIDER_DEBUG`; None if nowhere."""
    named = os.environ.get("OUTRIDER_DEBUG")
    return Path(named).expanduser() if named else None


def default_model() -> str:
    """The model for those who name none: `OUTRIDER_MODEL`, else a balanced one of the first provider that has a key.

    Where there is no key at all, that is the built-in demo model.
    """
    return os.environ.get("OUTRIDER_MODEL") or "balanced"
