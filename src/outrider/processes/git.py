"""Run git so that nothing of a repository runs: no hooks, filters, monitors, pagers, helpers or other transports.

A repository's settings name programs, and a project, or a command of a model, may have written them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SETTINGS: Mapping[str, str] = {
    "safe.bareRepository": "explicit",  # a folder with HEAD, objects and refs is no repository by itself
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.quotePath": "false",
    "diff.ignoreSubmodules": "dirty",  # git would run in them, with their settings; `git add` does not obey this
    "diff.submodule": "short",  # "diff" would run git in them, too
    "submodule.recurse": "false",
    "advice.detachedHead": "false",
    "gc.auto": "0",  # these two would outlive the command
    "maintenance.auto": "false",
}
"""What git is told, whatever its files say."""
OFFLINE: Mapping[str, str] = {"credential.helper": ""}
"""Settings for commands that need no other machine."""
NO_TRANSPORT = "none"
"""The value of GIT_ALLOW_PROTOCOL that allows none. Reading an object of a partial clone would start one."""
PLAIN_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--submodule=short")
_PROGRAMS = r"^(filter\..*\.(clean|smudge|process|required)|merge\..*\.driver|hook\..*\.command)$"
FILTERS = ("config", "-z", "--name-only", "--get-regexp", _PROGRAMS)
"""The arguments that list the filters, merge drivers and configured hooks of a repository, which git would run."""
_MERGE = "git merge-file --marker-size=%L %A %O %B"
"""The merge driver that takes the place of others: git's own way to merge texts."""
PREFIX = ("--no-pager", "--no-optional-locks")
_OWN = ("GIT_ASKPASS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_NO_VERIFY", "GIT_HTTP_USER_AGENT")
"""How the user lets git reach servers. Other variables of git lead to other repositories, settings and programs."""


def git_environment(
    environment: Mapping[str, str], *, protocols: Sequence[str] = (), filters: Sequence[str] = ()
) -> dict[str, str]:
    """Return the environment for git, with settings that outrank all files. `filters` are the settings to turn off.

    Without `protocols`, git reaches no other repository and asks no helper for a password.
    """
    settings = {**SETTINGS, **({} if protocols else OFFLINE)}
    instead = {"required": "false", "driver": _MERGE, "enabled": "false"}
    settings |= {name: instead.get(name.rpartition(".")[2], "") for name in filters}
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    kept |= {name: environment[name] for name in _OWN if protocols and name in environment}
    kept |= {
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_ALLOW_PROTOCOL": ":".join(protocols) or NO_TRANSPORT,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "LC_ALL": "C",
    }
    for number, (name, value) in enumerate(settings.items()):
        kept |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return kept


def filter_settings(listed: bytes) -> list[str]:
    """Return the settings that turn off what `FILTERS` printed."""
    names = [name for name in listed.decode(errors="surrogateescape").split("\0") if name]
    return [f"{name.removesuffix('command')}enabled" if name.startswith("hook.") else name for name in names]
