"""Parse docstrings in the Google, NumPy and Sphinx styles: the description and the parameters."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

_Section: TypeAlias = Callable[[str], None]

_PARAMETERS = frozenset(
    ("args", "arguments", "keyword_args", "keyword_arguments", "params", "parameters", "other_parameters", "attributes")
)
# A model that is about to call the function does not need these sections.
_DROPPED = frozenset(
    ("return", "returns", "raise", "raises", "yield", "yields", "receives", "warns", "see_also", "references")
)
# Compiled on first use: few programs that import this module parse a docstring at once.
_NAMED = r"\*{0,2}(\w+)\s*(?:\(.*?\))?:(?:\s+(.*))?$"
_NUMPY_NAMES = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"
_FIELD = r":(\w+)(?:\s+([^:]*))?:(?:\s+(.*))?$"
_PARAMETER_FIELDS = frozenset(("param", "parameter", "arg", "argument", "key", "keyword", "ivar", "var", "cvar"))
_UNDERLINE = r"[-=]{3,}\s*$"


class Docstring(NamedTuple):
    """A parsed docstring. Immutable."""

    description: str
    """The summary and the prose; may be empty."""
    parameters: Mapping[str, str]
    """Descriptions of parameters or attributes by name."""


@functools.lru_cache(maxsize=256)  # each session makes its tools anew, from the same functions
def parse(text: str | None) -> Docstring:
    """Parse a docstring. Never raises.

    >>> parse("Read a file.\\n\\nArgs:\\n    path: Where it\\n        lies.").parameters["path"]
    'Where it lies.'
    """
    if not text or text.isspace():
        return Docstring("", MappingProxyType({}))
    reader = _Reader()
    lines = inspect.cleandoc(text).splitlines()
    for number, line in enumerate(lines):
        reader.read(line.rstrip(), following=lines[number + 1 : number + 4])
    found = {name: " ".join(words) for name, words in reader.parameters.items() if words}
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(reader.prose)).strip()
    return Docstring(description, MappingProxyType(found))


class _Reader:
    """Reads line by line and tracks the current section and parameter."""

    def __init__(self) -> None:
        self.prose: list[str] = []
        self.parameters: dict[str, list[str]] = {}
        self._section: _Section = self._read_prose
        self._names: list[str] = []
        self._indent: int | None = None

    def read(self, line: str, following: list[str]) -> None:
        if re.match(_FIELD, line):
            self._begin(self._read_field)
        elif line and not line[0].isspace():
            self._read_heading(line, following)
        self._section(line)

    def _read_heading(self, line: str, following: list[str]) -> None:
        if following and re.match(_UNDERLINE, following[0]):
            self._begin(self._section_titled(line, self._read_numpy))
        elif line.endswith(":") and _next_is_indented(following):
            self._begin(self._section_titled(line[:-1], self._read_google))
        elif self._section not in (self._read_numpy, self._skip_numpy):
            self._begin(self._read_prose)

    def _section_titled(self, title: str, parameters: _Section) -> _Section:
        name = title.strip().lower().replace(" ", "_")
        if name in _PARAMETERS:
            return parameters
        if name in _DROPPED:
            return self._skip_numpy if parameters == self._read_numpy else self._skip
        return self._read_prose

    def _begin(self, section: _Section) -> None:
        self._section, self._names, self._indent = section, [], None

    def _read_prose(self, line: str) -> None:
        self.prose.append(line)

    def _skip(self, line: str) -> None:
        """Skip a section up to the next line that is not indented."""

    def _skip_numpy(self, line: str) -> None:
        """Skip a section up to the next underlined heading."""

    def _read_google(self, line: str) -> None:
        text = line.lstrip()
        indent = len(line) - len(text)
        if not text or indent == 0:
            return
        if self._indent is None:
            self._indent = indent
        entry = re.match(_NAMED, text) if indent <= self._indent else None
        if entry:
            self._describe([entry[1]], entry[2])
        else:
            self._continue(text)

    def _read_numpy(self, line: str) -> None:
        if re.match(_UNDERLINE, line):
            self._names = []  # the line above was the heading
        elif line[:1].isspace():
            self._continue(line.strip())
        elif entry := re.match(_NUMPY_NAMES, line):
            self._describe([name.strip().lstrip("*") for name in entry[1].split(",")], None)

    def _read_field(self, line: str) -> None:
        field = re.match(_FIELD, line)
        if field:
            words = (field[2] or "").split()
            known = field[1] in _PARAMETER_FIELDS and words
            self._describe([words[-1].lstrip("*")] if known else [], field[3])
        elif line:
            self._continue(line.strip())
        else:
            self._begin(self._read_prose)

    def _describe(self, names: list[str], text: str | None) -> None:
        self._names = names
        for name in names:
            self.parameters[name] = [text.strip()] if text and text.strip() else []

    def _continue(self, text: str) -> None:
        for name in self._names:
            self.parameters[name].append(text)


def _next_is_indented(following: list[str]) -> bool:
    for line in following:
        if line and not line.isspace():
            return line[0].isspace()
    return False
