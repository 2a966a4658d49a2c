"""Completion of commands after `/`, and of paths and resources of MCP servers after `@`."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from outrider.cli.chat.fuzzy_search import FuzzyNames, matching_names
from outrider.errors import McpError
from outrider.text.visible import safe_line

if TYPE_CHECKING:
    from outrider.mcp.pool import ServerPool
    from outrider.mcp.running import RunningServers


MAX_COMPLETIONS = 50
REFRESH_SECONDS = 10.0
_MAX_FILES = 50_000
_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]*)|([^\s"]*))$')
"""An unfinished mention at the end of the line."""


class ChatCompleter(Completer):
    """Completes commands at the start of the line, and files and resources after an @."""

    def __init__(
        self,
        folder: Path,
        list_files: Callable[[], list[str]],
        commands: Callable[[], Mapping[str, str]],
        servers: ServerNames | None = None,
    ) -> None:
        self._files = FileNames(folder, list_files)
        self._commands = commands
        self._servers = servers

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the completions for the text before the cursor."""
        before = document.text_before_cursor
        if before.startswith("/") and " " not in before and "\n" not in before:
            prompts = self._servers.prompts() if self._servers else {}
            known = {**self._commands(), **prompts}
            for name in matching_names(list(known), before[1:]):
                yield Completion(f"/{name}", -len(before), display_meta=safe_line(known[name]))
            return
        if found := _MENTION.search(before):
            for name in self._files.matching(found[1] or found[2]):
                text = f'@"{name}"' if " " in name else f"@{name}"
                yield Completion(text, -len(found[0]), display=name)
            resources = self._servers.resources(found[2] or "") if self._servers else {}
            for name, description in list(resources.items())[:MAX_COMPLETIONS]:
                yield Completion(f"@{name}", -len(found[0]), display=name, display_meta=description)


class FileNames:
    """The files of a folder, without those that git ignores; refreshed from time to time."""

    def __init__(self, folder: Path, list_files: Callable[[], list[str]]) -> None:
        self._folder = folder
        self._list_files = list_files
        self._names = FuzzyNames(())
        self._refreshed = float("-inf")
        self._refreshing = threading.Lock()

    def matching(self, typed: str) -> list[str]:
        """Return the matches, the best first; hidden files last."""
        if os.path.isabs(typed) or typed.startswith(("~", "..")):
            return self._outside(typed)
        with self._refreshing:  # a Tab waits for the names that are being collected since a letter was typed
            self._refresh()
        return self._names.matching(typed, MAX_COMPLETIONS)

    def _refresh(self) -> None:
        if time.monotonic() - self._refreshed < REFRESH_SECONDS:
            return
        self._refreshed = time.monotonic()
        if files := self._list_files()[:_MAX_FILES]:
            self._names = FuzzyNames([*files, *_folders(files)])

    def _outside(self, typed: str) -> list[str]:
        parent, _, start = typed.rpartition("/")
        try:
            with os.scandir(self._folder / Path(parent or "/").expanduser()) as entries:
                found = {each.name: each.path for each in entries if each.name.isprintable()}
        except (OSError, RuntimeError):
            return []
        names = matching_names(sorted(found), start)[:MAX_COMPLETIONS]
        return [f"{parent}/{name}{'/' if os.path.isdir(found[name]) else ''}" for name in names]


def _folders(files: Iterable[str]) -> list[str]:
    """Return the folders of these files, each with a slash at its end."""
    found: set[str] = set()
    for name in files:
        parent = name.rpartition("/")[0]
        while parent and f"{parent}/" not in found:
            found.add(f"{parent}/")
            parent = parent.rpartition("/")[0]
    return sorted(found)


READ_SECONDS = 2.0
MOST = 500


class ServerNames:
    """The names of what servers offer, read from time to time. Call it in a thread: it may wait for a server."""

    def __init__(self, servers: Callable[[], RunningServers | None]) -> None:
        self._servers = servers
        self._prompts: dict[str, str] = {}
        self._resources: dict[str, str] = {}
        self._read_at = float("-inf")

    def prompts(self) -> dict[str, str]:
        """Return the descriptions of the prompts, by `server:prompt`."""
        self._refresh()
        return self._prompts

    def resources(self, typed: str) -> dict[str, str]:
        """Return the descriptions of the resources that match what was typed, by `server:uri`."""
        self._refresh()
        words = typed.lower()
        return {name: about for name, about in self._resources.items() if words in name.lower()}

    def _refresh(self) -> None:
        servers = self._servers()
        if servers is None or time.monotonic() - self._read_at < REFRESH_SECONDS:
            return
        is_early = bool(servers.starting)  # before the look: a server may get ready after it
        try:
            self._prompts, self._resources = servers.do_now(_read, READ_SECONDS)
            if not is_early:
                self._read_at = time.monotonic()
        except (McpError, TimeoutError):
            self._read_at = time.monotonic()


async def _read(pool: ServerPool) -> tuple[dict[str, str], dict[str, str]]:
    from outrider.coding.mcp.server_offers import list_prompts
    from outrider.text.visible import one_line

    prompts = {each.name: f"{each.usage} {each.description}".strip() for each in await list_prompts(pool)}
    resources: dict[str, str] = {}
    for client in pool.ready():
        name = client.server.name
        try:
            for resource in (await client.list_resources())[:MOST]:
                if resource.uri.isprintable() and " " not in resource.uri:
                    resources[f"{name}:{resource.uri}"] = one_line(resource.title or resource.name or "", 80)
        except McpError:
            continue
    return prompts, resources
