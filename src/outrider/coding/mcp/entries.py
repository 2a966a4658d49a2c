"""One server in a file: its fields, checked, with variables replaced by their values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from outrider.coding.consent.command_line import CommandLine, project_line
from outrider.coding.masking import describe_type, quoted
from outrider.errors import ConfigError
from outrider.mcp.servers import HttpServer, McpServer, StdioServer

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
            return _VARIABLE.sub(lambda found: environment.get(found[1]) or found[2] or "", text)

        defaults = [_VARIABLE.sub(lambda found: found[2] or "", text) for text in written]
        texts = dict.fromkeys((*map(filled, written), *defaults))
        return project_line(texts, folder, cwd=filled(cwd) if isinstance(cwd, str) else "")

    @property
    def is_disabled(self) -> bool:
        return self.fields.get("disabled") is True

    def server(self, environment: Mapping[str, str], cwd: Path, *, may_be_trusted: bool) -> McpServer:
        """Return the server. Raises ConfigError with the place and what to do."""
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
                    self._text("cwd", environment, str(cwd)),
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

        def replaced(found: re.Match[str]) -> str:
            set_to = environment.get(found[1]) or found[2]
            if set_to is None:
                raise ConfigError(
                    f"{self.place}: {field} uses the variable {found[1]}, which is not set; "
                    f"export it, or write ${{{found[1]}:-default}}"
                )
            return set_to

        return _VARIABLE.sub(replaced, value)

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
