"""Paths and the default model, as the environment variables set them."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return Outrider's data folder: `OUTRIDER_HOME`, else the platform's user data folder."""
    if home := _variables(environment).get("OUTRIDER_HOME"):
        return _path(home)
    from platformdirs import user_data_path  # slow to import, and most programs do not need it

    return user_data_path("outrider")


def workspaces_folder() -> Path:
    """Return the folder with the checkouts of a batch's tasks: beside `OUTRIDER_HOME`, else in the user's cache folder.

    It is not in the data folder, which no agent may change.
    """
    return _outside("workspaces")


def worktrees_folder() -> Path:
    """Return the folder with the git worktrees of sub-agents and tasks, in the same place."""
    return _outside("worktrees")


def _outside(name: str) -> Path:
    if home := os.environ.get("OUTRIDER_HOME"):
        return _path(f"{_path(home).absolute()}-{name}")
    from platformdirs import user_cache_path

    return user_cache_path("outrider") / name


LOG_VARIABLE = "OUTRIDER_LOG"
LOG_HELP = "a folder, or the URL of a Postgres database, for the sessions"
WORKSPACE_HELP = (
    "let the tools work elsewhere: ssh://[user@]host[:port]/path, container:NAME/path, pod:NAME/path, or 'COMMAND …' "
    "that runs a command there"
)
LOG_KEY_VARIABLE = "OUTRIDER_LOG_KEY"


def log_place() -> str | Path:
    """Return where sessions are kept: `OUTRIDER_LOG`, a folder or a URL, else a folder in the data folder."""
    return os.environ.get(LOG_VARIABLE) or data_folder() / "sessions"


def log_key() -> str:
    """Return the key that signs what a user says in a log, for machines that share one: `OUTRIDER_LOG_KEY`, or ""."""
    return os.environ.get(LOG_KEY_VARIABLE, "").strip()


def config_file(environment: Mapping[str, str] | None = None) -> Path:
    """Return the user's settings file: `OUTRIDER_CONFIG`, else config.toml in the user's config folder."""
    variables = _variables(environment)
    if named := variables.get("OUTRIDER_CONFIG"):
        return _path(named)
    base = _path(variables.get("XDG_CONFIG_HOME") or "~/.config")
    if not base.is_absolute():  # the XDG standard ignores relative paths; a project must not provide this file
        base = _path("~/.config")
    return base / "outrider" / "config.toml"


def debug_file() -> Path | None:
    """Return the debug log file of the terminal program: `OUTRIDER_DEBUG`, or None."""
    named = os.environ.get("OUTRIDER_DEBUG")
    return _path(named) if named else None


def default_model() -> str:
    """Return the default model: `OUTRIDER_MODEL`, else the balanced model of the first provider that has a key."""
    return os.environ.get("OUTRIDER_MODEL") or "balanced"


def _variables(environment: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environment is None else environment


def _path(name: str) -> Path:
    from pathlib import Path  # slow to import; programs that ask only for the default model do not need it

    return Path(name).expanduser()
