"""The files that a command line names, in any form in which programs take them; MCP servers as the user sees them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from outrider.coding.consent.task_files import TASK_FILES
from outrider.mcp.servers import McpServer, StdioServer
from outrider.text import word_set

INTERPRETERS = word_set(
    "sh bash dash zsh ksh ash fish python pypy node nodejs deno bun bunx tsx ts-node ruby perl php lua java julia "
    "Rscript pwsh osascript uv uvx pipx poetry pdm hatch rye pixi npm npx pnpm yarn env source exec uvicorn gunicorn "
    "hypercorn flask fastapi streamlit celery"
)
"""Programs that run a file, a module or a folder that the line names."""
_FOLDER_OPTIONS = word_set(
    "cd pushd -C --directory --dir --cwd --prefix --project --from --with-editable --chdir --manifest-path -m "
    "--require -r --import --loader --app-dir --workspace -w -I -L"
)
"""A folder after one of these holds what runs. Elsewhere a folder is taken for data."""
_SUFFIXES = ("", *(".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".sh"), "/__main__.py", "/__init__.py", "/index.js")
_DEFAULT = re.compile(r"\$\{\w+:?[-=]([^}]*)\}")
_VARIABLE = re.compile(r"\$\{?(\w+)|\$\(|`")
_WORD = re.compile(r"[\w./~+@%-]+")
_SOURCED = re.compile(r"(?:^|[;&|\s])\.\s+\S")
_REDIRECTED = re.compile(r"""(?:>{1,2}\|?|\btee(?:\s+-\w+)*)\s*["']?([\w./~+@%-]+)""")
MOST_WORDS = 5_000
_MOST_DEPTH = 3


class CommandLine(msgspec.Struct, frozen=True):
    """A command line, and where the names in it are looked up."""

    texts: tuple[str, ...]
    """The words of the command and the variables it is given, as in `PYTHONPATH=lib`; or a line for a shell."""
    bases: tuple[str, ...]
    """The folders where a relative name may be found. The first is the project's."""
    folder: str = ""
    """The folder in which the program starts, if the project chose one."""
    places: dict[str, str] = {}
    """Variables whose values are known, such as `CLAUDE_PROJECT_DIR`."""

    @property
    def runs_code(self) -> bool:
        """Whether the line has a program that runs files of any name."""
        return any(_program(word) in INTERPRETERS for word in self.words) or any(map(_SOURCED.search, self.texts))

    @property
    def tasks(self) -> dict[str, tuple[str, ...]]:
        """The programs of the line that run what a file of the project says, with the names of these files."""
        found = (_program(word) for word in self.words)
        return {name: TASK_FILES[name] for name in dict.fromkeys(found) if name in TASK_FILES}

    @property
    def unknown(self) -> list[str]:
        """The parts of the line that are known only when it runs, such as `$NAME`."""
        found = (
            each for text in self.texts for each in _VARIABLE.finditer(self._filled(replaced(_DEFAULT, r"\1", text)))
        )
        return list(dict.fromkeys(f"${each[1]}" if each[1] else f"{each[0]}…" for each in found))

    @property
    def written(self) -> set[str]:
        """The names that occur once, after `>`, `>>` or `tee`: what the line writes, and does not run."""
        line = "\n".join(map(self._filled, self.texts))
        names = (each[1] for each in _REDIRECTED.finditer(line))
        return {name for name in names if line.count(name.rpartition("/")[2]) == 1}

    @property
    def words(self) -> list[str]:
        """Every part of the line that may be a name, in order."""
        forms = (form for text in self.texts for form in dict.fromkeys((text, replaced(_DEFAULT, r"\1", text))))
        return [part for form in forms for part in _parts(self._filled(form), 0)][:MOST_WORDS]

    def files(self) -> dict[str, bool]:
        """Return the files that exist and that a word may name, and whether each is the script of an interpreter."""
        found: dict[str, bool] = {}
        runs_code, expects_script = self.runs_code, False
        for word in self.words:
            names = _spellings(word) if runs_code else (word,)
            files = [path for name in names for path in self._found(name) if os.path.isfile(path)]
            if _program(word) in INTERPRETERS or word == ".":
                expects_script = True
            elif files:
                found |= {path: expects_script or found.get(path, False) for path in files}
                expects_script = False
        return found

    def task_files(self) -> Iterator[str]:
        """Yield the files that the programs of the line obey without naming them."""
        for names in self.tasks.values():
            for name in names:
                yield from (path for path in self._found(name) if os.path.isfile(path))

    def folders(self) -> tuple[list[str], list[str]]:
        """Return the folders that hold what runs, and those that are taken for data."""
        code: list[str] = [self.folder] if self.folder else []
        data: list[str] = []
        words = self.words
        for before, word in zip(["", *words], words, strict=False):
            for path in (path for path in self._found(word) if os.path.isdir(path)):
                is_code = before in _FOLDER_OPTIONS or _program(before) in INTERPRETERS or self._is_assigned(word)
                (code if is_code else data).append(path)
        return list(dict.fromkeys(code)), [each for each in dict.fromkeys(data) if each not in code]

    def _is_assigned(self, word: str) -> bool:
        return any(re.search(rf"[=:]{re.escape(word)}(?![\w.])", text) for text in map(self._filled, self.texts))

    def _found(self, name: str) -> Iterator[str]:
        if "\0" in name:
            return
        expanded = os.path.expanduser(name)
        for base in dict.fromkeys((*self.bases, *([self.folder] if self.folder else []))):
            path = os.path.normpath(os.path.join(base, expanded))
            if len(path) < 4096 and os.path.lexists(path):
                yield path

    def _filled(self, text: str) -> str:
        for name, value in self.places.items():
            text = re.sub(rf"\$\{{?{name}\b\}}?", lambda _, value=value: value, text)  # type: ignore[misc]
        return text


