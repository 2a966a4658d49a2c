"""The settings as lines for people, and setting one key of a settings file, for the terminal, the chat and editors.

Comments, order and everything else in the file stay as they are.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from outrider.coding.config.layers import DEFAULT
from outrider.coding.config.loading import Loaded, find_project_file, label_of, load
from outrider.coding.config.managed import MANAGED_FILE
from outrider.coding.config.settings import SETTINGS, advice, flatten
from outrider.coding.config.value_types import InvalidValueError, TextList
from outrider.coding.masking import mask_secrets, quoted
from outrider.coding.settings_files import (
    ASSIGNED,
    HEADER,
    SettingsFile,
    dotted,
    read_settings_file,
    write_private,
    write_shared,
)
from outrider.environment import config_file
from outrider.errors import ConfigError
from outrider.text import counted
from outrider.text.visible import revealed_line, safe_line


class EditableFile:
    """The user's settings file, or that of the project around a folder."""

    def __init__(self, folder: Path, *, project: bool = False) -> None:
        self.path = find_project_file(folder) if project else config_file()
        self.label = os.path.relpath(self.path, folder) if project else label_of(self.path)
        """The name of the file for people."""
        self._is_projects = project

    def set(self, key: str, texts: Sequence[str]) -> str:
        """Check and write a value, and return it as TOML. Several texts are the items of a list. Raises ConfigError."""
        self._check_key(key)
        value = parsed(key, texts)
        base = self.path.parent.parent if self._is_projects else None
        try:
            SETTINGS[key].value_type.check(value, base)
        except InvalidValueError as error:
            raise ConfigError(f"{key} {error}") from None
        written = as_toml(value)
        self._edit(key, lambda text: with_value(text, key, written))
        return written

    def unset(self, key: str) -> bool:
        """Remove a key. Return whether it was there. Raises ConfigError."""
        self._check_key(key)
        return self._edit(key, lambda text: without_value(text, key))

    def _check_key(self, key: str) -> None:
        if key not in SETTINGS:
            raise ConfigError(f"there is no setting {quoted(key)}; {advice(key)}")
        if SETTINGS[key].managed_only:
            raise ConfigError(f"only the managed file of this machine can set {key}: {MANAGED_FILE}")
        if self._is_projects and SETTINGS[key].users_only:
            raise ConfigError(f"a project does not set {key}; write it to your own file, without --project")

    def _edit(self, key: str, edit: Callable[[str], str]) -> bool:
        """Change the file, and return whether that was necessary. Other keys must keep their values."""
        file = read_settings_file(self.path, self.label) or SettingsFile(self.label, b"")
        before = file.tables()
        text = file.content.decode("utf-8-sig")
        edited = edit(text)
        if not _is_toml(edited) or _without(before, key) != _without(tomllib.loads(edited), key):
            raise ConfigError(f"{file.where(key)}: {key} cannot be changed here by a program; edit the file by hand")
        if edited == text:
            return False
        target = Path(os.path.realpath(self.path))  # a link stays a link
        (write_shared if self._is_projects else write_private)(target, edited.encode())
        return True


def parsed(key: str, texts: Sequence[str]) -> Any:
    """Return the value that words of a command line mean."""
    kind = SETTINGS[key].value_type
    if isinstance(kind, TextList) and (len(texts) > 1 or texts[0].startswith("[")):
        if len(texts) > 1:
            return list(texts)
        try:
            return tomllib.loads(f"value = {texts[0]}")["value"]
        except (ValueError, RecursionError):
            raise ConfigError(f'{key} must be a list of {kind.noun}, as in ["…", "…"], or one word for each') from None
    return kind.parse(" ".join(texts).strip())


def as_toml(value: Any) -> str:
    """Return a value as it is written in a file.

    >>> as_toml(["a", 'b"']), as_toml(True), as_toml(0.5)
    ('["a", "b\\\\""]', 'true', '0.5')
    """
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    return str(value).lower() if isinstance(value, bool) else repr(value)


class _Statement(NamedTuple):
    """What a line begins: a table or a value."""

    name: str
    """The dotted key."""
    first: int
    end: int
    """The line after its last one."""
    is_header: bool


def with_value(text: str, key: str, value: str) -> str:
    """Return the TOML with a key set.

    >>> print(with_value('# mine\\n[chat]\\nnotify = "off"  # quiet', "chat.notify", '"bell"'))
    # mine
    [chat]
    notify = "bell"  # quiet
    """
    lines, line_break = _lines(text)
    statements = list(_statements(lines))
    if found := next((each for each in statements if each.name == key and not each.is_header), None):
        name = lines[found.first].partition("=")[0].rstrip()
        comment = _comment(lines[found.first]) if found.end == found.first + 1 else ""
        new, first, end = [f"{name} = {value}{comment}"], found.first, found.end
    else:
        section, _, name = key.rpartition(".")
        first, before, after = _place(lines, statements, section)
        new, end = [*before, f"{name} = {value}", *after], first
    return line_break.join([*lines[:first], *new, *lines[end:]])


def without_value(text: str, key: str) -> str:
    """Return the TOML without a key."""
    lines, line_break = _lines(text)
    found = next((each for each in _statements(lines) if each.name == key and not each.is_header), None)
    return text if found is None else line_break.join([*lines[: found.first], *lines[found.end :]])


def _lines(text: str) -> tuple[list[str], str]:
    """Return the lines, and what separates them."""
    return text.replace("\r\n", "\n").split("\n"), "\r\n" if "\r\n" in text else "\n"


