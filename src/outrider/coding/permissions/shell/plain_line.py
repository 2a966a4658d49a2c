"""Read a plain command line: words, quotes, pipes and lists, which every shell reads in the same way.

Everything else is not plain: expansions, globs, assignments, files that the shell opens, keywords, comments. Such a
line is not understood here. It runs in the sandbox, or the user is asked.
"""

from __future__ import annotations

import re
import unicodedata

import msgspec

from outrider.text import word_set

MAX_CHARACTERS = 10_000
"""The longest command line that is read."""

KEYWORDS = word_set("if then elif else fi for while until do done case esac select function in time coproc ! { } [[ ]]")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TOKEN = re.compile(
    r"""
    (?P<blank>    [ \t]+ (?:\\\n[ \t]*)* )
  | (?P<redirect> (?: (?:[12]?>>?|<) [ \t]* /dev/null | [12]?>&[12] ) (?=[\s;|&]|\Z) )
  | (?P<operator> \|\| | && | [;|\n] )
  | (?P<word>     (?: [\w.,:/@%+^=-] | (?<=[\w^])[~] | (?<=[\w./-])[#] | [!](?=\w) | [^\x00-\x7f]
                    | \\[^\n] | '[^']*' | "(?:[^"\\$`]|\\[^\n])*" )++ (?![<>]) )
    """,
    re.VERBOSE | re.ASCII,
)
_QUOTED = re.compile(r"""\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_SEPARATOR = re.compile(r"[;&|()\n`{}<>]+")


class NotPlainError(ValueError):
    """The line is not plain. The message says why."""


class Command(msgspec.Struct, frozen=True):
    """A simple command of a plain line."""

    words: tuple[str, ...]
    """The program and its arguments, as the program receives them."""
    operator: str = ""
    """The operator before it: `|`, `&&`, `||`, `;`, or none."""

    @property
    def title(self) -> str:
        """The command in a few words, for people."""
        text = " ".join(" ".join(self.words).split())
        return f"`{text[:60]}{'…' if len(text) > 60 else ''}`"


def read_plain_line(text: str) -> list[Command]:
    """Return the commands of a plain line. Raises NotPlainError."""
    _check_characters(text)
    commands: list[Command] = []
    words: list[str] = []
    operator, at = "", 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise NotPlainError(f"`{text[at : at + 20].strip() or text[at]}` is more than a plain word")
        at = token.end()
        if token.lastgroup == "word":
            words.append(_unquoted(token.group()))
        elif token.lastgroup == "operator" and (words or token.group() != "\n"):
            commands.append(_command(words, operator))
            operator = ";" if token.group() == "\n" else token.group()
            words = []
    if words or operator != ";":
        commands.append(_command(words, operator))
    return commands


def rough_commands(text: str) -> list[list[str]]:
    """Return what look like the commands of a line that is not plain, to find those that rules deny."""
    bare = re.sub(r"['\"\\]", "", text[:MAX_CHARACTERS].replace("\\\n", ""))
    found: list[list[str]] = []
    for segment in _SEPARATOR.split(bare):
        words = segment.split()
        while words and (words[0] in KEYWORDS or words[0].lstrip("$") == "" or re.match(r"\w+\+?=", words[0])):
            words.pop(0)
        if words:
            found.append(words)
    return found


def _command(words: list[str], operator: str) -> Command:
    if not words:
        raise NotPlainError("a command is missing")
    if words[0] in KEYWORDS or "=" in words[0] or not words[0]:
        raise NotPlainError(f"`{words[0][:20]}` is not the name of a program")
    return Command(tuple(words), operator)


def _unquoted(text: str) -> str:
    def plain(quoted: re.Match[str]) -> str:
        if quoted[3] is not None:
            return re.sub(r"\\([$`\"\\])", r"\1", quoted[3])
        return quoted[1] if quoted[1] is not None else quoted[2]

    return _QUOTED.sub(plain, text)


def _check_characters(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise NotPlainError("it is too long")
    if _CONTROL.search(text):
        raise NotPlainError("it has control characters")
    if any(unicodedata.category(character)[0] in "ZC" for character in text if character > "~"):
        raise NotPlainError("it has invisible characters")