def _parts(text: str, depth: int) -> Iterator[str]:
    """Yield a text, the words in it, and the parts of each word, as in `--require=./x`, `-I./lib` and `pkg.mod:app`."""
    yield text
    try:
        words = shlex.split(text) if any(each in text for each in " \t\n'\"\\;&|") else []
    except ValueError:
        words = text.split()
    for word in words:
        if word != text and depth < _MOST_DEPTH:
            yield from _parts(word, depth + 1)
    for piece in re.split(r"[=,:;|&()<>{}\[\]\s'\"]+", text):
        if piece and piece != text:
            yield piece
        if re.match(r"-\w[\w./~]", piece):
            yield piece[2:]
    yield from _WORD.findall(text)


def _spellings(word: str) -> Iterable[str]:
    stems = dict.fromkeys((word, word.replace(".", "/")) if re.fullmatch(r"[\w.]+", word) else (word,))
    return [f"{stem}{suffix}" for stem in stems for suffix in _SUFFIXES]


def _program(word: str) -> str:
    name = word.rpartition("/")[2]
    return name if name in INTERPRETERS else re.sub(r"[\d.]+$", "", name)


def project_line(texts: Iterable[str], project: Path, folder: Path | None = None, cwd: str = "") -> CommandLine:
    """Return the line of a program that starts in a folder of a project, or in `cwd` if the project says so."""
    bases = dict.fromkeys((str(project), str(folder or project)))
    start = os.path.normpath(os.path.join(project, cwd)) if cwd else ""
    places = {name: str(folder or project) for name in ("CLAUDE_PROJECT_DIR", "OUTRIDER_PROJECT_DIR", "PWD")}
    return CommandLine(tuple(texts), tuple(bases), start, places | {"HOME": os.path.expanduser("~")})


def server_fields(server: McpServer) -> list[tuple[str, str]]:
    """Return every value of a server, by name."""
    if not isinstance(server, StdioServer):
        return [("url", server.url), *((f"header {name}", value) for name, value in server.headers.items())]
    return [
        ("command", " ".join((server.command, *server.args))),
        *((f"variable {name}", value) for name, value in server.env.items()),
        ("starts in", str(server.cwd or ".")),
    ]


def server_line(server: StdioServer, project: Path) -> CommandLine:
    """Return the command line of a program. A folder of its own, in which it starts, belongs to it."""
    cwd = os.fspath(server.cwd) if server.cwd else ""
    texts = [server.command, *server.args, *(f"{name}={value}" for name, value in server.env.items())]
    return project_line(texts, project, cwd="" if cwd == str(project) else cwd)


def replaced(braced: re.Pattern[str], replacement: str | Callable[[re.Match[str]], str], text: str) -> str:
    """Return a text with its variables in braces replaced. Behind the last `}` there is none: to look there is slow."""
    end = text.rfind("}") + 1
    return braced.sub(replacement, text[:end]) + text[end:]
