"""Options that make an ordinary command run another command or write a file.

A rule such as `Bash(find:*)` is meant for finding. It does not cover `find -delete`, which needs approval or a rule for
exactly this command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from outrider.coding.permissions.paths import is_inside, resolve_shell_path


class UnsafeOptions(msgspec.Struct, frozen=True):
    """The options of a command that a prefix rule does not cover."""

    long: tuple[str, ...] = ()
    """Long options, also abbreviated."""
    short: str = ""
    """Letters of short options, also bundled."""
    words: frozenset[str] = frozenset()
    """Exact arguments."""

    def found_in(self, arguments: Sequence[str]) -> bool:
        """Return whether the arguments have one of them."""
        return any(self._is_unsafe(argument) for argument in arguments)

    def _is_unsafe(self, argument: str) -> bool:
        if argument in self.words:
            return True
        if argument.startswith("--"):
            name = argument.partition("=")[0]
            return len(name) > 2 and any(option.startswith(name) for option in self.long)
        return argument.startswith("-") and any(letter in argument[1:] for letter in self.short)


def _unsafe(long: str = "", short: str = "", words: str = "") -> UnsafeOptions:
    return UnsafeOptions(tuple(f"--{name}" for name in long.split()), short, frozenset(words.split()))


UNSAFE_OPTIONS: Mapping[str, UnsafeOptions] = {
    "find": _unsafe(words="-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from"),
    "fd": _unsafe("exec exec-batch", "xX"),
    "rg": _unsafe("pre hostname-bin search-zip", "z"),
    "sort": _unsafe("output compress-program temporary-directory files0-from", "oT"),
    "tree": _unsafe("output", "oR"),
    "tar": _unsafe(
        "checkpoint-action to-command use-compress-program info-script new-volume-script rsh-command rmt-command "
        "absolute-names index-file",
        "IFP",
    ),
    "zip": _unsafe("unzip-command", "T"),
    "rsync": _unsafe("rsh rsync-path", "e"),
    "man": _unsafe("pager html preprocessor", "PH"),
    "less": _unsafe("log-file", "oOk"),
    "wc": _unsafe("files0-from"),
    "du": _unsafe("files0-from"),
    "grep": _unsafe("file", "f"),
    "date": _unsafe("set file", "sf"),
    "file": _unsafe("compile files-from magic-file", "Cfm"),
    "split": _unsafe("filter"),
    "test": _unsafe(words="-v -R"),
    "[": _unsafe(words="-v -R"),
    "wait": _unsafe(short="p"),
    "cargo": _unsafe("config config-path manifest-path lockfile-path target-dir out-dir artifact-dir logfile", "CZ"),
    "npm": _unsafe(
        "prefix script-shell userconfig globalconfig node-options registry git cafile cache workspace workspaces", "Cw"
    ),
    "pnpm": _unsafe("dir prefix script-shell registry filter recursive", "CFr"),
    "yarn": _unsafe("cwd use-yarnrc script-shell registry modules-folder cache-folder"),
    "bun": _unsafe("cwd preload config registry filter env-file", "rcF"),
}

_GIT = _unsafe(
    "config-env exec-path git-dir work-tree output ext-diff textconv upload-pack receive-pack exec no-index "
    "open-files-in-pager contents template separate-git-dir namespace super-prefix",
    words="-C -c -x -O config submodule bisect filter-branch difftool mergetool instaweb daemon credential remote-ext "
    "remote-fd merge-index shell hook send-email for-each-repo svn p4 cvsimport",
)
_MAKE = _unsafe("eval file makefile directory include-dir", "fCEI")
_RUFF = _unsafe("config output-file cache-dir", "o")
_PYTEST = _unsafe(
    "rootdir confcutdir basetemp override-ini pdbcls config-file junit-xml junitxml log-file debug pyargs pastebin tx "
    "rsyncdir report-log html",
    "pco",
)
_GO = re.compile(
    r"--?(?:exec|toolexec|vettool|C|c|o|modfile|overlay|ldflags|gcflags|asmflags|gccgoflags|compiler|pkgdir|trace"
    r"|outputdir|\w+profile|test\..*)(?:=|$)"
)
_CONFINED = frozenset({"git", "pytest", "ruff", "go"})
_CUT = re.compile(r"=|:(?!//)")
_MAX_BUNDLED = 8
"""The most letters of bundled options that are checked: `-aF/x` is `-a -F /x`."""
_AWK = re.compile(r"system|getline|ENVIRON|printf?\s[^;}]*>|[|@]|>|<")


def has_unsafe_options(words: Sequence[str]) -> bool:
    """Return whether a command may run another or write a file, which its prefix rule does not cover."""
    name, arguments = words[0].rpartition("/")[2], words[1:]
    if name in CUSTOM_CHECKS:
        return CUSTOM_CHECKS[name](arguments)
    return name in UNSAFE_OPTIONS and UNSAFE_OPTIONS[name].found_in(arguments)


def _git(arguments: Sequence[str]) -> bool:
    if "clone" in arguments and any(argument.startswith("-u") for argument in arguments):
        return True
    if any(re.match(r"(?:ext|fd)::", argument) for argument in arguments):  # a URL that runs a command
        return True
    if _leads_outside(arguments):  # `git diff` also compares files outside a repository
        return True
    return _GIT.found_in(arguments) or any(re.match(r"-[cCOx].", argument) for argument in arguments)


def _awk(arguments: Sequence[str]) -> bool:
    options = [argument for argument in arguments if argument.startswith("-")]
    if any(not re.match(r"-[Fv]", option) for option in options):
        return True
    return any(_AWK.search(argument) for argument in arguments)


def _sed(arguments: Sequence[str]) -> bool:
    return not _only_reads("sed", arguments)


def _printf(arguments: Sequence[str]) -> bool:
    """Return whether it may set a variable, which may affect the next command."""
    return not _only_reads("printf", arguments)


def _only_reads(name: str, arguments: Sequence[str]) -> bool:
    from outrider.coding.permissions.shell.read_only import paths_read
    from outrider.coding.permissions.shell.words import Word

    return paths_read([Word(each, each, each) for each in (name, *arguments)]) is not None


def _uniq(arguments: Sequence[str]) -> bool:
    """Return whether there is a second operand, which is the output file. An option's value may count as one."""
    return sum(not argument.startswith("-") for argument in arguments) > 1


