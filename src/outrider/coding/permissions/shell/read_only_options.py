"""The read-only commands and their harmless options."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class SafeOptions(msgspec.Struct, frozen=True):
    """The harmless options of a command."""

    flags: str = ""
    """Letters that take no value."""
    valued: str = ""
    """Letters that take a value, which is never a path."""
    counted: str = ""
    """Letters that take a number. Another word may be a file, in other versions of the command."""
    attached: str = ""
    """Letters that may take a value, but not from the next word."""
    long: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    number: bool = False
    """Whether `-20` is an option."""
    paths: int | None = None
    """The most operands that it accepts; None for any number."""
    leading: int = 0
    """The number of operands before the files, such as the pattern of grep."""


def _options(
    flags: str = "",
    valued: str = "",
    long: str = "",
    long_valued: str = "",
    *,
    counted: str = "",
    attached: str = "",
    number: bool = False,
    paths: int | None = None,
    leading: int = 0,
) -> SafeOptions:
    names = [frozenset(f"--{name}" for name in text.split()) for text in (long, long_valued)]
    return SafeOptions(flags, valued, counted, attached, names[0], names[1], number, paths, leading)


READERS: Mapping[str, SafeOptions] = {
    "cat": _options("AbeEnstTuv", long="number show-all show-ends show-tabs squeeze-blank number-nonblank"),
    "head": _options("qv", "", "quiet verbose", "lines bytes", counted="nc", number=True),
    "tail": _options("qv", "", "quiet verbose", "lines bytes", counted="nc", number=True),
    "wc": _options("clmwL", long="bytes chars lines words max-line-length"),
    "ls": _options(
        "aAbBcCdfFgGhHiklmnNoOpqQrRsStuUvxX1Z",  # not L: with R it follows links out of the folder
        "",
        "all almost-all directory human-readable inode recursive reverse size classify full-time "
        "group-directories-first",
        "color sort time time-style format ignore width",
        counted="w",
    ),
    "stat": _options("Lt", "c", "dereference terse", "format"),
    "file": _options("bhikL", long="brief mime mime-type mime-encoding dereference no-dereference"),
    "du": _options(
        "abchHkmsSxD",
        "",
        "all bytes total human-readable summarize apparent-size",
        "max-depth threshold",
        counted="d",
    ),
    "df": _options("ahHkilmPT", long="human-readable inodes local total"),
    "nl": _options("p", "bdfhns", counted="ilvw"),
    "tac": _options(),
    "cut": _options("ns", "bcdf", "complement only-delimited", "bytes characters delimiter fields output-delimiter"),
    "sort": _options("bcCdfgiMhnRrVsuz", "kt", "reverse unique numeric-sort version-sort ignore-case", "key"),
    "uniq": _options(
        "cdDiuz", "", "count repeated unique ignore-case", "skip-fields skip-chars", counted="fsw", paths=1
    ),
    "comm": _options("123z", paths=2),
    "cmp": _options("bls", counted="n", paths=2),
    "grep": _options(
        "abcEFGhHiILlnoPqsvwxyzZ",
        "",
        "count ignore-case invert-match line-number files-with-matches files-without-match only-matching quiet "
        "word-regexp line-regexp extended-regexp fixed-strings perl-regexp no-messages with-filename no-filename",
        "color colour context after-context before-context max-count",
        counted="ABCm",
        leading=1,
    ),
    "md5sum": _options("bt"),
    "sha1sum": _options("bt"),
    "sha256sum": _options("bt"),
    "cksum": _options(),
    "od": _options("abcdfiloxsv", "At", counted="jN", attached="w"),
    "readlink": _options("fenmqsvz"),
    "realpath": _options("emLPqsz"),
    "tree": _options("adfpshDCnFiQrtU", "PI", "dirsfirst noreport", counted="L"),
    "column": _options("t", "s"),
    "fold": _options("bs", counted="w"),
    "expand": _options("i", "t"),
    "rev": _options(),
    "cd": _options(paths=1),
}
"""Commands whose operands are the files or folders that they read."""

NON_FILE_COMMANDS: Mapping[str, SafeOptions] = {
    "pwd": _options("LP", paths=0),
    "true": _options(),
    "false": _options(),
    ":": _options(),
    "whoami": _options(paths=0),
    "id": _options("gGnru", paths=0),
    "uname": _options("amnrsvpio", paths=0),
    "nproc": _options(paths=0),
    "arch": _options(paths=0),
    "uptime": _options("ps", paths=0),
    "date": _options("uR", "d", "utc rfc-email", "date iso-8601 rfc-3339"),
    "which": _options("a"),
    "type": _options("afptP"),
    "basename": _options("az", "s"),
    "dirname": _options("z"),
    "seq": _options("w", "fs"),
    "sleep": _options(),
    "tr": _options("cCdst"),
    "exit": _options(),
    "break": _options(),
    "continue": _options(),
    "wait": _options(paths=0),
    "expr": _options(),
}
"""Commands whose operands are not files."""
