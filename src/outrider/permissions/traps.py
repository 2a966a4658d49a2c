"""Arguments by which an ordinary command does something that nobody expects of it: runs another, or writes a file.

A rule such as `Bash(find:*)` was meant for finding. It does not cover `find -delete`; that is asked about, or allowed
by a rule for exactly this command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec


class Trap(msgspec.Struct, frozen=True):
    """The options of a command that a rule for how commands begin does not cover."""

    long: tuple[str, ...] = ()
    """Also where they are abbreviated."""
    short: str = ""
    """Letters, also where they stand among others."""
    words: frozenset[str] = frozenset()
    """Arguments, exactly."""

    def catches(self, arguments: Sequence[str]) -> bool:
        """Whether one of them is among the arguments."""
        return any(self._catches(argument) for argument in arguments)

    def _catches(self, argument: str) -> bool:
        if argument in self.words:
            return True
        if argument.startswith("--"):
            name = argument.partition("=")[0]
            return len(name) > 2 and any(option.startswith(name) for option in self.long)
        return argument.startswith("-") and any(letter in argument[1:] for letter in self.short)


def _trap(long: str = "", short: str = "", words: str = "") -> Trap:
    return Trap(tuple(f"--{name}" for name in long.split()), short, frozenset(words.split()))


TRAPS: Mapping[str, Trap] = {
    "find": _trap(words="-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from"),
    "fd": _trap("exec exec-batch", "xX"),
    "rg": _trap("pre hostname-bin search-zip", "z"),
    "sort": _trap("output compress-program temporary-directory files0-from", "oT"),
    "tree": _trap("output", "oR"),
    "tar": _trap(
        "checkpoint-action to-command use-compress-program info-script new-volume-script rsh-command rmt-command "
        "absolute-names index-file",
        "IFP",
    ),
    "zip": _trap("unzip-command", "T"),
    "rsync": _trap("rsh rsync-path", "e"),
    "man": _trap("pager html preprocessor", "PH"),
    "less": _trap("log-file", "oOk"),
    "wc": _trap("files0-from"),
    "du": _trap("files0-from"),
    "grep": _trap("file", "f"),
    "date": _trap("set file", "sf"),
    "file": _trap("compile files-from magic-file", "Cfm"),
    "split": _trap("filter"),
    "cargo": _trap("config manifest-path target-dir out-dir artifact-dir", "C"),
    "npm": _trap("prefix script-shell userconfig globalconfig node-options", "C"),
    "pnpm": _trap("dir prefix script-shell", "C"),
    "yarn": _trap("cwd use-yarnrc script-shell"),
    "bun": _trap("cwd preload config", "rc"),
}

_GIT = _trap(
    "config-env exec-path git-dir work-tree output ext-diff textconv upload-pack receive-pack exec no-index "
    "open-files-in-pager contents template separate-git-dir namespace super-prefix",
    words="-C -c -x -O config submodule bisect filter-branch difftool mergetool instaweb daemon credential",
)
_MAKE = _trap("eval file makefile directory include-dir", "fCEI")
_RUFF = _trap("config output-file cache-dir")
_PYTEST = _trap("rootdir confcutdir basetemp override-ini pdbcls config-file junit-xml log-file debug", "pco")
_AWK = re.compile(r"system|getline|ENVIRON|printf?\s[^;}]*>|[|@]|>|<")


def is_trapped(words: Sequence[str]) -> bool:
    """Whether a command with these words may run another, or write a file, of which its rule does not speak."""
    name, arguments = words[0].rpartition("/")[2], words[1:]
    if name in TRICKY:
        return TRICKY[name](arguments)
    return name in TRAPS and TRAPS[name].catches(arguments)


def _git(arguments: Sequence[str]) -> bool:
    if "clone" in arguments and any(argument.startswith("-u") for argument in arguments):
        return True
    if _leads_out(arguments):  # `git diff` compares files outside a repository as well
        return True
    return _GIT.catches(arguments) or any(re.match(r"-[cCOx].", argument) for argument in arguments)


def _awk(arguments: Sequence[str]) -> bool:
    options = [argument for argument in arguments if argument.startswith("-")]
    if any(not re.match(r"-[Fv]", option) for option in options):
        return True
    return any(_AWK.search(argument) for argument in arguments)


def _sed(arguments: Sequence[str]) -> bool:
    from outrider.permissions.commands import read_paths
    from outrider.permissions.words import Word

    return read_paths([Word(each, each, each) for each in ("sed", *arguments)]) is None


def _uniq(arguments: Sequence[str]) -> bool:
    """A second operand is where the result goes; an operand after the value of an option is taken for one too."""
    return sum(not argument.startswith("-") for argument in arguments) > 1


def _make(arguments: Sequence[str]) -> bool:
    """Variables of make are commands; its files can be anywhere."""
    return _MAKE.catches(arguments) or any("=" in argument for argument in arguments)


def _pytest(arguments: Sequence[str]) -> bool:
    """What it collects, it runs: nothing from elsewhere."""
    return _PYTEST.catches(arguments) or _leads_out(arguments)


def _ruff(arguments: Sequence[str]) -> bool:
    return _RUFF.catches(arguments) or _leads_out(arguments)


def _leads_out(arguments: Sequence[str]) -> bool:
    """Whether an argument looks like a path to somewhere else."""
    texts = [text for argument in arguments for text in (argument, argument.partition("=")[2])]
    return any(text.startswith(("/", "~")) or ".." in text.split("/") for text in texts)


def _go(arguments: Sequence[str]) -> bool:
    return any(re.match(r"--?(?:exec|toolexec|vettool|C|o|modfile|overlay)(?:=|$)", argument) for argument in arguments)


TRICKY: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "git": _git,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "sed": _sed,
    "gsed": _sed,
    "uniq": _uniq,
    "make": _make,
    "gmake": _make,
    "pytest": _pytest,
    "ruff": _ruff,
    "go": _go,
    "xxd": _uniq,
}
