"""Commands that run other commands: what they run is what counts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from outrider.permissions.naming import names
from outrider.permissions.script import Command
from outrider.permissions.words import Word

WRAPPERS = names(
    "sudo doas su runuser env xargs nohup time timeout nice ionice chrt taskset stdbuf unbuffer setsid exec command "
    "builtin eval source . watch parallel strace ltrace script flock chroot unshare nsenter setarch busybox toybox "
    "caffeinate coproc trap ssh pkexec systemd-run firejail bwrap proot rlwrap entr hyperfine perf gdb valgrind "
    "dbus-run-session xvfb-run direnv dotenv"
)
"""Commands with a command among their arguments. A rule for how commands begin covers them only if it says which."""

CARRIERS = WRAPPERS | names("find fd npx uvx pipx docker podman kubectl make uv poetry then do else if while until ! {")
"""Words behind which a command may stand that a rule denies."""

SHELLS = names("sh bash dash zsh ksh mksh ash fish rbash")

MOVERS = names("pushd popd dirs")
"""Commands after which it is not known where the shell stands."""

_DURATION = re.compile(r"[0-9]+(?:\.[0-9]+)?[smhd]?")
_SCRIPT_OPTION = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*")


def base_name(word: str) -> str:
    """The name of a program without its folder."""
    return word.rpartition("/")[2]


def unwrapped(words: Sequence[Word]) -> Sequence[Word]:
    """The words of the command that really runs: without `time`, `timeout 5`, `nice`, `command`.

    Only where nothing but the bare wrapper stands before it; otherwise the words are given back as they are.
    """
    while len(words) > 1:
        name = words[0].value
        if name in ("time", "nice", "command", "builtin") and _is_name(words[1]):
            words = words[1:]
        elif name == "timeout" and len(words) > 2 and _is_duration(words[1]) and _is_name(words[2]):
            words = words[2:]
        else:
            break
    return words


def _is_name(word: Word) -> bool:
    return word.value is not None and not word.value.startswith("-")


def _is_duration(word: Word) -> bool:
    return word.value is not None and _DURATION.fullmatch(word.value) is not None


def inner_scripts(command: Command) -> list[str]:
    """Command lines among the arguments that are known: those of `sh -c`, `eval` and `trap`."""
    values = [value if value is not None else "" for value in command.values]
    if values[:1] == ["eval"]:
        return [" ".join(values[1:])]
    if values[:1] == ["trap"]:
        return values[1:2]
    found: list[str] = []
    for at, value in enumerate(values):
        if base_name(value) in SHELLS:
            options = [i for i, each in enumerate(values) if i > at and _SCRIPT_OPTION.fullmatch(each)]
            found.extend(values[options[0] + 1 : options[0] + 2] if options else [])
    return found


def runs_the_unknown(command: Command) -> bool:
    """Whether it runs a command line that cannot be seen: a variable, or the content of a file."""
    name = command.name
    if name is None or name in ("source", "."):
        return True
    return not command.is_literal and (name == "eval" or base_name(name) in SHELLS)
