"""The MCP servers of a folder: those of the user, and those of the project after the user has agreed to them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.config.loading import is_same_file, label_of
from outrider.coding.consent.command_line import CommandLine, project_line, replaced
from outrider.coding.consent.item import ConsentItem, Consents, StartCheck, secrets_among, variables_in
from outrider.coding.masking import describe_type, quoted
from outrider.coding.settings_files import nearest, read_settings_file, write_private, write_shared
from outrider.environment import config_file, data_folder
from outrider.errors import ConfigError
from outrider.mcp.servers import HttpServer, McpServer, StdioServer, tool_prefix


class FoundServers(msgspec.Struct):
    """The servers of a folder."""

    servers: list[McpServer] = []
    waiting: list[ConsentItem] = []
    """The project's servers that need the user's consent: they start programs, or receive what a model sends."""
    agreed: list[ConsentItem] = []
    notes: list[str] = []
    """What is wrong with a file or a server. Such a server is left out; the others are used."""
    origins: dict[str, str] = {}
    """The file that each server is from, by its name, for people."""

    def add(
        self,
        entry: ServerEntry,
        label: str,
        environment: Mapping[str, str],
        folder: Path,
        start: Path,
        check: StartCheck | None = None,
    ) -> None:
        """Add a server, unless another has its name. One of a project has a check before each start."""
        names = (each.name for each in self.servers)
        if other := next((name for name in names if tool_prefix(name) == tool_prefix(entry.name)), None):
            self.notes.append(f"{entry.place} is left out: {self.origins[other]} has a server of this name.")
            return
        try:
            server = entry.server(environment, folder, start, may_be_trusted=check is None)
        except ConfigError as error:
            self.notes.append(f"{error}. The server is left out.")
            return
        is_program = check and isinstance(server, StdioServer)
        self.servers.append(msgspec.structs.replace(server, before_start=check) if is_program else server)
        self.origins[entry.name] = label


def find_servers(folder: Path, environment: Mapping[str, str] | None = None) -> FoundServers:
    """Return the servers of a folder. Mistakes in files become notes.

    The user's start in the folder of the user's file. In a project, which may have been cloned just now, Python and
    Node would run a file or a package of the project for one with the name that the user means.
    """
    variables = os.environ if environment is None else environment
    found, consents = FoundServers(), Consents(data_folder(variables))
    try:
        own = user_file(variables)
    except RuntimeError:  # the home folder is unknown, so there is no such file
        own = None
    if own:
        for entry in _entries(own, label_of(own), found.notes):
            found.add(entry, label_of(own), variables, folder, own.parent)
    project = find_project_servers(folder.resolve())
    if own is not None and is_same_file(project, own):
        return found
    label = os.path.relpath(project, folder.resolve())
    for entry in _entries(project, label, found.notes):
        item = server_item(entry, project, variables)
        if consents.is_given(item):
            found.agreed.append(item)
            found.add(entry, label, variables, project.parent, project.parent, StartCheck(item, consents))
        else:
            found.waiting.append(item)
    return found


def _entries(path: Path, label: str, notes: list[str]) -> list[ServerEntry]:
    try:
        return [entry for entry in ServersFile(path, label).entries if entry.fields.get("disabled") is not True]
    except ConfigError as error:
        notes.append(f"{error}. Its servers are not used.")
        return []


def server_item(entry: ServerEntry, file: Path, environment: Mapping[str, str]) -> ConsentItem:
    """Return what the user agrees to: every field of the server, what its command names, and the secrets it reads."""
    names = variables_in(entry.texts())
    goes = f"sends it to {entry.fields['url']}" if "url" in entry.fields else "gives it to the program"
    read = [(f"reads {name}", f"from your environment, and {goes}") for name in names]
    is_program = "url" not in entry.fields
    runs = "with all your rights, outside of the sandbox" if is_program else "receives what the model sends it"
    return ConsentItem(
        kind="server",
        name=entry.name,
        file=file,
        declaration=entry.fields,
        fields=(*entry.shown(file.parent), *read, ("runs" if is_program else "at its address it", runs)),
        lines=(entry.line(environment, file.parent),) if is_program else (),
        secrets=secrets_among(names, environment),
    )


PROJECT_FILE = ".mcp.json"
SERVERS = "mcpServers"


def user_file(environment: Mapping[str, str] | None = None) -> Path:
    """Return the user's own file: `mcp.json` beside the settings file."""
    return config_file(environment).parent / "mcp.json"


