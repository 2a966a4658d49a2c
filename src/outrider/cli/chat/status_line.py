"""The status line of the chat, and the warning before the provider drops the cache of a long conversation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.login import is_without_key
from outrider.cli.styles import columns, fit
from outrider.providers.catalogue.prices import rates_of
from outrider.text import counted, dollars, thousands
from outrider.text.visible import safe_line

if TYPE_CHECKING:
    from outrider.cli.chat.status_command import StatusCommand
    from outrider.providers.base import CacheLifetime
    from outrider.runtime.session import Session

BUILT_IN = "{model} · effort: {effort} · permissions: {mode} · {sandbox} · {tasks} · {context} · {cost}"
NARROWER = (
    "{model} · {effort} · {mode} · {sandbox} · {tasks} · {context} · {cost}",
    "{model} · {effort} · {mode} · {sandbox} · {tasks} · {used} · {cost}",
    "{model} · {mode} · {tasks} · {used} · {cost}",
    "{model} · {mode} · {used} · {cost}",
    "{model} · {mode} · {cost}",
    "{mode} · {used} · {cost}",
    "{mode} · {cost}",
    "{cost}",
)
"""The built-in line for narrower and narrower windows. The cost stays."""
SEPARATOR = " · "
LONGEST = 500
_FIELD = re.compile(r"\{(\w+)\}")


class StatusLine:
    """Builds the status line."""

    def __init__(self, current: CurrentSession, template: str | None = None) -> None:
        self._current = current
        self._template = template or BUILT_IN
        self.command: StatusCommand | None = None
        """The user's command that makes the line, if there is one."""
        self._window: tuple[str, int | None] = ("", None)
        self._used: tuple[str, int] = ("", 0)
        """The session, and the tokens of its context."""
        self.sandbox = ""
        """The state of the sandbox, once known."""

    def __call__(self, width: int = LONGEST) -> str:
        """Return the line, with what fits into the columns."""
        fields = self.fields()
        if self.command:
            self.command.update(fields)
            if self.command.line:
                return fit(self.command.line, min(width, LONGEST))
        used = fields["context"].partition("/")[0].removeprefix("context ")
        return fitted(self._template, fields | {"used": used}, width)

    def fields(self) -> dict[str, str]:
        """Return what a template or a command can use. What is not known yet is empty."""
        current = self._current
        agents = current.session.background.working if current.session else ()
        running = current.background.running + len(agents)
        return {
            "model": "no key" if self.is_without_key else current.model_name.rpartition("/")[2],
            "effort": current.effort or "",
            "mode": current.mode,
            "sandbox": self.sandbox,
            "context": self._context(),
            "cost": dollars(usage.cost) if (usage := current.usage) else "",
            "tasks": counted(running, "task") if running else "",
            "folder": current.where,
            "branch": branch_of(current.folder) if self.command or "{branch}" in self._template else "",
        }

    @property
    def is_without_key(self) -> bool:
        """Guess whether no key is set for the model. An exact answer would take too long."""
        return is_without_key(self._current.model_name)

    def used(self, tokens: int) -> None:
        """Record the tokens of the context: input and output of a reply, or what a compaction has left."""
        if session := self._current.session:
            self._used = session.id, tokens

    def _context(self) -> str:
        session = self._current.session
        if session is None or self._used[0] != session.id:
            return ""
        used = self._used[1]
        if self._window[0] != session.provider.name:
            from outrider.providers.catalogue.windows import window_of

            self._window = session.provider.name, window_of(session.provider)
        window = self._window[1]
        return f"context {used / window:.0%}/{thousands(window)}" if window else f"context {thousands(used)} tokens"


def filled(template: str, fields: dict[str, str]) -> str:
    """Return a template with its fields. A part between separators whose fields are all empty is left out.

    >>> filled("{model} · effort: {effort} · {folder}", {"model": "demo", "effort": "", "folder": "~"})
    'demo · ~'
    """
    parts = []
    for part in template.split(SEPARATOR):
        known = [fields[name] for name in _FIELD.findall(part) if name in fields]
        if not known or any(known):
            parts.append(_FIELD.sub(lambda found: fields.get(found[1], found[0]), part))
    return safe_line(SEPARATOR.join(parts))[:LONGEST]


def fitted(template: str, fields: dict[str, str], width: int) -> str:
    """Return a status line that fits: the built-in one in a shorter form, another without its last parts but the cost.

    >>> fitted("{cost} · {model} · {mode}", {"model": "demo", "mode": "ask", "cost": "$0.01"}, 14)
    '$0.01 · demo'
    """
    line = filled(template, fields)
    for narrower in NARROWER if template == BUILT_IN else _without_last_parts(template):
        if columns(line) <= width:
            break
        line = filled(narrower, fields) or line
    return fit(line, width)


def _without_last_parts(template: str) -> Iterator[str]:
    parts = template.split(SEPARATOR)
    for at in reversed(range(len(parts))):
        if "{cost}" not in parts[at] and len(parts) > 1:
            del parts[at]
            yield SEPARATOR.join(parts)


def branch_of(folder: Path) -> str:
    from outrider.coding.protected_paths import git_folders

    for place in git_folders(folder):
        try:
            with (place / "HEAD").open(errors="replace") as file:
                return file.readline(1000).strip().removeprefix("ref: refs/heads/")
        except OSError:
            continue
    return ""


LEAST_TOKENS = 50_000
"""The smallest conversation for which the user is warned: to send a shorter one anew costs a few cents."""
LEAD_SECONDS = 60.0
"""How long before the end of the cache."""


class CacheWarning:
    """Waits while the user pauses, and warns once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._replied: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def reply_came(self) -> None:
        """Note that the model has replied: its provider keeps the cache from now on."""
        self._replied = asyncio.get_running_loop().time()

    def start(self, session: Session | None) -> None:
        """Begin to wait: the turn has ended."""
        self.stop()
        seconds = lifetime(session) if session else None
        if not session or seconds is None or self._replied is None:
            return
        loop, used = asyncio.get_running_loop(), session.context.used
        moment = self._replied + seconds - LEAD_SECONDS
        if used >= LEAST_TOKENS and moment > loop.time():
            text = warning(session.provider.name, used, is_longest=session.agent.cache == "1h")
            self._timer = loop.call_at(moment, self._tell, text)

    def stop(self) -> None:
        """Stop waiting: another turn begins."""
        if self._timer:
            self._timer.cancel()
            self._timer = None


def lifetime(session: Session) -> float | None:
    """Return for how many seconds the provider keeps the cache of a session; None if it does not promise a time."""
    seconds: Callable[[CacheLifetime | None], float | None] | None = getattr(session.provider, "cache_seconds", None)
    return seconds(session.agent.cache) if seconds else None


def warning(model: str, tokens: int, *, is_longest: bool = False) -> str:
    """Return what is lost with the cache.

    >>> warning("ollama/qwen3", 120_000)
    'In a minute the cache of these 120k tokens ends. To keep it longer: outrider config set cache 1h'
    """
    prefix, _, name = model.partition("/")
    rates = next((each for each in rates_of(prefix, name) if tokens > each.above), None)
    cost = dollars(tokens * (rates.written - rates.cached)) if rates else ""
    more = f"; the next message then costs about {cost} more" if cost else ""
    how = "" if is_longest else " To keep it longer: outrider config set cache 1h"
    return f"In a minute the cache of these {thousands(tokens)} tokens ends{more}.{how}"
