"""Prefixes of commands that "always" can allow: words that say what is done, whatever follows them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from outrider.coding.permissions.shell.command_rules import (
    OPERANDS_DECIDE,
    RUNNERS,
    STATE_CHANGERS,
    TARGETS,
    program_name,
)
from outrider.text import word_set

_PACKAGES = word_set("test t start")
SUBCOMMANDS: Mapping[str, frozenset[str]] = {
    "git": word_set(
        "add commit status diff log show blame branch checkout switch restore stash merge tag cherry-pick revert reset "
        "mv rm ls-files rev-parse describe"
    ),
    "npm": _PACKAGES,
    "pnpm": _PACKAGES,
    "yarn": _PACKAGES,
    "bun": word_set("test build"),
    "deno": word_set("test lint fmt check"),
    "cargo": word_set("test build check clippy fmt bench doc tree metadata run"),
    "go": word_set("test build vet fmt doc list version"),
    "dotnet": word_set("build test format restore"),
    "swift": word_set("build test"),
    "docker": word_set("build ps images logs inspect"),
    "podman": word_set("build ps images logs inspect"),
    "kubectl": word_set("get describe logs top explain"),
    "helm": word_set("lint list template"),
    "terraform": word_set("plan validate fmt show"),
    "uv": word_set("sync lock tree"),
    "pip": word_set("list show freeze check"),
    "poetry": word_set("check show lock"),
    "pdm": word_set("list show lock"),
    "mvn": word_set("test verify compile package"),
    "gradle": word_set("test build check assemble"),
    "gradlew": word_set("test build check assemble"),
    "systemctl": word_set("status"),
}
"""Programs whose subcommand says what is done. One that installs or runs what its arguments name is not here."""
PLAIN_SUBCOMMANDS: Mapping[str, frozenset[str]] = {"git": word_set("push pull fetch rebase grep")}
"""Those with options that run any program (`--upload-pack`, `--exec`): only arguments without options may follow."""
GROUPS: Mapping[tuple[str, str], frozenset[str]] = {
    ("docker", "compose"): word_set("up down ps logs build"),
    ("gh", "pr"): word_set("view list status diff checks"),
    ("gh", "issue"): word_set("view list status"),
    ("gh", "run"): word_set("view list watch"),
    ("python", "-m"): word_set("pytest unittest mypy ruff black isort flake8 pylint build coverage"),
}
"""Programs with a subcommand, or `-m`, below which a third word says what is done."""
SCRIPTS = {(name, "run") for name in ("npm", "pnpm", "yarn", "bun")}
"""Programs that run a script of the project by its name."""
WRAPPERS = {
    *((name, "run") for name in ("uv", "poetry", "pdm", "pipenv", "rye", "pixi")),
    *((name, "exec") for name in ("bundle", "pnpm", "yarn")),
    ("npx",),
    ("bunx",),
    ("uvx",),
}
"""Words before a command, which has a prefix of its own."""
NEVER = (RUNNERS | OPERANDS_DECIDE | STATE_CHANGERS) | word_set(
    "rm rmdir dd shred truncate chmod chown chgrp ln mv cp install tee curl wget nc ncat socat telnet ftp sftp scp "
    "rsync kill pkill killall reboot shutdown mount umount crontab at batch java jshell irb ghci iex julia octave "
    "scala groovy tclsh wish expect osascript pwsh guile racket sbcl erl elixir m4 mongosh redis-cli duckdb sqlplus "
    "ansible vagrant nix flatpak snap yum pacman zypper apk port gem composer corepack volta nvm asdf code open "
    "xdg-open git-shell busctl dbus-send gdbus loginctl ip iptables nft useradd usermod passwd visudo"
)
"""Programs that run, fetch, remove or overwrite whatever their arguments name."""

_WORD = re.compile(r"[A-Za-z0-9_][\w.+:-]*")
_PROGRAM = re.compile(r"(?:\./)?[\w.][\w.+-]*(?:/[\w.+-]+)*")


def prefix_of(words: Sequence[str]) -> str:
    """Return the pattern of a rule for commands that begin as this one does; "" if that would allow anything.

    >>> prefix_of(["pytest", "-q"]), prefix_of(["git", "commit", "-m", "x"]), prefix_of(["git", "push", "origin"])
    ('pytest:**', 'git commit:**', 'git push:*')
    >>> prefix_of(["uv", "run", "pytest"]), prefix_of(["bash", "-c", "ls"]), prefix_of(["pip", "install", "x"])
    ('uv run pytest:**', '', '')
    """
    name = re.sub(r"(?<=[a-z])[0-9.]+$", "", program_name(words[0]))  # python3.12
    if not _PROGRAM.fullmatch(words[0]) or ".." in words[0].split("/"):
        return ""
    second, third = (*words[1:3], "", "")[:2]
    for wrapper in WRAPPERS:
        if (name, *words[1 : len(wrapper)]) == wrapper:
            inner = prefix_of(words[len(wrapper) :]) if len(words) > len(wrapper) else ""
            return f"{shlex.join(words[: len(wrapper)])} {inner}" if inner else ""
    if second in PLAIN_SUBCOMMANDS.get(name, ()):
        return f"{shlex.join(words[:2])}:*"
    if third in GROUPS.get((name, second), ()) or ((name, second) in SCRIPTS and _WORD.fullmatch(third)):
        return f"{shlex.join(words[:3])}:**"
    if second in SUBCOMMANDS.get(name, ()) or (name in TARGETS and _WORD.fullmatch(second)):
        return f"{shlex.join(words[:2])}:**"
    if name in SUBCOMMANDS or name in NEVER:
        return ""
    return f"{shlex.join(words[:1])}:**"
