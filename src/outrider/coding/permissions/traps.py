"""Arguments by which an ordinary command does something that nobody expects of it: runs another, or writes a file.

A rule such as `Bash(find:*)` was meant for finding. It does not cover `find -delete`; that is asked about, or allowed
by a rule for exactly this command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from outrider.coding.permissions.paths import is_inside, shell_place


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
    "test": _trap(words="-v -R"),
    "[": _trap(words="-v -R"),
    "wait": _trap(short="p"),
    "cargo": _trap("config config-path manifest-path lockfile-path target-dir out-dir artifact-dir logfile", "CZ"),
    "npm": _trap(
        "prefix script-shell userconfig globalconfig node-options registry git cafile cache workspace workspaces", "Cw"
    ),
    "pnpm": _trap("dir prefix script-shell registry filter recursive", "CFr"),
    "yarn": _trap("cwd use-yarnrc script-shell registry modules-folder cache-folder"),
    "bun": _trap("cwd preload config registry filter env-file", "rcF"),
}

_GIT = _trap(
    "config-env exec-path git-dir work-tree output ext-diff textconv upload-pack receive-pack exec no-index "
    "open-files-in-pager contents template separate-git-dir namespace super-prefix",
    words="-C -c -x -O config submodule bisect filter-branch difftool mergetool instaweb daemon credential remote-ext "
    "remote-fd merge-index shell hook send-email for-each-repo svn p4 cvsimport",
)
_MAKE = _trap("eval file makefile directory include-dir", "fCEI")
_RUFF = _trap("config output-file cache-dir", "o")
_PYTEST = _trap(
    "rootdir confcutdir basetemp override-ini pdbcls config-file junit-xml junitxml log-file debug pyargs pastebin tx "
    "rsyncdir report-log html",
    "pco",
)
_GO = re.compile(
    r"--?(?:exec|toolexec|vettool|C|c|o|modfile|overlay|ldflags|gcflags|asmflags|gccgoflags|compiler|pkgdir|trace"
    r"|outputdir|\w+profile|test\..*)(?:=|$)"
)
_STAYING = frozenset({"git", "pytest", "ruff", "go"})
_CUT = re.compile(r"=|:(?!//)")
_BUNDLE = 8
"""Letters of a short option that are looked at: `-aF/x` is `-a -F /x`."""
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
    if any(re.match(r"(?:ext|fd)::", argument) for argument in arguments):  # an address that is a command
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
    return not _only_reads("sed", arguments)


def _printf(arguments: Sequence[str]) -> bool:
    """It can set variables, and so lead the next command astray."""
    return not _only_reads("printf", arguments)


def _only_reads(name: str, arguments: Sequence[str]) -> bool:
    from outrider.coding.permissions.commands import read_paths
    from outrider.coding.permissions.words import Word

    return read_paths([Word(each, each, each) for each in (name, *arguments)]) is not None


def _uniq(arguments: Sequence[str]) -> bool:
    """A second operand is where the result goes; an operand after the value of an option is taken for one too."""
    return sum(not argument.startswith("-") for argument in arguments) > 1


def _make(arguments: Sequence[str]) -> bool:
    """Variables of make are commands; its files can be anywhere."""
    return _MAKE.catches(arguments) or any("=" in argument for argument in arguments)


def _pytest(arguments: Sequence[str]) -> bool:
    """What it collects, it runs: nothing from elsewhere."""
    if any(argument.startswith("@") for argument in arguments):  # a file with more arguments
        return True
    return _PYTEST.catches(arguments) or _leads_out(arguments)


def _ruff(arguments: Sequence[str]) -> bool:
    return _RUFF.catches(arguments) or _leads_out(arguments)


def _leads_out(arguments: Sequence[str]) -> bool:
    """Whether an argument looks like a path to somewhere else."""
    texts = [text for argument in arguments for text in _paths_in(argument)]
    return any(text.startswith(("/", "~")) or ".." in text.split("/") for text in texts)


def strays(words: Sequence[str], folder: str, inside: tuple[str, ...]) -> bool:
    """Whether an argument leads elsewhere by a link, where the command should stay in the folder."""
    if words[0].rpartition("/")[2] not in _STAYING:
        return False
    texts = {text for argument in words[1:] for text in _paths_in(argument)}
    return not all(is_inside(shell_place(text, folder).resolved, inside) for text in texts)


def _paths_in(argument: str) -> Iterator[str]:
    """What may be a path in an argument: `--option=x`, `-ox`, `html:x`, `x::test`."""
    yield argument
    yield from (argument[cut.end() :] for cut in _CUT.finditer(argument))
    yield argument.partition("::")[0]
    if argument.startswith("-") and not argument.startswith("--"):
        yield from (argument[at:] for at in range(2, min(len(argument), _BUNDLE)))


def _go(arguments: Sequence[str]) -> bool:
    return any(_GO.match(argument) for argument in arguments) or _leads_out(arguments)


TRICKY: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "git": _git,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "sed": _sed,
    "gsed": _sed,
    "printf": _printf,
    "uniq": _uniq,
    "make": _make,
    "gmake": _make,
    "pytest": _pytest,
    "ruff": _ruff,
    "go": _go,
    "xxd": _uniq,
}
