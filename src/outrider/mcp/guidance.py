"""What servers say about the use of their tools, for the system prompt: limited, marked, and fixed once it was sent."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.prompts import prompt
from outrider.text.visible import one_line

LONGEST = 2_000
"""Characters of one server."""
LONGEST_TOGETHER = 10_000
_CUT = "… [cut]"


class Guidance:
    """The instructions of the servers that have joined a session.

    A text that was sent stays as it was, also if its server ends, restarts or says something else: a change costs the
    prompt cache, and a server cannot slip in other words later.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self.text = ""
        """The part of the system prompt. Empty if no server says anything."""

    def join(self, said: Mapping[str, str]) -> None:
        """Add the servers that have not joined yet, by name."""
        new = {name: text for name, text in said.items() if name not in self._texts}
        if not new:
            return
        for name, text in new.items():
            left = LONGEST_TOGETHER - sum(map(len, self._texts.values()))
            self._texts[name] = _bounded(text.strip(), min(LONGEST, left))
        parts = [_marked(name, text) for name, text in self._texts.items() if text]
        self.text = "\n\n".join([prompt("mcp_instructions"), *parts]) if parts else ""


def _bounded(text: str, limit: int) -> str:
    """Return the text, or its beginning.

    >>> _bounded("short", 10), _bounded("x" * 20, 10), _bounded("text", 3)
    ('short', 'xxx… [cut]', '')
    """
    if len(text) <= limit:
        return text
    return text[: limit - len(_CUT)] + _CUT if limit > len(_CUT) else ""


def _marked(name: str, text: str) -> str:
    """Return the text between marks that it cannot close itself."""
    label = one_line(name, 80).replace('"', "'")
    return f'<mcp_server name="{label}">\n{text.replace("<", "‹")}\n</mcp_server>'
