"""The status line of the chat: model, permission mode, sandbox, context use and cost."""

from __future__ import annotations

from outrider.cli.chat.current_session import CurrentSession
from outrider.cli.chat.expected_model import is_without_key
from outrider.cli.sanitize import safe_line
from outrider.text import dollars, thousands


class StatusLine:
    """Builds the status line."""

    def __init__(self, current: CurrentSession) -> None:
        self._current = current
        self._window: tuple[str, int | None] = ("", None)
        self._used: tuple[str, int] = ("", 0)
        """The session, and the tokens of its context."""
        self.sandbox = ""
        """The state of the sandbox, once known."""

    def __call__(self) -> str:
        """Return the line; the most important parts come first, for narrow windows."""
        current = self._current
        parts = [
            "demo" if self.is_demo_expected else safe_line(current.model_name.rpartition("/")[2]),
            f"effort: {current.effort}" if current.effort else "",
            f"permissions: {current.mode}",
            self.sandbox,
            self._context(),
            self._cost(),
        ]
        return " · ".join(part for part in parts if part)

    @property
    def is_demo_expected(self) -> bool:
        """Guess whether the demo model will answer because no key is set. An exact answer would take too long."""
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
            from outrider.providers.windows import window_of

            self._window = session.provider.name, window_of(session.provider)
        window = self._window[1]
        return f"context {used / window:.0%}/{thousands(window)}" if window else f"context {thousands(used)} tokens"

    def _cost(self) -> str:
        usage = self._current.usage
        return dollars(usage.cost) if usage else ""