def find_project_servers(folder: Path) -> Path:
    """Return the nearest `.mcp.json` upwards within the repository, or the folder's own if none exists."""
    return nearest(PROJECT_FILE, folder)


class ServersFile:
    """A file with servers, as it is now."""

    def __init__(self, path: Path, label: str) -> None:
        """Read the file; a missing one is empty. Raises ConfigError with the place."""
        self.path = path
        self.label = label
        file = read_settings_file(path, label)
        self.exists = file is not None
        self.content = file.content if file else b""
        self._data = _parsed(self.content, label) if file else {}

    @property
    def entries(self) -> list[ServerEntry]:
        """The servers in the file. Raises ConfigError with the place."""
        servers = self._data.get(SERVERS, {})
        if not isinstance(servers, dict):
            raise ConfigError(f"{self.label}: {SERVERS} must be a table of servers, not {describe_type(servers)}")
        entries: list[ServerEntry] = []
        for name, fields in servers.items():
            place = f"{self.label}: the server {name[:60]!r}"
            if not isinstance(fields, dict):
                raise ConfigError(f'{place} must be a table, as in {{"command": "…"}}, not {describe_type(fields)}')
            entries.append(ServerEntry(name, fields, place))
        return entries

    def entry(self, name: str) -> ServerEntry | None:
        return next((each for each in self.entries if tool_prefix(each.name) == tool_prefix(name)), None)

    def put(self, name: str, fields: Mapping[str, Any]) -> None:
        """Add a server, and write the file. Everything else in it stays. Raises ConfigError."""
        self._write({each.name: each.fields for each in self.entries} | {name: dict(fields)})

    def remove(self, name: str) -> None:
        self._write({each.name: each.fields for each in self.entries if each.name != name})

    def _write(self, servers: dict[str, Any]) -> None:
        self._data = {**self._data, SERVERS: servers}
        content = (json.dumps(self._data, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace")
        target = Path(os.path.realpath(self.path))  # a link stays a link
        write_private(target, content) if self.path.name != PROJECT_FILE else write_shared(target, content)
        self.content, self.exists = content, True


def _parsed(content: bytes, label: str) -> dict[str, Any]:
    try:
        data = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{label}, line {line}: the file is not UTF-8 text; save it as UTF-8") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{label}, line {error.lineno}: this is not JSON: {error.msg}") from None
    except RecursionError:
        raise ConfigError(f"{label} is nested too deeply") from None
    if not isinstance(data, dict):
        raise ConfigError(f'{label} must be a table, as in {{"{SERVERS}": {{…}}}}, not {describe_type(data)}')
    return data


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HTTP = ("http", "streamable-http", "streamableHttp", "sse")


class ServerEntry(msgspec.Struct, frozen=True):
    """A server as a file has it. Fields that other programs have are ignored."""

    name: str
    fields: dict[str, Any]
    place: str
    """The file and the server, for error messages."""

    def shown(self, folder: Path) -> list[tuple[str, str]]:
        """Return every field by name, as it is written: variables are not replaced. `folder` is where it starts."""
        shown: list[tuple[str, str]] = []
        for name, value in self.fields.items():
            if name == "args" and isinstance(value, list):
                shown += [(f"argument {number}", _text(item)) for number, item in enumerate(value, 1)]
            elif isinstance(value, dict):
                kind = {"env": "variable", "headers": "header"}.get(name, name)
                shown += [(f"{kind} {key}", _text(item)) for key, item in value.items()]
            else:
                shown.append((name, _text(value)))
        return shown if "url" in self.fields or "cwd" in self.fields else [*shown, ("starts in", str(folder))]

    def texts(self) -> list[str]:
        """Return the texts in which variables are replaced."""
        found = [self.fields.get("command"), self.fields.get("cwd"), self.fields.get("url")]
        args, env, headers = (self.fields.get(name) for name in ("args", "env", "headers"))
        found += args if isinstance(args, list) else []
        found += [item for table in (env, headers) if isinstance(table, dict) for item in table.values()]
        return [each for each in found if isinstance(each, str)]

    def line(self, environment: Mapping[str, str], folder: Path) -> CommandLine:
        """Return the command line, with the values of variables and with their defaults."""
        env = self.fields.get("env")
        given = [f"{name}={value}" for name, value in env.items()] if isinstance(env, dict) else []
        cwd, args = self.fields.get("cwd"), self.fields.get("args")
        words = [str(each) for each in (self.fields.get("command"), *(args if isinstance(args, list) else ())) if each]
        written = [*words, *given]

        def filled(text: str) -> str:
            return replaced(_VARIABLE, lambda found: environment.get(found[1]) or found[2] or "", text)

        defaults = [replaced(_VARIABLE, lambda found: found[2] or "", text) for text in written]
        texts = dict.fromkeys((*map(filled, written), *defaults))
        return project_line(texts, folder, cwd=filled(cwd) if isinstance(cwd, str) else "")

    def server(
        self, environment: Mapping[str, str], folder: Path, start: Path | None = None, *, may_be_trusted: bool
    ) -> McpServer:
        """Return the server, whose `cwd` is relative to `folder`. Without one it starts in `start`, else in `folder`.

        Raises ConfigError with the place and what to do.
        """
        kind = self.fields.get("type", "http" if "url" in self.fields else "stdio")
        common: dict[str, Any] = {"trusted": may_be_trusted and self._typed("trusted", False, "true or false")}
        if (seconds := self.fields.get("timeout")) is not None:
            common["timeout"] = self._seconds(seconds)
        if "protocol" in self.fields:
            common["protocol"] = self._expanded("protocol", self.fields["protocol"], {})
        try:
            if kind == "stdio":
                return StdioServer(
                    self.name,
                    self._text("command", environment),
                    self._texts("args", environment),
                    self._table("env", environment),
                    str(folder / self._text("cwd", environment, str(start or folder))),
                    **common,
                )
            if kind in _HTTP:
                return HttpServer(
                    self.name, self._text("url", environment), self._table("headers", environment), **common
                )
        except ConfigError as error:
            raise ConfigError(str(error) if self.place in str(error) else f"{self.place}: {error}") from None
        shown = quoted(kind) if isinstance(kind, str) else describe_type(kind)
        raise ConfigError(f'{self.place}: type must be "stdio" or "http", not {shown}')

    def _text(self, field: str, environment: Mapping[str, str], default: str | None = None) -> str:
        value = self.fields.get(field, default)
        if value is None:
            raise ConfigError(f'{self.place}: {field} is missing; a server has "command" and "args", or "url"')
        return self._expanded(field, value, environment)

    def _texts(self, field: str, environment: Mapping[str, str]) -> tuple[str, ...]:
        items = self._typed(field, [], "a list of texts")
        return tuple(self._expanded(field, item, environment) for item in items)

    def _table(self, field: str, environment: Mapping[str, str]) -> dict[str, str]:
        items = self._typed(field, {}, "a table of names and texts").items()
        return {name: self._expanded(f"{field}.{name}", item, environment) for name, item in items}

    def _expanded(self, field: str, value: Any, environment: Mapping[str, str]) -> str:
        if not isinstance(value, str) or "\0" in value:
            found = "a text with a NUL in it" if isinstance(value, str) else describe_type(value)
            raise ConfigError(f"{self.place}: {field} must be a text, not {found}")

        def value_of(found: re.Match[str]) -> str:
            set_to = environment.get(found[1]) or found[2]
            if set_to is None:
                raise ConfigError(
                    f"{self.place}: {field} uses the variable {found[1]}, which is not set; "
                    f"export it, or write ${{{found[1]}:-default}}"
                )
            return set_to

        return replaced(_VARIABLE, value_of, value)

    def _typed(self, field: str, default: Any, words: str) -> Any:
        value = self.fields.get(field, default)
        if not isinstance(value, type(default)):
            raise ConfigError(f"{self.place}: {field} must be {words}, not {describe_type(value)}")
        return value

    def _seconds(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
            raise ConfigError(f"{self.place}: timeout must be a number of seconds from 0 to 86400")
        return float(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
