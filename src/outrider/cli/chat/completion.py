"""Completion of commands after `/`, and of paths and resources of MCP servers after `@`."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

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


MOST_SCORED = 2_000
"""Matches that are compared in detail: of more, the shortest, with the typed text in one piece if there are enough."""
_INSIDE = re.compile(r"(?<=[A-Za-z0-9])[a-z0-9]")
"""A character that does not begin a word: `chatLine`, `chat_line` and `chat/line` have two words each."""


class FuzzyNames:
    """Many names to search, such as the files of a folder."""

    def __init__(self, names: Sequence[str]) -> None:
        ordered = sorted(names, key=lambda name: (name.startswith(".") or "/." in name, len(name), name))
        self._names = [(name, name.lower()) for name in ordered]
        """Each name as it is and in lower case, hidden ones last."""

    def matching(self, typed: str, most: int) -> list[str]:
        """Return the best matches; hidden files come last, unless a dot was typed first."""
        wanted = typed.lower()
        matches = re.compile("".join(f"[^{re.escape(each)}]*{re.escape(each)}" for each in wanted), re.DOTALL).match
        found = [pair for pair in self._names if matches(pair[1])]
        if len(found) > MOST_SCORED:
            whole = [pair for pair in found if wanted in pair[1]]
            found = (whole if len(whole) >= most else found)[:MOST_SCORED]

        def rank(name: str) -> tuple[bool, int, int, str]:
            is_hidden = not typed.startswith(".") and (name.startswith(".") or "/." in name)
            return is_hidden, -score(name, wanted), len(name), name

        return nsmallest(most, (name for name, _ in found), key=rank)


def matching_names(names: Sequence[str], typed: str) -> list[str]:
    """Return the names that match, the best first; those that are equally good in their order."""
    wanted = typed.lower()
    scores = {name: score(name, wanted) for name in names}
    return sorted((name for name in names if scores[name] >= 0), key=lambda name: -scores[name])


def score(name: str, typed: str) -> int:
    """Return how well a name has these characters in order, in lower case; -1 if it has not.

    >>> score("cli/picker.py", "pick") > score("cli/topics.py", "pics") > score("cli/a.py", "x") == -1
    True
    """
    lower = name.lower()
    if len(lower) != len(name):  # such as İ
        name = lower
    heads = _INSIDE.sub("\0", name).lower()
    base = lower.rstrip("/").rfind("/") + 1
    found = (_value(places, heads, base) for places in (_by_words(lower, heads, typed), _from_end(lower, typed)))
    return max(found)


def _value(places: list[int] | None, heads: str, base: int) -> int:
    """Return what it is worth that the characters are at these places."""
    if places is None:
        return -1
    value, before = 0, -2
    for place in places:
        value += 2 if place >= base else 1  # in the file's name
        value += 6 if place == before + 1 else 4 if heads[place] != "\0" else 0
        before = place
    return value + (4 if places and places[0] == base else 0)


def _by_words(lower: str, heads: str, typed: str) -> list[int] | None:
    """Find each character directly after the one before, else at the beginning of a word, else anywhere."""
    places: list[int] = []
    at = 0
    for each in typed:
        if not (places and lower.startswith(each, at)):
            head = heads.find(each, at)
            at = head if head >= 0 else lower.find(each, at)
        if at < 0:
            return None
        places.append(at)
        at += 1
    return places


def _from_end(lower: str, typed: str) -> list[int] | None:
    """Find the typed text in one piece, as late as possible; else its characters, each as late as possible."""
    whole = lower.rfind(typed)
    if whole >= 0:
        return list(range(whole, whole + len(typed)))
    places: list[int] = []
    at = len(lower)
    for each in reversed(typed):
        at = lower.rfind(each, 0, at)
        if at < 0:
            return None
        places.insert(0, at)
    return places
