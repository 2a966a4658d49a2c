"""What a command printed, told apart from what is said about it, where only its result is known."""

from __future__ import annotations

from typing import Any

from outrider.acp.calls import exit_code_of
from outrider.coding.toolbox.shell.outcomes import exit_sentence
from outrider.conversation.messages import ToolResultBlock
from outrider.runtime.calls import CANCELLED

_NOTHING, _STOPPED = "There was no output.", "The command was stopped."
_BLANK = 3
"""Ends of lines after an output that are given back to it; they are not in the result."""


def printed(result: ToolResultBlock, details: Any) -> tuple[str, str]:
    """The output, and the remarks that an exit status does not make already."""
    text, size = result.text, details.get("bytes") if isinstance(details, dict) else None
    known = [_NOTHING, exit_sentence(exit_code_of(details))]
    if text.startswith(CANCELLED):
        output, rest = _by_lines(text.removeprefix(CANCELLED).removeprefix("\n"), [_NOTHING, _STOPPED])
        return output, "\n".join([CANCELLED, *rest])
    if not size:
        return "", "\n".join(line for line in text.split("\n") if line not in known)
    output, rest = _by_size(text, size) or _by_lines(text, known)
    return output, "\n".join(line for line in rest if line not in known)


def _by_size(text: str, size: int) -> tuple[str, list[str]] | None:
    """None where the text is not what was printed: it was shortened, or had colours."""
    whole = text.encode()
    for blank in range(_BLANK + 1):
        output, rest = whole[: size - blank], whole[size - blank :]
        ends_there = not rest or rest.startswith(b"\n")
        if len(output) == size - blank and ends_there and not output.endswith(b"\n"):
            said = rest[1:].decode(errors="replace").split("\n")
            return output.decode(errors="replace") + "\n" * blank, said
    return None


def _by_lines(text: str, known: list[str]) -> tuple[str, list[str]]:
    lines = text.split("\n")
    while lines and lines[-1] in (*known, ""):
        lines.pop()
    return "".join(f"{line}\n" for line in lines), []