def _make(arguments: Sequence[str]) -> bool:
    """Return whether it sets a variable, which may be a command, or uses another makefile."""
    return _MAKE.found_in(arguments) or any("=" in argument for argument in arguments)


def _pytest(arguments: Sequence[str]) -> bool:
    """Return whether it may collect, and so run, files from elsewhere."""
    if any(argument.startswith("@") for argument in arguments):  # a file with more arguments
        return True
    return _PYTEST.found_in(arguments) or _leads_outside(arguments)


def _ruff(arguments: Sequence[str]) -> bool:
    return _RUFF.found_in(arguments) or _leads_outside(arguments)


def _leads_outside(arguments: Sequence[str]) -> bool:
    """Return whether an argument looks like a path out of the folder."""
    texts = [text for argument in arguments for text in _paths_in(argument)]
    return any(text.startswith(("/", "~")) or ".." in text.split("/") for text in texts)


def leaves_folder(words: Sequence[str], folder: str, inside: tuple[str, ...]) -> bool:
    """Return whether an argument is a link out of the folder, for commands that must stay in it."""
    if words[0].rpartition("/")[2] not in _CONFINED:
        return False
    texts = {text for argument in words[1:] for text in _paths_in(argument)}
    return not all(is_inside(resolve_shell_path(text, folder).resolved, inside) for text in texts)


def _paths_in(argument: str) -> Iterator[str]:
    """Yield the parts of an argument that may be a path: `--option=x`, `-ox`, `html:x`, `x::test`."""
    yield argument
    yield from (argument[cut.end() :] for cut in _CUT.finditer(argument))
    yield argument.partition("::")[0]
    if argument.startswith("-") and not argument.startswith("--"):
        yield from (argument[at:] for at in range(2, min(len(argument), _MAX_BUNDLED)))


def _go(arguments: Sequence[str]) -> bool:
    return any(_GO.match(argument) for argument in arguments) or _leads_outside(arguments)


CUSTOM_CHECKS: Mapping[str, Callable[[Sequence[str]], bool]] = {
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
