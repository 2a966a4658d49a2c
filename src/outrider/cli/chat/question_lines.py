"""What questions on the screen share: a line to write, and the keys that answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from outrider.cli.chat.keyboard import Keyboard, with_key
from outrider.cli.chat.session_view import SessionView
from outrider.cli.styles import BOLD, YELLOW, columns, styled, wrap_words
from outrider.text.visible import safe_line


class QuestionPrompt:
    """Asks the user, one question at a time."""

    def __init__(self, view: SessionView, keyboard: Keyboard, interrupt: Callable[[bool], None]) -> None:
        self._view = view
        self._keyboard = keyboard
        self._interrupt = interrupt
        """Cancels the turn. Called with True for Ctrl-C and False for Escape."""

    async def _read_line(
        self, label: str, above: Sequence[str] = (), shown: Callable[[str], str] = safe_line
    ) -> tuple[str, str]:
        """Let the user write a line. Return it, and the key that ended it: `enter`, `escape` or `c-c`."""
        text = ""
        while True:
            lines = wrap_words(shown(f"{label} {text}▏"), self._view.region.width)
            self._view.ask([*above, *(styled(line, YELLOW) for line in lines)])
            key = await self._keyboard.next()
            if key.name in ("enter", "escape", "c-c"):
                return text, key.name
            text = with_key(text, key)


def key_lines(keys: Mapping[str, str], width: int) -> Iterator[str]:
    """Yield keys with their meanings: in one line, or in a narrow window one a line."""
    together = "    ".join(f"{key} {meaning}" for key, meaning in keys.items())
    shown = [f"{styled(key, BOLD)} {meaning}" for key, meaning in keys.items()]
    yield from [f"  {'    '.join(shown)}"] if columns(together) <= width - 2 else [f"  {each}" for each in shown]
