"""Where the commands keep sessions: `--log`, else `OUTRIDER_LOG`, else the setting `log`, else the data folder."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from outrider.environment import LOG_VARIABLE, config_file

_SET = re.compile(rb"^\s*log\s*=", re.MULTILINE)
_PASSWORD = re.compile(r"postgres(?:ql)?://[^/@:]*:[^/@]+@")


def take_log_option(arguments: list[str]) -> list[str]:
    """Put the value of `--log` into the environment, where programs that this one starts find it. Return the others.

    It must not be an argument of those programs: other users can read arguments.
    """
    place, others = option_value(arguments, "--log")
    if place is None:
        return arguments
    if _PASSWORD.match(place):
        advice = "set OUTRIDER_LOG or PGPASSWORD, or use a password file, instead"
        print(f"outrider: other users of this machine can read the password in --log; {advice}", file=sys.stderr)
    is_url = place.startswith(("postgresql://", "postgres://"))
    os.environ[LOG_VARIABLE] = place if is_url else os.path.abspath(os.path.expanduser(place))
    return others


def option_value(arguments: list[str], option: str) -> tuple[str | None, list[str]]:
    """Return the first value of an option that is not parsed yet, and the other arguments.

    >>> option_value(["-p", "--log=here", "x"], "--log")
    ('here', ['-p', 'x'])
    """
    for at, each in enumerate(arguments):
        if each == "--":
            break
        if each == option and at + 1 < len(arguments):
            return arguments[at + 1], [*arguments[:at], *arguments[at + 2 :]]
        if each.startswith(f"{option}="):
            return each.removeprefix(f"{option}="), [*arguments[:at], *arguments[at + 1 :]]
    return None, arguments


def use_log_setting() -> None:
    """Put the setting `log` into the environment, if a settings file has it."""
    if os.environ.get(LOG_VARIABLE):
        return
    # Most files name no log. Looking for the name is much quicker than loading the settings.
    places = (config_file(), *(folder / ".outrider/config.toml" for folder in (Path.cwd(), *Path.cwd().parents)))
    if not any(map(_has_log, places)):
        return
    from outrider.coding.config.loading import load
    from outrider.errors import ConfigError

    try:
        place = load(Path.cwd(), environment=os.environ).settings.log
    except ConfigError:
        return  # the command that needs the settings reports it
    if place:
        os.environ[LOG_VARIABLE] = place


def _has_log(path: Path) -> bool:
    try:
        return bool(_SET.search(path.read_bytes()))
    except OSError:
        return False