def _place(lines: Sequence[str], statements: Sequence[_Statement], section: str) -> tuple[int, list[str], list[str]]:
    """Return the line before which a new key of a section belongs, and the lines before and after it."""
    last: _Statement | None = None
    inside = not section
    for each in statements:
        if each.is_header:
            inside = each.name == section
        last = each if inside else last
    if last:
        return last.end, [], []
    if not section and statements:  # above the first table and the comment that belongs to it
        first = statements[0].first
        while first and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        return first, [], [""]
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    before = [""] if end else []
    return end, [*before, f"[{section}]"] if section else before, [] if end < len(lines) else [""]


def _statements(lines: Sequence[str]) -> Iterator[_Statement]:
    """Yield the tables and values of a TOML file. A value ends with the first line after which it can be parsed."""
    table, number = "", 0
    while number < len(lines):
        line, first = lines[number], number
        number += 1
        if header := HEADER.match(line):
            table = dotted(header[1])
            yield _Statement(table, first, number, True)
        elif assigned := ASSIGNED.match(line):
            while not _is_toml("\n".join(lines[first:number])) and number < len(lines):
                number += 1
            name = dotted(assigned[1])
            yield _Statement(f"{table}.{name}" if table else name, first, number, False)


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _comment(line: str) -> str:
    """Return the comment behind a value, with the space before it; empty if there is none."""
    for at, character in enumerate(line):
        if character == "#" and _is_toml(line[:at]):
            return line[len(line[:at].rstrip()) :]
    return ""


def _without(tables: dict[str, Any], key: str) -> dict[str, Any]:
    """Return all other keys. A section without keys counts as none."""
    section, _, name = key.rpartition(".")
    if not section:
        return {each: value for each, value in tables.items() if each != name}
    table = tables.get(section)
    inner = {each: value for each, value in table.items() if each != name} if isinstance(table, dict) else table
    others = {each: value for each, value in tables.items() if each != section}
    return {**others, section: inner} if inner else others


USAGE = "Write /config, /config all, /config set KEY VALUE, or /config unset KEY."


def setting_lines(loaded: Loaded, *, changed: bool = False) -> Iterator[str]:
    """Yield the table, one line a value; the items of a list follow one another. `changed` leaves defaults out."""
    values = flatten(loaded.settings)
    rows = [
        (key, value_lines(key, values[key]), safe_line(loaded.origins[key]))
        for key in SETTINGS
        if not changed or loaded.origins[key] != DEFAULT
    ]
    key_width = max((len(key) for key, _, _ in rows), default=0)
    value_width = min(max((len(text) for _, texts, _ in rows for text in texts), default=0), 50)
    for key, texts, origin in rows:
        yield f"{key:{key_width}}  {texts[0]:{value_width}}  {origin}".rstrip()
        for text in texts[1:]:
            yield f"{'':{key_width}}  {text}"
    if changed:
        yield f"{counted(len(SETTINGS) - len(rows), 'other setting')} at the default: /config all"


def value_lines(key: str, value: Any) -> list[str]:
    """Return the value without secrets as one or more lines."""
    if isinstance(value, tuple):
        return [revealed_line(mask_secrets(each)) for each in value] or ["none"]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if value is None:
        return [SETTINGS[key].unset]
    if isinstance(value, int | float):
        return [f"{value:,}" if isinstance(value, int) else f"{value:g}"]
    return [revealed_line(mask_secrets(value))]


def set_setting(folder: Path, key: str, texts: Sequence[str], *, project: bool = False) -> list[str]:
    """Write a setting. Return where it is, and what stands in its way here. Raises ConfigError."""
    file = EditableFile(folder, project=project)
    value = file.set(key, texts)
    return [
        f"Wrote {key} = {revealed_line(mask_secrets(value))} to {safe_line(file.label)}.",
        *_remarks(folder, key, file),
    ]


def unset_setting(folder: Path, key: str, *, project: bool = False) -> list[str]:
    """Remove a setting. Return from where, and what applies now. Raises ConfigError."""
    file = EditableFile(folder, project=project)
    if not file.unset(key):
        other = "" if project else "; for the project's, add --project"
        return [f"{safe_line(file.label)} does not set {key}{other}."]
    value = ", ".join(value_lines(key, flatten(load(folder, environment=os.environ).settings)[key]))
    return [f"Removed {key} from {safe_line(file.label)}. It is {value} now.", *_remarks(folder, key, file)]


def _remarks(folder: Path, key: str, file: EditableFile) -> Iterator[str]:
    """Yield what else decides about the value."""
    loaded = load(folder, environment=os.environ)
    origin = loaded.origins[key]
    if any(item.name == key for item in loaded.waiting):
        yield f"The project's value of {key} is not used until you agree: outrider trust"
    elif origin not in (DEFAULT, file.label):
        yield safe_line(f"Here the value comes from {origin}.")


def run_config(folder: Path, loaded: Loaded, words: Sequence[str]) -> list[str]:
    """Do what the words after `/config` say, in the chat or an editor. Return lines. Raises ConfigError."""
    match words:
        case []:
            return [*setting_lines(loaded, changed=True)]
        case ["all"]:
            return [*setting_lines(loaded)]
        case [("set" | "unset") as action, key, *values] if bool(values) == (action == "set"):
            return set_setting(folder, key, values) if values else unset_setting(folder, key)
        case [key] if key in SETTINGS:
            return [*value_lines(key, flatten(loaded.settings)[key]), f"({loaded.origins[key]})"]
    raise ConfigError(USAGE)
